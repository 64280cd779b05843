"""Runs a program to cut work out of it, and reads its processes' output: a line of JSON per part, and bytes.

The launcher starts the program with a library of ours as CUDA_INJECTION64_PATH. In each process that uses a GPU it follows the
driver's calls, holds the program at the chosen work, copies memory before and after it, and writes the folder from which
:mod:`~warpsight.replay.capsule.conversion` makes a capsule. Nothing is compressed while the program is held.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from warpsight import _native
from warpsight.errors import WarpsightError
from warpsight.inside.capsules import FRAME, INJECTION, REQUEST, STEP
from warpsight.recorder.launch import check_runnable
from warpsight.recorder.watch.coredump import preload
from warpsight.replay.capsule.conversion import convert, last_range
from warpsight.replay.capsule.store import Capsule, check_place
from warpsight.sass.events.tracing import run_injected

_NOT_BUILT = (
    "cannot cut kernels out: it was built without NVIDIA's headers (wheels nvidia-cuda-cupti and nvidia-cuda-runtime, or the "
    "CUDA toolkit)"
)
_NVTX_INJECTION = "NVTX_INJECTION64_PATH"
#: The name in messages of ranges that are not the program's own.
_NAMES = {STEP: "step (ws.step())", FRAME: "frame (ws.capture_frame())"}
Values = Literal["all", "none", "zeros", "random"]
Which = Literal["all", "slowest", "hung", "faulted"]
#: Messages for when no launch or range was of that kind.
_WANTED = {"hung": "none of them hung", "faulted": "none of them failed", "slowest": "none of them ran"}


@dataclass(frozen=True)
class CapsuleChoice:
    """The work to cut out of a program.

    Attributes:
        kernels: patterns of mangled or demangled names. launches: launches of those kernels, from low up to but not including
            high, with everything in between.
        range: a pattern of NVTX ranges to use instead; `launches` then counts ranges.
        everything: include all live device memory, not only reachable memory.
        values: which contents to keep. shadow: copy contents within the GPU first if it has room.
        signal: number of a signal from which launches and ranges count. 0: from the start.
        trigger: count from the moment at which the launcher called :func:`trigger`.
        hangs: in any case, cut out the launch that a recording's launcher reports as hung, named in a file (see `hung.cpp`)
            before the trigger.
        limit: largest allocation in bytes whose contents are kept; larger ones become zeros.
        which: which launches or ranges to keep: all of them as one, or only the slowest (by the time that its launches, copies
            and fills take the GPU), the first that fails, or the first that hangs. The program is held at each of them.
        patience: seconds after which an operation of a range counts as hung and ends the range.
    """

    kernels: tuple[str, ...] = ()
    launches: tuple[int, int] = (0, 1)
    range: str = ""
    everything: bool = False
    values: Values = "all"
    shadow: bool = True
    signal: int = 0
    trigger: bool = False
    limit: int = 2**63
    hangs: bool = False
    which: Which = "all"
    patience: float = 10


@dataclass(frozen=True)
class RecordedCapsule:
    """The outcome of a run.

    Attributes:
        code: the program's exit code.
        capsules: one for each process that ran chosen work.
        refused: why other processes have none.
        held_ns: how long copying held the program. copied_bytes: bytes copied in that time.
        numbers: with :attr:`CapsuleChoice.which`, the number of the launch or range in each capsule.
    """

    code: int
    capsules: tuple[Capsule, ...]
    refused: tuple[str, ...]
    held_ns: int
    copied_bytes: int
    numbers: tuple[int, ...] = ()


def record(
    program: Sequence[str], choice: CapsuleChoice, out: Path, *, replace: bool = False
) -> RecordedCapsule:
    """Run a program and cut work out of it.

    The capsule is `out`. If several processes ran chosen work, each has its own, with its pid before the suffix.

    Raises:
        StartError: when the program does not exist (127) or cannot be run (126).
        WarpsightError: when nothing was cut out, with the reason, or another tool is injected.
    """
    check_runnable(program[0])
    if os.environ.get(INJECTION):
        raise WarpsightError(
            f"{INJECTION} names {os.environ[INJECTION]}: another tool is in the program already; unset it to cut work out"
        )
    check_place(out, replace=replace)
    library = str(_native.needed_beside("libwarpsight_capsule.so", _NOT_BUILT))
    with left_by_processes(out) as folder:
        variables = {INJECTION: library, REQUEST: request(choice, folder)}
        # launches are counted by wrappers where they can be, as CUPTI's callbacks cost more
        variables |= {_NVTX_INJECTION: library} if choice.range else preload(os.environ)
        return collect(folder, choice, out, program, run_injected(program, variables), replace=replace)


@contextmanager
def left_by_processes(out: Path) -> Iterator[Path]:
    """A folder next to `out` for the output of the program's processes, removed at the end."""
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.absolute().parent) as folder:
        yield Path(folder)


