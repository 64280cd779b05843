"""`warpsight sass races`."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsight.errors import UsageError
from warpsight.ui.cli import options, output

if TYPE_CHECKING:
    from warpsight.sass.races.detect import Races


def command(
    trace: Annotated[list[str] | None, typer.Argument(help="An event trace with classes memory and barriers, or with "
                                                           "--on-device a program.", metavar="FILE | -- PROGRAM [ARGS]…")] = None,
    on_device: Annotated[bool, typer.Option("--on-device", help="Look for races on the device while PROGRAM runs, for kernels "
                                            "whose traces would be too large.")] = False,
    kernels: options.Kernels = None,
    launches: options.Launches = None,
    shadow: Annotated[int, typer.Option("--shadow-mib", min=64, help="Device memory for notes on global memory: four times "
                          "what kernels touch.")] = 4096,
    compiled: Annotated[bool, typer.Option("--compiled/--patched", help="With --on-device: compile the checks into modules that "
                        "have PTX, or patch all modules, which is slower.")] = True,
    top: options.Top = 20,
    error_exit: Annotated[int, typer.Option("--error-exitcode", min=0, max=255, metavar="CODE",
                          help="Exit with this code when there are races.")] = 0,
    as_json: options.Json = False,
    out: options.Out = None,
    force: options.Force = False,
) -> None:  # fmt: skip
    """Find data races within launches and between streams: unordered accesses to the same bytes, one of them a write.

    Follows __syncthreads, __syncwarp, named and cluster barriers, mbarriers, and fences with atomics and their scopes. Each
    race shows both accesses with their source lines. A trace also shows races between streams; --on-device also follows
    cp.async and bulk copies, mbarrier phases and cluster memory, while kernels run many times slower.
    """
    from warpsight.sass.events.trace import EventTrace
    from warpsight.sass.races.detect import races
    from warpsight.ui.cli.sass.events.trace import range_of
    from warpsight.ui.render import terminal
    from warpsight.ui.render.sass import events

    named = trace or []
    if on_device and not named:
        raise UsageError("no program to run; for example: warpsight sass races --on-device -- ./app")
    if not on_device and len(named) != 1:
        raise UsageError("name one event trace, or run a program: warpsight sass races --on-device -- ./app")
    code = 0
    if on_device:
        found, code = _run(named, tuple(kernels or ()), range_of(launches, "--launches"), shadow, compiled)
    else:
        found = races(EventTrace(Path(named[0])))
    with output.text(out, force) as stream:
        if as_json:
            stream.write(output.json_text({
                "races": [race.to_json() for race in found.races], "launches": found.launches, "accesses": found.accesses,
                "notes": found.notes,
            }))  # fmt: skip
        else:
            stream.write(events.races(found, top))
    terminal.warning(*found.notes)
    raise typer.Exit(code or (error_exit if found.races else 0))


def _run(
    program: list[str],
    kernels: tuple[str, ...],
    launches: tuple[int, int] | None,
    shadow_mib: int,
    compiled: bool,
) -> tuple[Races, int]:
    """The races of a program, and its exit code."""
    from warpsight.sass.events import tracing
    from warpsight.sass.races.detect import checked

    selection = tracing.TraceSelection(
        kernels=kernels, launches=launches, check=True, shadow_mib=shadow_mib, compiled=compiled
    )
    with tempfile.TemporaryDirectory(prefix="warpsight-races-") as folder:
        traced = tracing.trace(program, selection, Path(folder, "races.events"))
        found = checked(traced.files)
        return replace(found, notes=(*found.notes, *traced.notes)), traced.code
