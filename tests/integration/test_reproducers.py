"""Reproducers run on their own, in both languages, on a stand-in for the driver."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.standin import replaying
from tests.standin.replaying import BASE, COUNT, INPUT, KERNEL, parameters, write
from warpsight.replay.capsule import manifest as m
from warpsight.replay.capsule.store import Writer
from warpsight.ui.cli import app

Y = BASE + 16384
INCLUDE = Path("/usr/local/cuda/include")


@pytest.fixture(scope="module")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = replaying.build(tmp_path_factory.mktemp("standin"))
    (folder / "libcuda.so").symlink_to("libcuda.so.1")
    return folder


def run(folder: Path, form: str, standin: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "replay.py"]
    if form == "cuda":
        compiler = shutil.which("c++")
        if compiler is None or not INCLUDE.is_dir():
            pytest.skip("no C++ compiler or no CUDA headers")
        paths = ["-I", str(INCLUDE), "-L", str(standin)]
        build = [compiler, "-std=c++17", "-x", "c++", "replay.cu", *paths, "-lcuda", "-o", "replay"]
        subprocess.run(build, cwd=folder, check=True)
        command = ["./replay"]
    return subprocess.run(
        command, cwd=folder, env={**os.environ, "LD_LIBRARY_PATH": str(standin)}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def export(capsule: Path, form: str) -> Path:
    folder = capsule.with_suffix(f".{form}")
    assert app.main(["capsule", "export", str(capsule), "--to", form, "-o", str(folder)]) == 0
    return folder


def everything(writer: Writer) -> dict[str, Any]:
    """A pointer to a variable in memory, a graph, a pitched upload, a fill and a copy."""
    table = writer.put(np.arange(16, dtype=np.float32).tobytes())
    variable = m.Global(0, "table", BASE + (1 << 30), 64, before=table, after=table)
    pointer = writer.put(struct.pack("<Q", variable.address + 8).ljust(INPUT.nbytes, b"\0"))
    y = np.zeros(COUNT, np.float32)
    y[:10] = y[100:110] = np.arange(2, 12)
    y[20:22] = 1.0
    y[24:26] = 2.0
    fill = np.float32(4).view(np.uint32)
    y[40:48] = 4.0
    nodes = [
        m.GraphNode(m.Launch(0, 0, (1, 1, 1), (1, 1, 1), parameters(Y, BASE, count=10))),
        m.GraphNode(m.Copy(0, 40, destination=Y + 400, source=Y), [0]),
    ]
    host = writer.put(np.array([1, 1, 2, 2], np.float32).tobytes())
    return {
        "globals": [variable],
        "graphs": [m.Graph(nodes)],
        "allocations": [
            m.Allocation(BASE, INPUT.nbytes, "malloc", before=pointer, after=pointer, relocations=[m.Relocation(0, 0, 8)]),
            m.Allocation(Y, INPUT.nbytes, "malloc", after=writer.put(y.tobytes())),
        ],
        "operations": [
            m.GraphLaunch(0, 0),
            m.Copy(0, 8, destination=Y + 80, host=host, rows=2, destination_pitch=16),
            m.Set(0, Y + 160, int(fill), 4, 4, rows=2, pitch=16),
            m.Synchronize(),
        ],
    }  # fmt: skip


@pytest.mark.parametrize("form", ["python", "cuda"])
def test_a_reproducer_leaves_the_recorded_bytes(standin: Path, tmp_path: Path, form: str) -> None:
    capsule = tmp_path / "x.capsule"

    def part(name: str) -> Any:
        return lambda writer: everything(writer)[name]

    write(
        capsule,
        ("through",),
        **{name: part(name) for name in ("globals", "graphs", "allocations", "operations")},
    )
    done = run(export(capsule, form), form, standin)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2 allocations" in done.stdout


@pytest.mark.parametrize("form", ["python", "cuda"])
def test_a_reproducer_says_what_differs(standin: Path, tmp_path: Path, form: str) -> None:
    write(tmp_path / "x.capsule", (KERNEL, "scale_off"))
    done = run(export(tmp_path / "x.capsule", form), form, standin)
    assert done.returncode == 4 and f"memory 1 at {Y:#x}: differs from byte 28 on" in done.stdout


def test_an_existing_folder_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "x.capsule")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years")
    for more in ([], ["-f"]):
        assert (
            app.main(["capsule", "export", str(tmp_path / "x.capsule"), "-o", str(tmp_path / "mine"), *more])
            == 2
        )
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years" and "exists" in capsys.readouterr().err
    folder = export(tmp_path / "x.capsule", "python")
    assert (
        app.main(
            ["capsule", "export", str(tmp_path / "x.capsule"), "--to", "python", "-o", str(folder), "-f"]
        )
        == 0
    )


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
def test_nvcc_builds_a_reproducer(standin: Path, tmp_path: Path) -> None:
    write(tmp_path / "x.capsule")
    folder = export(tmp_path / "x.capsule", "cuda")
    subprocess.run(
        ["nvcc", "-o", "replay", "replay.cu", "-L", str(standin), "-lcuda"], cwd=folder, check=True
    )
