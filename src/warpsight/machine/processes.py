"""Processes that use a GPU: their identity and usage, and whether a recorder may attach."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from warpsight.machine import nvml

PROC = Path("/proc")
_PTRACE_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")
#: CAP_SYS_PTRACE
_CAP_PTRACE = 1 << 19


@dataclass(frozen=True)
class Process:
    """One process on one device. `start`: seconds since the epoch; `cpu`: average percent of one CPU since then."""

    pid: int
    device: str
    user: str | None
    start: float | None
    cpu: float | None
    memory_bytes: int | None
    utilisation: int | None
    command: str | None
    attachable: bool
    reason: str

    def to_json(self) -> dict[str, Any]:
        """A flat JSON object."""
        return asdict(self)


def gpu_processes() -> list[Process]:
    """Every process that NVML reports; empty without NVML."""
    with nvml.session() as session:
        seen = nvml.processes(session) if session is not None else []
    return [describe(one) for one in seen]


def describe(seen: nvml.GpuProcess, proc: Path = PROC) -> Process:
    """Complete NVML's row from /proc; processes of another PID namespace keep only NVML's data."""
    folder = proc / str(seen.pid)
    start, cpu = _times(folder, proc)
    attachable, reason = attach_permission(seen.pid, proc)
    return Process(
        seen.pid,
        seen.device,
        _user(folder),
        start,
        cpu,
        seen.memory_bytes,
        seen.utilisation,
        _command(folder),
        attachable,
        reason,
    )


def attach_permission(pid: int, proc: Path, ptrace_scope: Path = _PTRACE_SCOPE) -> tuple[bool, str]:
    """Whether this process may read another's memory (ptrace access), and why.

    The rules of ptrace(2): the same user, or CAP_SYS_PTRACE; Yama's ptrace_scope 1 allows only descendants
    without the capability, 2 only the capability, 3 nobody.
    """
    folder = proc / str(pid)
    try:
        owner = _status(folder)["Uid"].split()[0]
    except (OSError, KeyError):
        return False, "not visible here: it has exited, or is in another PID namespace"
    try:
        scope = int(ptrace_scope.read_text())
    except (OSError, ValueError):
        scope = 0
    if scope == 3:
        return False, "ptrace_scope is 3: no process may attach until the next boot"
    if _has_ptrace_capability(proc):
        return True, "CAP_SYS_PTRACE"
    if scope == 2:
        return False, "ptrace_scope is 2: only with CAP_SYS_PTRACE (sudo)"
    if int(owner) != os.geteuid():
        return (
            False,
            f"it belongs to {_user(folder) or owner}: run as that user, or with CAP_SYS_PTRACE (sudo)",
        )
    if scope == 1:
        return False, "ptrace_scope is 1: sudo sysctl kernel.yama.ptrace_scope=0, or run with CAP_SYS_PTRACE"
    return True, "same user"


def _status(folder: Path) -> dict[str, str]:
    lines = (folder / "status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def _has_ptrace_capability(proc: Path) -> bool:
    try:
        return bool(int(_status(proc / "self")["CapEff"], 16) & _CAP_PTRACE)
    except (OSError, KeyError, ValueError):
        return False


def _user(folder: Path) -> str | None:
    try:
        uid = int(_status(folder)["Uid"].split()[0])
    except (OSError, KeyError, ValueError):
        return None
    try:
        import pwd  # Windows has neither this nor /proc

        return pwd.getpwuid(uid).pw_name
    except (ImportError, KeyError):
        return str(uid)


def _command(folder: Path) -> str | None:
    try:
        words = (folder / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    return " ".join(word.decode("utf-8", "replace") for word in words if word) or None


def _times(folder: Path, proc: Path) -> tuple[float | None, float | None]:
    """Start time in seconds since the epoch, and CPU time as a percentage of the lifetime."""
    try:
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        boot = next(
            float(line.split()[1])
            for line in (proc / "stat").read_text().splitlines()
            if line.startswith("btime")
        )
    except (OSError, StopIteration, ValueError):
        return None, None
    tick = os.sysconf("SC_CLK_TCK")
    start = boot + int(fields[19]) / tick
    lifetime = max(time.time() - start, 1 / tick)
    return start, round(100 * (int(fields[11]) + int(fields[12])) / tick / lifetime, 1)
