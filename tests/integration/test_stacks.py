"""Every stack we take equals what Python says about it: real interpreters, known places."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.integration.stack_recording import HERE, MINORS, Recorded, interpreter, read
from warpsight.capture.segments import layout

CASES = {
    "nested": 15,
    "classes": 40,
    "generators": 10,
    "coroutines": 10,
    "executed": 10,
    "recursion": 4,
    "gil": 2,
    "dropped": 20000,
    "crowded": 6000,
    "renamed": 5000,
    "distinct": 16000,
    "forked": 2,
    "ending": 1,
}
Row = tuple[int, list[tuple[str, str, int]], bool]


def run(
    library: Path, folder: Path, minor: int | str, case: str, **environment: str
) -> tuple[Recorded, list[Row]]:
    """Run a case; what was recorded, and the program's own log."""
    python = interpreter(minor)
    if python is None:
        pytest.skip(f"no CPython 3.{minor} here")
    command = [python, str(HERE / "stack_cases.py"), str(library), str(folder), case]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    log = json.loads((folder / "log.json").read_text(encoding="utf-8"))
    return read(folder / "raw"), [
        (stack, [tuple(frame) for frame in frames], cut) for stack, frames, cut in log
    ]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("minor", MINORS)
def test_stack_equals_pythons_own(library: Path, tmp_path: Path, minor: int | str, case: str) -> None:
    recorded, log = run(library, tmp_path, minor, case)
    assert len(log) >= CASES[case]
    chains = {stack: recorded.chain(stack) for stack in {row[0] for row in log}}
    wrong = [(chains[stack], frames) for stack, frames, _ in log if chains[stack] != frames]
    assert not wrong, f"{len(wrong)} of {len(log)} differ, first: {wrong[0]}"
    assert all(bool(recorded.stacks[stack]["flags"] & 1) == cut for stack, _, cut in log)
    assert all(recorded.stacks[stack]["method"] == layout.STACK_FRAME_CHAIN for stack, _, _ in log)


@pytest.mark.parametrize("minor", MINORS)
def test_depth_limit_keeps_the_inner_frames(library: Path, tmp_path: Path, minor: int | str) -> None:
    recorded, log = run(library, tmp_path, minor, "recursion", WARPSIGHT_STACK_DEPTH="20")
    assert [cut for _, _, cut in log] == [False, True, True, True]
    for stack, frames, cut in log:
        assert recorded.chain(stack) == frames
        assert bool(recorded.stacks[stack]["flags"]) == cut


@pytest.mark.parametrize("minor", MINORS)
def test_equal_stacks_have_one_id(library: Path, tmp_path: Path, minor: int | str) -> None:
    recorded, log = run(library, tmp_path, minor, "distinct")
    ids: dict[str, set[int]] = {}
    for stack, frames, _ in log:
        ids.setdefault(repr(frames), set()).add(stack)
    assert len(ids) == 8000
    assert all(len(known) == 1 for known in ids.values())
    assert all(row["parent"] < row["id"] for row in recorded.stacks.values())


@pytest.mark.parametrize("minor", MINORS)
def test_native_and_python_frames_are_merged(library: Path, tmp_path: Path, minor: int | str) -> None:
    recorded, log = run(library, tmp_path, minor, "nested", WARPSIGHT_STACKS="both")
    for stack, frames, _ in log:
        chain, kinds = recorded.chain(stack), recorded.kinds(stack)
        python = [frame for frame, kind in zip(chain, kinds, strict=True) if kind == layout.FRAME_PYTHON]
        native = [frame for frame, kind in zip(chain, kinds, strict=True) if kind == layout.FRAME_NATIVE]
        assert python == frames
        assert native
        assert not any(frame[0].startswith("_PyEval_EvalFrameDefault") for frame in native)
        assert kinds[-1] == layout.FRAME_NATIVE  # ctypes' call, inside the innermost Python frame
        assert not any(str(library) in frame[1] for frame in native)
        assert recorded.stacks[stack]["method"] == layout.STACK_UNWINDER


@pytest.mark.parametrize("minor", MINORS[1:2])
def test_native_frames_name_their_modules(library: Path, tmp_path: Path, minor: int | str) -> None:
    recorded, log = run(library, tmp_path, minor, "gil", WARPSIGHT_STACKS="native")
    for stack, _, _ in log:
        assert set(recorded.kinds(stack)) == {layout.FRAME_NATIVE}
        chain = recorded.chain(stack)
        assert any(name.startswith("_PyEval_EvalFrameDefault") for name, _, _ in chain)
        assert any("libffi" in file for _, file, _ in chain)
        assert all(file for _, file, _ in chain)
    assert all(row["address"] for row in recorded.frames.values())
    assert any(row["build_id"] for row in recorded.frames.values())
