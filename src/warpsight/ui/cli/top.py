"""`warpsight top`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from warpsight.ui.cli import output

if TYPE_CHECKING:
    from warpsight.recorder.live import Live


def command(
    recording: Annotated[
        str | None,
        typer.Argument(
            help="A recorded process, its launcher, or the folder that is recorded to; by default the youngest recording in "
            "this folder.",
            metavar="PID|FOLDER",
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print one snapshot and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one snapshot as JSON and end.")] = False,
    interval: Annotated[float, typer.Option(help="Seconds between snapshots.", min=0.1, max=3600)] = 1.0,
    window: Annotated[
        float, typer.Option(help="Seconds that rates and kernels cover.", min=0.5, max=60)
    ] = 5.0,
    count: Annotated[int, typer.Option("-n", "--count", help="Kernels to show.", min=1)] = 15,
) -> None:
    """Show a running recording live: rates, how busy the GPUs are, kernels, counters, loss.

    Reads what the recording has written so far, without disturbing it. Ends with the recording, or with Ctrl-C.
    """
    import time

    from warpsight.recorder.live import Live, find

    place = find(recording)
    live = Live(place, window)
    if once or as_json:
        live.look(count)  # takes up what is there: rates need two looks
        time.sleep(interval)
        shown = live.look(count)
        if as_json:
            sys.stdout.write(output.json_text(shown.to_json()))
        else:
            from warpsight.ui.render.live_view import text

            sys.stdout.write(text(shown))
        return
    if sys.stdout.isatty():
        _watch(live, interval, count)
    else:
        _print(live, interval, count)


def _watch(live: Live, interval: float, count: int) -> None:
    """Redraw the screen until the recording ends."""
    import time

    from rich.live import Live as Screen

    from warpsight.ui.render import terminal
    from warpsight.ui.render.live_view import screen, text

    console = terminal.console()
    shown = live.look(count)
    try:
        with Screen(console=console, screen=True, auto_refresh=False) as display:
            while shown.recording:
                display.update(screen(shown, console.width), refresh=True)
                time.sleep(interval)
                shown = live.look(count)
    except KeyboardInterrupt:
        pass
    sys.stdout.write(text(shown, console.width))


def _print(live: Live, interval: float, count: int) -> None:
    """Print a snapshot after each interval until the recording ends."""
    import time

    from warpsight.ui.render.live_view import text

    shown = live.look(count)
    while shown.recording:
        time.sleep(interval)
        shown = live.look(count)
        sys.stdout.write(text(shown) + "\n")
        sys.stdout.flush()
