"""Inspects other processes from a helper process, so that failures do not harm this one and the time is bounded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpsight.recorder.child import python_command

#: Names of functions in which a host thread waits for the device: the runtime's, the driver's, OpenCL's.
WAITS = ("Synchronize", "cuMemcpy", "cudaMemcpy", "cuMemset", "cudaMemset", "cuEventQuery", "cudaEventQuery", "cuMemFree",
         "cudaFree", "cuStreamWait", "clFinish", "clWaitForEvents", "clEnqueueReadBuffer", "clEnqueueMapBuffer")  # fmt: skip
#: Libraries whose code a thread that waits for the device is in, named or not.
_DRIVERS = ("libcuda.so", "libcudart.so", "libnvidia-ptxjit", "libOpenCL.so")
#: Maximum frames of the C library or the kernel's entry above the driver's.
_DEEPEST = 6
#: Threads of the driver and of ours, which are always waiting.
_SERVANTS = ("cuda-EvtHandlr", "warpsight", "cuda0", "cudaEvt", "nv_")


@dataclass(frozen=True)
class _HostWait:
    """A host thread that waits for the device."""

    pid: int
    thread: int
    function: str
    #: Distinguishes this wait from a later one at the same place: the stack's addresses.
    where: tuple[int, ...]


def look(pids: Iterable[int], seconds: float) -> list[dict[str, Any]]:
    """The state of these processes' threads (see `__main__`), without processes that could not be inspected."""
    wanted = [str(pid) for pid in pids]
    if not wanted:
        return []
    child = subprocess.Popen(
        python_command("warpsight.recorder.inspect.__main__", *wanted), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True, env=_environment(),
    )  # fmt: skip
    try:
        text, _ = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        if len(wanted) == 1:
            return []
        return [one for pid in wanted for one in look([int(pid)], seconds / len(wanted))]
    try:
        found = json.loads(text)
    except ValueError:
        return []
    return list(found) if isinstance(found, list) else []


def waits(processes: Iterable[dict[str, Any]]) -> Iterator[_HostWait]:
    """The threads of some processes that wait for the device."""
    for process in processes:
        for thread in process["threads"]:
            if thread["name"].startswith(_SERVANTS):
                continue
            frames = thread["native"]
            at = next((i for i, f in enumerate(frames) if any(w in f["function"] for w in WAITS)), None)
            if at is None and any(
                name in os.path.basename(f["module"]) for f in frames[:_DEEPEST] for name in _DRIVERS
            ):
                at = max(
                    i
                    for i, f in enumerate(frames)
                    if any(n in os.path.basename(f["module"]) for n in _DRIVERS)
                )
            if at is None:
                continue
            where = tuple(int(frame["address"]) for frame in frames[at:])
            yield _HostWait(
                process["pid"],
                thread["thread"],
                frames[at]["function"] or os.path.basename(frames[at]["module"]),
                where,
            )


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items()
            if name not in ("WARPSIGHT_SOCKET", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "OPENCL_LAYERS",
                            "ROCP_TOOL_LIBRARIES")}  # fmt: skip


def descendants(root: int, proc: Path = Path("/proc")) -> list[int]:
    """A process and all its visible descendants."""
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        found.append(pid)
        try:
            for task in (proc / str(pid) / "task").iterdir():
                todo += map(int, (task / "children").read_text().split())
        except (OSError, ValueError):
            continue
    return found
