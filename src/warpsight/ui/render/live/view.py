"""A running recording as text: the output of `top` in a pipe, and the labels of its screen."""

from __future__ import annotations

import shutil
import sys
from typing import IO, TYPE_CHECKING

from warpsight.ui.render import numbers

if TYPE_CHECKING:
    from warpsight.recorder.live.recording import Reading, Snapshot


def write(shown: Snapshot, stream: IO[str]) -> None:
    """Plain lines; on a terminal names are cut to fit."""
    width = shutil.get_terminal_size((120, 24)).columns if stream.isatty() else sys.maxsize
    out = [head(shown), rates(shown, grouped=stream.isatty())]
    for device, share in shown.busy.items():
        out.append(f"device {device}  busy {share:.1%}")
    if shown.top:
        out.append("")
        out.append(f"{'time':>10}  {'share':>6}  {'per s':>10}  kernel")
        for kernel in shown.top:
            rate = numbers.count(round(kernel.count / max(shown.window_s, 1e-9)), stream)
            name = numbers.shorten(kernel.name, max(width - 32, 20))
            out.append(f"{numbers.duration(kernel.time_ns):>10}  {kernel.share:6.1%}  {rate:>10}  {name}")
    if shown.counters:
        out.append("")
        out += [f"{counter_name(one)}  {counter_value(one)}" for one in shown.counters]
    out += [f"LOST {count:,} {why}" for count, why in shown.lost]
    stream.write("\n".join(out) + "\n")


def head(shown: Snapshot) -> str:
    """The recorded program, and how long it has been running."""
    state = "recording" if shown.recording else "ended"
    pids = ", ".join(map(str, shown.processes[:6])) + (" …" if len(shown.processes) > 6 else "")
    return f"{shown.folder}  {state} for {shown.elapsed_s:.0f} s  processes {pids or 'none yet'}"


def rates(shown: Snapshot, width: int = 120, *, grouped: bool = True) -> str:
    """Events per second, worded to fit."""
    launches, kernels, copies = (
        numbers.cell(round(n), grouped=grouped) for n in (shown.launches, shown.kernels, shown.copies)
    )
    words = [f"{launches} launches/s", f"{kernels} kernels/s", f"{copies} copies and sets/s",
             numbers.rate(shown.copied), f"(last {shown.window_s:.1f} s)"]  # fmt: skip
    while len(words) > 1 and len("  ".join(words)) > width:
        words = words[:-1]
    return "  ".join(words)


def counter_name(reading: Reading) -> str:
    """The counter, with its device."""
    return reading.name if reading.device is None else f"device {reading.device}  {reading.name}"


def counter_value(reading: Reading) -> str:
    """Its value with the unit."""
    known = reading.unit in ("B", "%", "B/s")
    value = numbers.cell(reading.value, reading.unit if known else "")
    return value if known or not reading.unit else f"{value} {reading.unit}"
