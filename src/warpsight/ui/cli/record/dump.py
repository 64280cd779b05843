"""`warpsight dump`: what a running process is doing, on the host and, where it was armed for that, on the GPU."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from warpsight.errors import UsageError, WarpsightError
from warpsight.ui.cli import options
from warpsight.ui.render import terminal

if TYPE_CHECKING:
    from warpsight.recorder.watch.event import Incident

_LOOK_S, _DUMP_S, _TRACE_S = 30.0, 60.0, 60.0


def command(
    pid: Annotated[int, typer.Argument(metavar="PID", help="The process (with its children).")],
    gpu: Annotated[bool, typer.Option("--gpu", help="Also take GPU core dumps; this ends running kernels.")] = False,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="DIR", help="Write report.html, .txt and .json to "
                          "this new folder.")] = None,
    gzip: options.Gzip = False,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:  # fmt: skip
    """Say what a running process is doing, on the host and on the GPU.

    Prints the Python and native stacks of every thread of the process and its children; if it is recorded with --ring, also the
    last seconds as a trace and the outstanding launches. --gpu needs a process started with
    CUDA_ENABLE_USER_TRIGGERED_COREDUMP=1, as `watch --on-hang dump` does.
    """
    from warpsight.ui.cli.output import json_text
    from warpsight.ui.render.dump import hang_page

    if output is not None and output.exists():
        raise UsageError(f"{output} exists; choose another name with -o")
    report = look_at(pid, gpu=gpu, compress=gzip)
    if output is not None:
        write(report, output)
        terminal.note(f"report: {output / 'report.html'}, report.txt, report.json")
    print(json_text(report) if json else hang_page.text(report), end="")


def look_at(pid: int, *, gpu: bool = False, compress: bool = False) -> dict[str, Any]:
    """The report on a process and its children.

    Raises:
        WarpsightError: when the process does not exist or is not ours.
    """
    from warpsight.debug import hang_report
    from warpsight.recorder import find
    from warpsight.recorder.inspect import look
    from warpsight.recorder.watch.event import Incident
    from warpsight.ui.cli.record import watching

    find.environment(
        pid
    )  # a process that does not exist, or is not ours, is an error and not an empty report
    pids = look.descendants(pid)
    event = Incident("asked", f"process {pid} was inspected", time.monotonic_ns(), pid=pid)
    began = time.monotonic()
    event.processes = look.look(pids, _LOOK_S)
    missing = set(pids) - {int(one["pid"]) for one in event.processes}
    event.notes += [
        f"process {one} could not be inspected: it has exited, or may not be traced"
        for one in sorted(missing)
    ]
    event.evidence = sorted(
        {f"thread {w.thread} of process {w.pid} waits in {w.function}" for w in look.waits(event.processes)}
    )
    _take_trace(event, pid)
    if gpu:
        _take_dumps(event, pids, compress=compress)
    event.took_s = time.monotonic() - began
    return hang_report.build(event, watching.decode)


def write(report: dict[str, Any], folder: Path) -> None:
    """Write a report into a new folder as a page, text and JSON."""
    from warpsight.ui.cli.output import json_text
    from warpsight.ui.render.dump import hang_html, hang_page

    folder.mkdir(mode=0o700)
    (folder / "report.txt").write_text(hang_page.text(report), encoding="utf-8")
    (folder / "report.json").write_text(json_text(report), encoding="utf-8")
    (folder / "report.html").write_text(hang_html.page(report), encoding="utf-8")


def _take_trace(event: Incident, pid: int) -> None:
    from warpsight.recorder import find
    from warpsight.recorder.drain import listener

    try:
        answer = listener.ask(find.socket_of_process(pid), {"do": "trigger", "reason": "dump"}, _TRACE_S)
        event.trace = Path(answer["path"])
    except WarpsightError as error:
        event.notes.append(f"no trace of the last seconds: {error}")


def _take_dumps(event: Incident, pids: list[int], *, compress: bool) -> None:
    from warpsight.recorder.watch import coredump

    armed = [pid for pid in pids if coredump.pipe_of(pid) is not None]
    for pid in armed or pids[:1]:
        if armed:
            terminal.note(
                f"taking the GPU core dump of process {pid}: this ends its kernels, and it will get a CUDA error or abort"
            )
        dump = coredump.take(pid, _DUMP_S, terminal.note)
        if dump.path is not None and not dump.problem and compress:
            dump.path = coredump.compress(dump.path)
        event.dumps.append(dump)
