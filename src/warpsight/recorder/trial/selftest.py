"""Every capability tried for real on this machine: works, fails, or absent, with the reason."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from warpsight import _native
from warpsight.device_code import disassembly
from warpsight.errors import WarpsightError
from warpsight.formats import registry
from warpsight.formats.importing import import_files
from warpsight.formats.selection import Selection
from warpsight.machine import checks, opencl
from warpsight.machine.backends import registry as backends
from warpsight.machine.backends.backend import Backend
from warpsight.machine.cuda import cuda_driver
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace
from warpsight.recorder.external import tool as tools
from warpsight.recorder.trial import bench

WORKS, FAILS, ABSENT = "works", "fails", "absent"
_LAUNCHES = 200


@dataclass(frozen=True)
class Trial:
    """One capability: `outcome` is works, fails or absent (this machine lacks a requirement)."""

    capability: str
    outcome: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        """A flat JSON object."""
        return asdict(self)


def run() -> list[Trial]:
    """All trials; each is independent of the others."""
    trials: list[tuple[str, Callable[[], str | None], Callable[[], str]]] = [
        ("recorder", _no_library, _load),
        ("shared rings", _no_library, _rings),
        ("OpenCL recording", _no_opencl, lambda: _record("opencl")),
        ("CUDA recording", _no_cuda, lambda: _record("cuda")),
        ("host samples", _no_linux, _samples),
        ("GPU counters", _no_nvml, _counters),
        ("native stacks", _no_opencl_or_cuda, _native_stacks),
        ("own events", _no_library, _own_events),
        ("kernel log", _no_opencl_or_cuda, _kernel_log),
        ("reading traces", lambda: None, _read_write),
        ("exports and imports", lambda: None, _round_trip),
        ("disassembly", lambda: _no_tool("nvdisasm"), _disassembly),
        *(
            (tool, partial(_no_tool, tool), partial(_answers, tool))
            for tool in ("cuda-gdb", "compute-sanitizer")
        ),
        *(
            (f"--backend {name}", partial(_no_recorder, one), partial(_recorder_answers, one))
            for name, one in backends.external().items()
            if tools.of(one).probe is not None
        ),
    ]
    return [_try(*trial) for trial in trials]


def _try(capability: str, absent: Callable[[], str | None], trial: Callable[[], str]) -> Trial:
    reason = absent()
    if reason:
        return Trial(capability, ABSENT, reason)
    try:
        return Trial(capability, WORKS, trial())
    except Exception as error:  # any exception is the result of the test
        return Trial(capability, FAILS, " ".join(str(error).split()) or type(error).__name__)


def _no_linux() -> str | None:
    return None if sys.platform.startswith("linux") else "needs Linux"


def _no_library() -> str | None:
    return None if _native.library_path() else "this installation has no libwarpsight.so"


def _no_opencl() -> str | None:
    return _no_library() or opencl.problem()


def _no_cuda() -> str | None:
    return _no_library() or cuda_driver.problem()


def _no_nvml() -> str | None:
    found = checks.counters()
    return None if found.state == checks.OK else found.why


def _load() -> str:
    _native.load()
    return str(_native.library_path())


def _rings() -> str:
    fd = _native.load().ws_arena_create(None)
    if fd < 0:
        raise WarpsightError(f"no arena: {os.strerror(-fd)}")
    return "an arena was made"


def _record(platform: str) -> str:
    found = bench.run(platform, _LAUNCHES, turns=1)
    if not found.ok:
        raise WarpsightError(
            f"{found.launches} launches, but {found.recorded} recorded, {found.kernels} kernels, "
            f"{found.complete} with a stack"
        )
    return f"{found.launches} launches on {found.device}, each with kernel and stack"


def _no_opencl_or_cuda() -> str | None:
    return _no_cuda() and _no_opencl()


def _platform() -> str:
    return "opencl" if _no_cuda() else "cuda"


def _native_stacks() -> str:
    found = bench.run(_platform(), _LAUNCHES, stacks="native", turns=1)
    if not found.ok:
        raise WarpsightError(f"{found.launches} launches, but {found.complete} with kernel and stack")
    return f"{found.launches} launches, {found.frames:.0f} frames of machine code on average"


def _own_events() -> str:
    program = (
        "import warpsight as ws\nfor n in range(9): ws.emit('e', n, 1, 'selftest'); ws.counter('c', n, 'W')"
    )
    with tempfile.TemporaryDirectory(prefix="warpsight-selftest-") as folder:
        path = Path(folder, "own.warp")
        _succeed(bench.record_command(path, [sys.executable, "-c", program], "off"))
        with open_trace(path) as trace:
            found = trace.sql("SELECT (SELECT count(*) FROM user_event WHERE kind = 'selftest'), "
                              "(SELECT count(*) FROM counter WHERE name = 'c')").fetchall()[0]  # fmt: skip
    if found != (9, 9):
        raise WarpsightError(f"{found[0]} of 9 events and {found[1]} of 9 counter values were recorded")
    return "9 events and 9 counter values of a program without a GPU"


def _kernel_log() -> str:
    with tempfile.TemporaryDirectory(prefix="warpsight-selftest-") as folder:
        log = Path(folder, "kernels.ndjson")
        program = bench.program(_platform(), _LAUNCHES)
        command = bench.record_command(Path(folder, "run.warp"), program)
        _succeed([*command[: -len(program) - 1], "--kernel-log", str(log), *command[-len(program) - 1 :]])
        lines = [json.loads(line)["type"] for line in log.read_text().splitlines()]
    if lines.count("kernel_launch") != _LAUNCHES or "callstack_def" not in lines:
        raise WarpsightError(f"{_LAUNCHES} launches, but {lines.count('kernel_launch')} lines of kernels")
    return f"a line for each of {_LAUNCHES} launches"


def _round_trip() -> str:
    """A kernel, written in each format that can be read again, and read back."""
    done = []
    with tempfile.TemporaryDirectory(prefix="warpsight-selftest-") as folder:
        source = Path(folder, "source.warp")
        with TraceWriter(source) as writer:
            writer.add(
                "process", [{"process": 0, "pid": 1, "host": "", "command": "", "executable": "", "start": 0}]
            )
            writer.add("kernel", [{"name_id": writer.name("probe"), "start": 1_000, "duration": 2_345, "context": 1,
                                   "stream": 7, "device": 0, "process": 0, "graph_level": False}])  # fmt: skip
        for name in ("perfetto", "chrome", "kineto", "sbt"):
            written, read = Path(folder, name + registry.EXPORTERS[name].suffix), Path(folder, name + ".warp")
            with open_trace(source) as trace, written.open("wb") as file:
                registry.EXPORTERS[name].write(trace, file, Selection())
            import_files([written], read)
            with open_trace(read) as trace:
                found = trace.sql("SELECT name, duration FROM kernel").fetchall()
            if found != [("probe", 2_345)]:
                raise WarpsightError(f"{name}: a kernel came back as {found}")
            done.append(name)
    return f"a kernel came back from {', '.join(done)}"


def _no_tool(name: str) -> str | None:
    if problem := _no_linux():
        return problem
    return None if disassembly.find_tool(name) else f"{name} is not installed"


def _disassembly() -> str:
    nop = bytes.fromhex("18790000000000000000000000c00f00")
    found = disassembly.disassemble(nop, 0, 90)
    if [line.operation for line in found] != ["NOP"]:
        raise WarpsightError(f"a NOP of sm_90 reads {[line.text for line in found]}")
    return str(disassembly.find_tool("nvdisasm"))


def _answers(name: str) -> str:
    return _succeed([str(disassembly.find_tool(name)), "--version"]).strip().splitlines()[0]


def _no_recorder(backend: Backend) -> str | None:
    tool = tools.of(backend)
    return None if tool.find() else f"{backend.program} is not installed: {tool.advice}"


def _recorder_answers(backend: Backend) -> str:
    tool = tools.of(backend)
    command = tool.find()
    assert command is not None and tool.probe is not None
    _succeed([*command, *tool.probe])
    return " ".join(command)


def _succeed(command: list[str]) -> str:
    """The output of a command; on failure, an error with its last words."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", env=environment, timeout=60, check=False
    )
    if done.returncode:
        raise WarpsightError(f"{command[0]} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def _samples() -> str:
    found = checks.host_samples()
    if found.state != checks.OK:
        raise WarpsightError(found.why)
    return found.why


def _counters() -> str:
    return checks.counters().why


def _read_write() -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory(prefix="warpsight-selftest-") as folder:
        path = Path(folder, "part-0.parquet")
        pq.write_table(pa.table({"start": [1, 2, 3]}), path, compression="zstd")
        if pq.read_table(path).num_rows != 3:
            raise WarpsightError("a Parquet file read back differs")
    return f"Parquet and DuckDB on Python {sys.version.split()[0]}"
