"""`warpsight replay`: run a capsule again and compare."""

from __future__ import annotations

import re
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsight.errors import UsageError
from warpsight.ui.cli import options, output

if TYPE_CHECKING:
    from warpsight.replay.outcome import ReplayOutcome
    from warpsight.replay.replaying import ReplayRequest

_MODES = ("full", "partial", "stream", "dry-run")
_RANGE = re.compile(r"(\d+)(?:\.\.(\d+))?")


def command(
    capsule: Annotated[str, typer.Argument(metavar="CAPSULE|TRACE", help="A capsule, or any trace: its kernels are then replaced "
                                           "by waits of the same length.")],
    repeat: Annotated[int, typer.Option("--repeat", "-n", min=1, max=100_000, help="Runs of each version.")] = 3,
    swap: Annotated[list[str] | None, typer.Option("--swap", metavar="KERNEL=FILE",
                    help="Compare a kernel with another version (.cu, .ptx, .cubin); repeatable.")] = None,
    operations: Annotated[str | None, typer.Option(metavar="A..B",
                          help="Time operations A to B and stop; earlier ones run untimed.")] = None,
    stream: Annotated[int | None, typer.Option(min=0, help="Run only this stream's operations.")] = None,
    schedule: Annotated[str, typer.Option(help="fast; original: keep the recorded issue times; graph: all operations as one "
                        "CUDA graph.")] = "fast",
    scale: Annotated[float, typer.Option(min=0, help="Stretch the issue times of --schedule original by this factor.")] = 1.0,
    mode: Annotated[str, typer.Option(help="full; partial (--operations); stream (--stream); dry-run: "
                                           "execute nothing.")] = "full",
    validate: Annotated[bool, typer.Option("--validate", help="Check that operations respected stream order and "
                          "dependencies (exit code 8).")] = False,
    under: Annotated[str | None, typer.Option(metavar="TOOL", help="Replay once under a tool: ncu, compute-sanitizer or "
                                              "cuda-gdb, with its options in quotes.")] = None,
    check_reach: Annotated[bool, typer.Option("--check-reach", help="Also prove that no access leaves the capsule.")] = False,
    writes: Annotated[bool, typer.Option("--writes", help="Also list which operation changes which memory, starting at "
                                                          "--operations.")] = False,
    delays: Annotated[Path | None, typer.Option("--delays", metavar="PLAN", help="Delay warps by this plan (`race points`): "
                          "outputs that change reveal a race.")] = None,
    what: Annotated[list[str] | None, typer.Option("--what", "-w", metavar="WHAT", help="Measure another schedule, beside the "
                                                   "prediction of `simulate`; repeatable. streams:NAME, overlap:copies, graphs, "
                                                   "kernel:NAME=none, copy:KIND=none; merge, interleave, priority:NAME.")] = None,
    gdb: Annotated[int | None, typer.Option("--gdb", metavar="PORT", min=0, max=65535, help="Wait for gdb ('target remote "
                          ":PORT') on this local port (0: any).")] = None,
    pause: Annotated[bool, typer.Option("--pause-on-error", help="Wait for a debugger (port of --gdb) before an operation "
                          "that fails.")] = False,
    dtype: Annotated[str | None, typer.Option(help="Element type in reports of differences; guessed by default.")] = None,
    device: Annotated[int, typer.Option(min=0, help="GPU number.")] = 0,
    timeout: Annotated[float | None, typer.Option(metavar="SECONDS", min=0.1, help="Give up after this long.")] = None,
    top: Annotated[int, typer.Option(min=0, help="Rows of a table, 0 for all.")] = 20,
    as_json: options.AsJson = False,
) -> None:  # fmt: skip
    """Run a capsule's GPU work again, at its original addresses, and compare every output byte.

    A capsule is code: replay only what you would run. All of it is checked before any of it runs. Exits with 0 when the outputs
    match the recording, 4 when they differ, 5 when they differ between runs, 6 when the GPU reports a failure, 7 when an access
    leaves the capsule, and 8 when work ran in a wrong order (--validate).
    """
    from warpsight.replay.capsule.store import MANIFEST
    from warpsight.replay.elements import TYPES
    from warpsight.replay.execution import tool_command
    from warpsight.replay.outcome import EXIT_CODES
    from warpsight.replay.replaying import SCHEDULES, ReplayRequest, replay

    options.one_of("--schedule", schedule, SCHEDULES)
    if dtype is not None and dtype not in TYPES:
        raise UsageError(f"--dtype {dtype!r}: write one of {', '.join(TYPES)}")
    if not isfinite(scale) or (scale != 1 and schedule != "original"):
        raise UsageError(f"--scale {scale:g}: a factor for the issue times of --schedule original")
    if under and (swap or check_reach):
        raise UsageError("--under cannot be combined with --swap or --check-reach")
    if what and (schedule != "fast" or under or check_reach or swap or delays):
        raise UsageError(
            "--what cannot be combined with --schedule, --under, --check-reach, --swap or --delays"
        )
    if delays is not None and (under or check_reach or swap):
        raise UsageError("--delays cannot be combined with --under, --swap or --check-reach")
    if gdb is not None and not pause:
        return _debug(Path(capsule), gdb, device)
    options.one_of("--mode", mode, _MODES)
    if (mode == "partial" and operations is None) or (mode == "stream" and stream is None):
        raise UsageError(f"--mode {mode} needs --{'operations' if mode == 'partial' else 'stream'}")
    request = ReplayRequest(
        repeat, _range(operations), stream, schedule, swap or (), tool_command(under) if under else (), dtype, device,
        timeout, check_reach, delays, what or (), writes, validate, mode == "dry-run", scale,
    )  # fmt: skip
    found = (
        replay(Path(capsule), request) if (Path(capsule) / MANIFEST).exists() else _of_trace(capsule, request)
    )
    with output.text(None) as out:
        if as_json:
            out.write(output.json_text({"capsule": str(capsule), **found.to_json()}))
        else:
            from warpsight.ui.render import replayed

            replayed.show(found, out, top or None)
    if pause and found.failure:
        _debug(Path(capsule), gdb or 0, device, at_failure=True)
    raise typer.Exit(EXIT_CODES[found.verdict])


def _of_trace(path: str, request: ReplayRequest) -> ReplayOutcome:
    from warpsight.api.trace import open as open_trace
    from warpsight.replay.replaying import replay_trace

    if request.swaps or request.check_reach or request.delays:
        raise UsageError(
            "--swap, --check-reach and --delays need a capsule: a trace does not hold what kernels compute"
        )
    with open_trace(path) as trace:
        return replay_trace(trace, request)


def _debug(capsule: Path, port: int, device: int, *, at_failure: bool = False) -> None:
    from warpsight.replay.gdb.server import serve
    from warpsight.ui.render import terminal

    def ready(port: int) -> None:
        terminal.note(f"waiting for a debugger: gdb -ex 'target remote :{port}'; then `monitor help`")

    if not serve(capsule, port, device, ready, at_failure=at_failure):
        terminal.note("no operation fails when they run one by one: there is nothing to pause at")


def _range(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    match = _RANGE.fullmatch(text)
    if match is None:
        raise UsageError(
            f"--operations {text!r}: write A..B, the first and the last operation, or one number"
        )
    return int(match[1]), int(match[2] or match[1])
