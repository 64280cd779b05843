"""`warpsight top`."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsight.errors import WarpsightError
from warpsight.ui.cli import output

if TYPE_CHECKING:
    from warpsight.recorder.live.recording import Live, Snapshot

_PATIENCE_S = 600.0


def command(
    recording: Annotated[
        str | None,
        typer.Argument(
            help="A recorded process, its launcher, or the recording's folder; the newest recording here by "
            "default.",
            metavar="PID|FOLDER",
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print one snapshot and exit.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one snapshot as JSON and end.")] = False,
    interval: Annotated[float, typer.Option(help="Seconds between snapshots.", min=0.1, max=3600)] = 1.0,
    window: Annotated[
        float, typer.Option(help="Seconds that rates and kernels cover.", min=0.5, max=60)
    ] = 5.0,
    count: Annotated[int, typer.Option("-n", "--count", help="Kernels to show.", min=1)] = 15,
) -> None:
    """Show a running recording live: rates, how busy the GPUs are, kernels, counters, loss.

    On a terminal: kernels, live flame graphs of GPU time by launching code and of host samples, and counters; ? lists the keys.
    It reads only what the recording has written, without disturbing it, and ends with the recording or with q.
    """
    from warpsight.recorder.live.recording import Live, find

    place = find(recording)
    live = Live(place, window)
    if once or as_json:
        live.look(count)  # reads the current state first: rates need two readings
        time.sleep(interval)
        shown = live.look(count, count)
        if as_json:
            sys.stdout.write(output.json_text(shown.to_json()))
        else:
            from warpsight.ui.render.live.view import write

            write(shown, sys.stdout)
        return
    if sys.stdout.isatty():
        _watch(live, interval, count)
    else:
        _print(live, interval, count)


def _watch(live: Live, interval: float, count: int) -> None:
    """Show the application until the recording or its user ends it, then the last numbers."""
    from warpsight.ui.render.live.app import TopApp
    from warpsight.ui.render.live.view import write

    shown = TopApp(live, interval, {"trigger": _trigger, "dump": _dump})
    shown.run()
    if shown.return_code:
        raise typer.Exit(shown.return_code)
    write(replace(shown.newest, top=shown.newest.top[:count]), sys.stdout)


def _trigger(shown: Snapshot) -> str:
    """Have the flight recorder write its window; the folder it wrote."""
    from warpsight.recorder import find
    from warpsight.recorder.drain import listener

    answer = listener.ask(find.socket_of(shown.folder), {"do": "trigger", "reason": "asked for"}, _PATIENCE_S)
    return f"written: {answer['path']}"


def _dump(shown: Snapshot) -> str:
    """Write what the recorded processes are doing to pages next to the recording; returns their names."""
    from warpsight.ui.cli.record import dump

    pids = [pid for pid in shown.processes if Path(f"/proc/{pid}").exists()]
    if not pids:
        raise WarpsightError("no process of this recording runs")
    folder = Path(f"dump-{pids[-1]}-{time.strftime('%H%M%S')}")
    dump.write(dump.look_at(pids[-1]), folder)
    return f"written: {folder / 'report.html'}"


def _print(live: Live, interval: float, count: int) -> None:
    """Print a snapshot after each interval until the recording ends."""
    from warpsight.ui.render.live.view import write

    shown = live.look(count)
    while shown.recording:
        time.sleep(interval)
        shown = live.look(count)
        write(shown, sys.stdout)
        sys.stdout.write("\n")
        sys.stdout.flush()
