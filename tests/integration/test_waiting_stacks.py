"""Launches of autograd's threads carry the stack of the Python thread that waits in backward, and no other."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.integration.stack_recording import HERE, MINORS, Recorded, interpreter, read
from tests.unit.native import segment_reader
from warpsight.capture.segments import layout

#: Whether PyTorch can say which pass a thread works on (since 2.0).
ENGINES = {"numbered": ["-DPASSES"], "unnumbered": []}
Row = tuple[list[int], list[tuple[str, str, int]]]


@pytest.fixture(scope="session", params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    built = tmp_path_factory.mktemp(request.param) / "libtorch_cpu.so"
    flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *ENGINES[request.param]]
    subprocess.run(
        [compiler, *flags, str(HERE / "waiting_engine.c"), "-o", str(built), "-pthread"], check=True
    )
    return built


def run(library: Path, folder: Path, minor: int | str, case: str, engine: Path) -> tuple[Recorded, list[Row]]:
    """Run a case; what was recorded, and the program's own log."""
    python = interpreter(minor)
    if python is None:
        pytest.skip(f"no CPython 3.{minor} here")
    command = [python, str(HERE / "waiting_target.py"), str(library), str(folder), case, str(engine)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    log = json.loads((folder / "log.json").read_text(encoding="utf-8"))
    return read(folder / "raw"), [(ids, [tuple(frame) for frame in frames]) for ids, frames in log]


@pytest.mark.parametrize("case", ["steps", "executed", "old", "deep"])
@pytest.mark.parametrize("minor", MINORS)
def test_the_stack_is_that_of_the_thread_that_waits(
    library: Path, tmp_path: Path, minor: int | str, case: str, engine: Path
) -> None:
    recorded, log = run(library, tmp_path, minor, case, engine)
    if engine.parent.name.startswith("numbered"):
        assert all(all(ids) for ids, _ in log)
    taken = [(id_, frames) for ids, frames in log for id_ in ids if id_]
    assert taken
    assert all(recorded.chain(id_) == frames for id_, frames in taken)
    assert {int(recorded.stacks[id_]["method"]) for id_, _ in taken} == {layout.STACK_WAITER}
    assert {bool(recorded.stacks[id_]["flags"] & 1) for id_, _ in taken} == {case == "deep"}


@pytest.mark.parametrize("minor", MINORS)
def test_threads_that_come_and_go_cost_no_wrong_stack(
    library: Path, tmp_path: Path, minor: int | str, engine: Path
) -> None:
    recorded, log = run(library, tmp_path, minor, "threads", engine)
    taken = [(recorded.chain(id_), frames) for ids, frames in log for id_ in ids if id_]
    assert all(found == frames for found, frames in taken)
    assert taken


@pytest.mark.parametrize("case", ["nobody", "elsewhere", "several"])
@pytest.mark.parametrize("minor", MINORS)
def test_where_nobody_or_more_than_one_waits_there_is_no_stack(
    library: Path, tmp_path: Path, minor: int | str, case: str, engine: Path
) -> None:
    _, log = run(library, tmp_path, minor, case, engine)
    assert log
    assert all(ids == [0] * len(ids) for ids, _ in log)
    (folder,) = {path.parent for path in (tmp_path / "raw").rglob("*.seg*")}
    said = [cause for source, cause, _ in segment_reader.read(folder).losses() if source == "python stacks"]
    assert [cause.partition(" ")[0] for cause in said] == (["several"] if case == "several" else [])
