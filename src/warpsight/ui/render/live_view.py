"""A running recording as text: the screen of `top`, and the same lines for a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsight.ui.render import numbers, terminal

if TYPE_CHECKING:
    from rich.console import RenderableType

    from warpsight.recorder.live import Snapshot

_BAR = 24


def text(shown: Snapshot, width: int = 120) -> str:
    """Plain lines."""
    out = [_head(shown), _rates(shown)]
    for device, share in shown.busy.items():
        out.append(f"device {device}  busy {share:.1%}")
    if shown.top:
        out.append("")
        out.append(f"{'time':>10}  {'share':>6}  {'per s':>10}  kernel")
        for kernel in shown.top:
            rate = kernel.count / max(shown.window_s, 1e-9)
            name = numbers.shorten(kernel.name, max(width - 32, 20))
            out.append(f"{numbers.duration(kernel.time_ns):>10}  {kernel.share:6.1%}  {rate:10,.0f}  {name}")
    if shown.counters:
        out.append("")
        out += [_counter(shown, i) for i in range(len(shown.counters))]
    out += [f"LOST {count:,} {why}" for count, why in shown.lost]
    return "\n".join(out) + "\n"


def _head(shown: Snapshot) -> str:
    state = "recording" if shown.recording else "ended"
    pids = ", ".join(map(str, shown.processes[:6])) + (" …" if len(shown.processes) > 6 else "")
    return f"{shown.folder}  {state} for {shown.elapsed_s:.0f} s  processes {pids or 'none yet'}"


def _rates(shown: Snapshot) -> str:
    return (
        f"{shown.launches:,.0f} launches/s  {shown.kernels:,.0f} kernels/s  {shown.copies:,.0f} copies and sets/s  "
        f"{numbers.rate(shown.copied)}  (last {shown.window_s:.1f} s)"
    )


def _counter(shown: Snapshot, i: int) -> str:
    reading = shown.counters[i]
    device = "" if reading.device is None else f"device {reading.device}  "
    return (
        f"{device}{reading.name}  {numbers.cell(reading.value, reading.unit if reading.unit in ('B', '%', 'B/s') else '')}"
        + (f" {reading.unit}" if reading.unit not in ("B", "%", "B/s", "") else "")
    )


def screen(shown: Snapshot, width: int) -> RenderableType:
    """The same for a terminal, with bars."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    parts: list[RenderableType] = [
        Text(_head(shown), "bold", no_wrap=True, overflow="ellipsis"),
        Text(_rates(shown)),
    ]
    for count, why in shown.lost:
        parts.append(Text(f"lost {count:,} {why}", "bold red"))
    for device, share in shown.busy.items():
        bar = Text(f"device {device}  ", no_wrap=True, overflow="ellipsis")
        full = round(min(share, 1.0) * _BAR)
        bar.append("█" * full, "bright_blue").append("░" * (_BAR - full), "dim").append(f" {share:.1%} busy")
        parts.append(bar)
    table = Table(box=None, padding=(0, 2, 0, 0), expand=True, header_style="bold")
    for name in ("time", "share", "per s"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("kernel", ratio=1, no_wrap=True, overflow="ellipsis")
    for kernel in shown.top:
        rate = f"{kernel.count / max(shown.window_s, 1e-9):,.0f}"
        name = numbers.shorten(terminal.printable(kernel.name), max(width - 32, 12))
        table.add_row(numbers.duration(kernel.time_ns), f"{kernel.share:.1%}", rate, Text(name))
    parts += [Text(""), table if shown.top else Text("no kernels in the window", "dim"), Text("")]
    parts.append(Text("   ".join(_counter(shown, i) for i in range(len(shown.counters))), "dim"))
    parts.append(Text("Ctrl-C ends this view, not the recording", "dim italic"))
    return Group(*parts)