def collect(
    folder: Path, choice: CapsuleChoice, out: Path, program: Sequence[str], code: int, *, replace: bool = False
) -> RecordedCapsule:  # fmt: skip
    """Make capsules from the output of a program that ended with `code`.

    Raises:
        WarpsightError: when nothing was cut out, with the reason.
    """
    left = [(path, read_log(path)) for path in sorted(folder.iterdir()) if path.is_dir()]
    chosen = [(path, log) for path, log in left if any(line["kind"] == "end" for line in log)]
    refused = [line["why"] for _, log in left for line in log if line["kind"] == "refused"]
    if not chosen:
        why = f"nothing was cut out: {refused[0]}" if refused else _nothing(choice, [log for _, log in left])
        error = WarpsightError(why)
        error.exit_code = code or error.exit_code
        raise error
    capsules = []
    for path, log in chosen:
        target = out if len(chosen) == 1 else out.with_name(f"{out.stem}.{path.name}{out.suffix}")
        capsules.append(convert(path / "data", log, target, choice.values, program, replace=replace))
    lines = [line for _, log in chosen for line in log]
    held = sum(line["held_ns"] for line in lines if line["kind"] == "end")
    copied = sum(line["bytes"] for line in lines if line["kind"] == "whole")
    numbers = [line["number"] for _, log in chosen for line in last_range(log)[:1] if line["kind"] == "range"]
    return RecordedCapsule(code, tuple(capsules), tuple(refused), held, copied, tuple(numbers))


def trigger(folder: Path, pid: int) -> None:
    """Have a process start counting; returns once it does, or after a second. No effect on processes without a request."""
    with suppress(OSError):  # it has exited, or uses no GPU
        (folder / str(pid) / "armed").unlink(missing_ok=True)
        pipe = os.open(folder / str(pid) / "trigger", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(pipe, b"\n")
        finally:
            os.close(pipe)
        end = time.monotonic() + 1
        while not (folder / str(pid) / "armed").exists() and time.monotonic() < end:
            time.sleep(0.001)


def request(choice: CapsuleChoice, folder: Path) -> str:
    """The request to the library: lines of `key=value` (native/capsule/request.cpp)."""
    lines = [
        f"folder={folder.absolute()}",
        *(f"kernel={pattern}" for pattern in choice.kernels),
        f"first={choice.launches[0]}",
        f"end={choice.launches[1]}",
        f"range={choice.range}",
        f"everything={int(choice.everything)}",
        f"contents={int(choice.values != 'none')}",
        f"shadow={int(choice.shadow)}",
        f"signal={choice.signal}",
        f"trigger={int(choice.trigger)}",
        f"hangs={int(choice.hangs)}",
        f"limit={choice.limit}",
        f"keep={choice.which}",
        f"patience={int(choice.patience * 1e9)}",
    ]
    return "\n".join(lines)


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The lines that a process wrote, up to a truncated one."""
    lines: list[dict[str, Any]] = []
    with open(folder / "log", encoding="utf-8", errors="replace") as file:
        for text in file:
            try:
                lines.append(json.loads(text))
            except ValueError:
                break
    return lines


def _nothing(choice: CapsuleChoice, logs: Sequence[Sequence[dict[str, Any]]]) -> str:
    """Why nothing was cut out."""
    if not logs:
        return "nothing was cut out: the program did not use an NVIDIA GPU"
    ends = [line for log in logs for line in log if line["kind"] == "nothing"]
    if not ends:
        return "nothing was cut out: the program ended without its exit handlers before the chosen work ran"
    matched = sum(line["matched"] for line in ends)
    what = _NAMES.get(choice.range) or (f"range {choice.range!r}" if choice.range else "launch")
    if matched and choice.which != "all":
        return (
            f"nothing was cut out: the chosen {what} occurred {matched:,} times, and {_WANTED[choice.which]}"
        )
    if matched:
        first = choice.launches[0]
        return f"nothing was cut out: the chosen {what} occurred {matched:,} times, and number {first} (from 0) was requested"
    names = sorted({name for line in ends for name in line["kernels"]})
    if choice.range or choice.signal or choice.trigger:
        since = " after the signal" if choice.signal else " after the trigger" if choice.trigger else ""
        return f"nothing was cut out: there was no {what}{since}"
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return f"nothing was cut out: no kernel matched {', '.join(choice.kernels) or '*'}; launched were: {shown or 'none'}"
