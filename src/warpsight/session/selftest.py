"""Every capability tried for real on this machine: works, fails, or absent, with the reason."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from warpsight import _native
from warpsight.errors import WarpsightError
from warpsight.machine import checks, cuda_driver, opencl
from warpsight.session import bench

WORKS, FAILS, ABSENT = "works", "fails", "absent"
_LAUNCHES = 200


@dataclass(frozen=True)
class Trial:
    """One capability: `outcome` is works, fails or absent (this machine lacks what it needs)."""

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
        ("reading traces", lambda: None, _read_write),
    ]
    return [_try(*trial) for trial in trials]


def _try(capability: str, absent: Callable[[], str | None], trial: Callable[[], str]) -> Trial:
    reason = absent()
    if reason:
        return Trial(capability, ABSENT, reason)
    try:
        return Trial(capability, WORKS, trial())
    except Exception as error:  # whatever it is, it is the finding
        return Trial(capability, FAILS, " ".join(str(error).split()) or type(error).__name__)


def _no_linux() -> str | None:
    return None if sys.platform.startswith("linux") else "processes are read on Linux only"


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
    fd = _native.load().ws_arena_create()
    if fd < 0:
        raise WarpsightError(f"no arena: {os.strerror(-fd)}")
    return "an arena was made"


def _record(platform: str) -> str:
    found = bench.run(platform, _LAUNCHES)
    if not found.ok:
        raise WarpsightError(
            f"{found.launches} launches, but {found.recorded} recorded, {found.kernels} kernels, "
            f"{found.complete} with a stack"
        )
    return f"{found.launches} launches on {found.device}, each with kernel and stack"


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
