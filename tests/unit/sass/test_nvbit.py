"""The NVBit tool: what it is asked for, how it is found and built, and what is refused."""

from __future__ import annotations

import json
import os
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from warpsight.errors import WarpsightError
from warpsight.formats.events.blocks import MAGIC
from warpsight.machine import checks
from warpsight.race import delays, plan
from warpsight.sass.events import nvbit, tracing
from warpsight.sass.events.trace import EventTrace
from warpsight.ui.cli import app

_NVCC = """#!{python}
import sys
with open({log!r}, "a") as log:
    print(*sys.argv[1:], file=log)
if {fails}:
    sys.exit("tool.cpp(7): error: no such thing")
open(sys.argv[sys.argv.index("-o") + 1], "w").close()
"""


@pytest.fixture
def core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks like NVBit's, named by the variable; the cache is empty."""
    folder = tmp_path / "nvbit_release" / "core"
    folder.mkdir(parents=True)
    (folder / "nvbit.h").write_text("")
    (folder / "libnvbit.a").write_bytes(b"!<arch>\n")
    monkeypatch.setenv("NVBIT_PATH", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def _compiler(folder: Path, monkeypatch: pytest.MonkeyPatch, *, fails: bool = False) -> Path:
    """A program named nvcc, first in PATH, that notes how it was called."""
    log, nvcc = folder / "calls", folder / "bin" / "nvcc"
    nvcc.parent.mkdir()
    nvcc.write_text(_NVCC.format(python=sys.executable, log=str(log), fails=fails))
    nvcc.chmod(0o755)
    monkeypatch.setenv("PATH", f"{nvcc.parent}{os.pathsep}{os.environ['PATH']}")
    return log


def test_the_request_says_what_is_recorded() -> None:
    selection = tracing.TraceSelection(
        events=("registers", "memory"), kernels=("gemm*",), launches=(2, 3), sass=("HGMMA", "^BAR"), when="both",
        predicates=True, warps=(0, 3), every=4, ring_mib=8,
    )  # fmt: skip
    lines = tracing.nvbit_request(selection, Path("/x/events"))
    assert {line for line in lines if not line.startswith(("description", "nvdisasm"))} == {
        "file=/x/events", "library=NVBit", "collect=63", "sass=HGMMA", "sass=^BAR", "kernel=gemm*", "launches=2..3", "warps=9",
        "every=4", f"ring={8 << 20}",
    }  # fmt: skip
    executions = tracing.TraceSelection(events=("instructions",))
    assert "collect=1" in tracing.nvbit_request(executions, Path("/x/events"))
    copies = tracing.TraceSelection(events=("tensor-copies", "memory"))
    assert copies.needs_nvbit
    assert "collect=68" in tracing.nvbit_request(copies, Path("/x/events"))


def test_the_tool_is_built_once_for_a_copy_and_a_gpu(
    core: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = _compiler(tmp_path, monkeypatch)
    first = nvbit.tool(lambda: [90])
    called = log.read_text()
    assert first.is_file()
    assert "arch=compute_90,code=sm_90" in called
    assert f"-I{core}" in called
    assert nvbit.tool(lambda: [90]) == first
    assert log.read_text() == called
    assert nvbit.tool(lambda: [80]) != first
    (core / "libnvbit.a").write_bytes(b"!<arch>\nanother release")
    assert nvbit.tool(lambda: [90]) != first


def test_a_compiler_that_refuses_is_quoted(
    core: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _compiler(tmp_path, monkeypatch, fails=True)
    with pytest.raises(WarpsightError, match=r"cannot be built with .*tool.cpp\(7\): error: no such thing"):
        nvbit.tool(lambda: [90])
    assert not list((tmp_path / "cache").rglob("*.so"))


def test_a_folder_without_nvbit_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NVBIT_PATH", str(tmp_path))
    with pytest.raises(WarpsightError, match=r"has no nvbit\.h"):
        nvbit.tool(lambda: [90])
    monkeypatch.delenv("NVBIT_PATH")
    with pytest.raises(WarpsightError, match="set NVBIT_PATH to its folder core"):
        nvbit.tool(lambda: [90])


def test_the_doctor_says_what_registers_need(
    core: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _compiler(tmp_path, monkeypatch)
    assert checks.instruction_registers().state == checks.OK
    monkeypatch.delenv("NVBIT_PATH")
    missing = checks.instruction_registers()
    assert (missing.state, "NVBIT_PATH" in missing.fix) == (checks.MISSING, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--events", "registers,barriers"], "barriers cannot be traced in the same run"),
        (["--events", "tensor-copies,tma"], "tma cannot be traced in the same run"),
        (["--events", "instructions", "--when", "both"], "add --events registers"),
        (["--events", "registers", "--when", "never"], "write before, after or both"),
        (["--events", "registers", "--addresses", "0..4096"], "--addresses cannot be used with NVBit"),
        (["--sass", "LDG("], "--sass LDG(: "),
        (["--category", "maths"], "the categories are mma, tma, sync, memory"),
    ],
)
def test_what_cannot_be_traced_together_is_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.main(["sass", "trace", *words, "--", "true"]) != 0
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_plan_is_of_one_of_the_two_tools() -> None:
    def point(kind: str) -> plan.Point:
        return plan.Point("_Z1kv", "0" * 64, 16, kind)

    def made(*kinds: str) -> plan.Plan:
        points = tuple(map(point, kinds))
        return plan.Plan(mode="fixed", seed=1, floor_ns=5, ceiling_ns=5, points=points)

    assert delays.needs_nvbit(made("instruction", "launch"))
    assert not delays.needs_nvbit(made("global", "launch"))
    with pytest.raises(WarpsightError, match="make two plans"):
        delays.needs_nvbit(made("instruction", "global"))
    assert any(line.startswith("point 16 66 ") for line in delays.lines(made("instruction")))


def test_two_launches_of_a_kernel_in_one_graph_keep_their_events(tmp_path: Path) -> None:
    trace, pc = tmp_path / "a.events", 0x1200
    shape = {"grid": [1, 1, 1], "block": [32, 1, 1], "cluster": [1, 1, 1]}
    where = {
        "stream": 1,
        "context": 16,
        "device": 0,
        "thread": 42,
        "monotonic": 2000,
        "realtime": 6000,
        "graph": 1,
    }
    said = [
        {"kind": "process", "pid": 42, "monotonic": 1000, "realtime": 5000, "request": {"tool": "NVBit"}},
        {"kind": "function", "module": 0, "name": "scale", "pc": pc, "bytes": 0x80},
        *(
            {
                "kind": "launch",
                "launch": i,
                "index": i,
                "module": 0,
                "name": "scale",
                "pc": pc,
                **shape,
                **where,
            }
            for i in range(2)
        ),
    ]
    words = np.array([[0xFFFFFFFF | (66 | 4 << 8) << 32, pc, launch, 7] for launch in (1, 0, 1)], np.uint64)
    payloads = [(1, json.dumps(one).encode()) for one in said]
    payloads.append((2, struct.pack("<QII", 0, 0, 3) + bytes([4, 4, 4]) + bytes(5) + words.tobytes()))
    payloads.append((1, b'{"kind": "end"}'))
    blocks = (struct.pack("<IIQ", kind, zlib.crc32(data), len(data)) + data for kind, data in payloads)
    trace.write_bytes(MAGIC + b"".join(blocks))
    found = EventTrace(trace)
    assert [len(found.of_launch(launch)) for launch in range(2)] == [1, 2]
    assert found.notes == []
