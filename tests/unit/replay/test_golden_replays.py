"""Scripts and reproducers of capsules that were recorded on an H100; nothing is executed."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from warpsight.replay import elements, script
from warpsight.replay.capsule import layout
from warpsight.replay.capsule.checks import GRANULE, CapsuleError
from warpsight.replay.capsule.store import Capsule
from warpsight.replay.reproducer import export
from warpsight.replay.schedules.sequence import sequence
from warpsight.replay.script import ScriptSettings

FOLDER = Path(__file__).parents[2] / "golden" / "capsules"
CAPSULES = sorted(FOLDER.glob("*.capsule"))


@pytest.mark.parametrize("path", CAPSULES, ids=lambda path: path.stem)
def test_a_script_holds_the_recorded_memory_and_launch(path: Path, tmp_path: Path) -> None:
    capsule = Capsule.open(path)
    steps = sequence(capsule.manifest)
    written = script.write(capsule, steps, ScriptSettings(3, 1, script.GATE), tmp_path)
    data = written.data.read_bytes()
    for index, allocation in enumerate(capsule.manifest.allocations):
        mine = written.pieces[written.owners == index]
        assert int(mine["size"].sum()) == allocation.size and int(mine["address"][0]) == allocation.address
        for piece, chunk in zip(mine, capsule.chunks(allocation.before or ()), strict=False):
            assert data[int(piece["before"]) : int(piece["before"]) + len(chunk)] == chunk
    text = written.script.read_bytes()
    assert struct.unpack_from("<8s8I", text)[:4] == (b"WSREPLAY", 1, script.GATE, 0)
    assert capsule.manifest.operations[0].parameters in text  # type: ignore[union-attr]
    found = layout.mappings(capsule.manifest.allocations)
    assert not (found["address"] % GRANULE).any()


@pytest.mark.parametrize("path", CAPSULES, ids=lambda path: path.stem)
def test_a_capsule_is_little_more_than_compressed_memory_and_machine_code(path: Path) -> None:
    held = Capsule.open(path).manifest
    parts = [module.image for module in held.modules]
    parts += [contents or [] for block in held.allocations for contents in (block.before, block.after)]
    needed = {name for contents in parts for name in contents}
    files = [file for file in path.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files if file.stem not in needed) < 1 << 20


@pytest.mark.parametrize("path", CAPSULES, ids=lambda path: path.stem)
def test_a_reproducer_is_python_and_cuda(path: Path, tmp_path: Path) -> None:
    capsule = Capsule.open(path)
    written = export(capsule, "python", tmp_path / "python")
    text = (written.folder / written.program).read_text()
    compile(text, "replay.py", "exec")
    assert capsule.manifest.operations[0].parameters.hex() in text  # type: ignore[union-attr]
    written = export(capsule, "cuda", tmp_path / "cuda")
    compiler = shutil.which("c++")
    if compiler is not None and Path("/usr/local/cuda/include/cuda.h").is_file():
        command = [
            compiler,
            "-std=c++17",
            "-fsyntax-only",
            "-Wall",
            "-Werror",
            "-x",
            "c++",
            "-I/usr/local/cuda/include",
        ]
        subprocess.run([*command, str(written.folder / written.program)], check=True)
    first = capsule.manifest.allocations[0]
    assert (written.folder / "memory_0.before").read_bytes() == capsule.bytes_of(first.before or ())


def test_the_types_of_recorded_arrays_are_recognised() -> None:
    """tma doubles floats; Triton adds floats; the GEMM multiplies bfloat16."""
    for name, index, wanted in (("tma", 1, "float32"), ("add", 2, "float32")):
        capsule = Capsule.open(FOLDER / f"{name}.capsule")
        after = np.frombuffer(capsule.bytes_of(capsule.manifest.allocations[index].after or ()), np.uint8)
        assert elements.guess(after) == wanted, name


def test_a_damaged_capsule_leaves_no_reproducer(tmp_path: Path) -> None:
    shutil.copytree(FOLDER / "tma.capsule", tmp_path / "x.capsule")
    capsule = Capsule.open(tmp_path / "x.capsule")
    blob = max((tmp_path / "x.capsule" / "blobs").iterdir(), key=lambda file: file.stat().st_size)
    blob.write_bytes(blob.read_bytes()[:-9] + b"123456789")
    with pytest.raises(CapsuleError):
        export(capsule, "python", tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["x.capsule"]
