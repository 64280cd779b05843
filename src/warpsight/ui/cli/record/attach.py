"""`warpsight attach`: record a process that runs already."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsight.errors import UsageError, WarpsightError
from warpsight.ui.cli import options
from warpsight.ui.render import terminal

if TYPE_CHECKING:
    from warpsight.recorder.options.settings import Settings
    from warpsight.recorder.server import Server

_CONNECT_S = 15.0


def command(
    pid: options.Pid,
    path: Annotated[Path | None, typer.Option("-o", "--output", help="Folder to write; pid-PID.warp by default.")] = None,
    force: options.ForceTrace = False,
    duration: Annotated[float, typer.Option("--for", metavar="S", help="Detach after this many seconds; 0: on Ctrl-C, "
                          "`detach` or the process's end.")] = 0.0,
    sample: Annotated[float, typer.Option(metavar="HZ", help="Samples of host threads per second; 0: none.")] = 100.0,
    counters: Annotated[str, typer.Option(metavar="off|HZ|NAMES", help="GPU counters: samples per second, or names.")] = "10",
    ring: Annotated[str, typer.Option(metavar="TIME|SIZE", help="Keep only the last 30s, 500MB or both; `trigger` writes "
                          "them as a trace.")] = "",
) -> None:  # fmt: skip
    """Record a running process.

    The process must have started with WARPSIGHT=dormant and CUDA_INJECTION64_PATH=…/libwarpsight.so, or be CPython 3.14 or
    newer. Its environment also sets the options (WARPSIGHT_STACKS, …). Graphs and modules created earlier have no stacks. A
    dormant process of a running `warpsight record` joins that recording.
    """
    from warpsight.recorder import find
    from warpsight.recorder.drain import listener
    from warpsight.recorder.environment import SOCKET
    from warpsight.recorder.options.settings import Settings

    if duration < 0:
        raise UsageError(f"--for must be a number of seconds, 0 or more, not {duration:g}")
    launcher = find.environment(pid).get(SOCKET)
    if launcher and listener.reachable(launcher):
        answer = listener.ask(launcher, {"do": "attach", "pid": pid}, 30)
        terminal.note(f"process {pid} is recorded into {answer['folder']}; warpsight detach {pid} ends that")
        return
    settings = Settings(sample=sample, counters=counters, ring=ring)
    raise typer.Exit(_record(pid, path or Path(f"pid-{pid}.warp"), settings, duration, force=force))


def _record(pid: int, path: Path, settings: Settings, duration: float, *, force: bool) -> int:
    from warpsight.recorder import attach
    from warpsight.recorder.drain.arena import STOP
    from warpsight.recorder.server import Server
    from warpsight.recorder.signals import Signals
    from warpsight.ui.cli.record.record_summary import print_summary

    server = Server(path, settings, force=force)
    server.detach_bits = STOP
    server.record_newcomers()
    with Signals() as signals:
        server.start()
        try:
            how = attach.start(pid, server.socket)
            _await_connection(server, pid)
        except WarpsightError:
            server.abandon()
            raise
        terminal.note(f"recording process {pid} into {server.folder} ({how}); Ctrl-C detaches")
        until = time.monotonic() + duration if duration else float("inf")
        word = attach.announce(pid, server.socket)
        signals.wait(lambda: time.monotonic() >= until or server.wait_idle(0) or signal.SIGINT in signals.seen
                     or signal.SIGTERM in signals.seen, lambda number, group: _act(server, number))  # fmt: skip
        attach.withdraw(word)
        summary = server.finish()
    if terminal.verbosity() >= 0:
        print_summary(summary)
    return 0


def _act(server: Server, number: int) -> None:
    if number == signal.SIGUSR2 and server.ring is not None:
        server.trigger("signal")


def _await_connection(server: Server, pid: int) -> None:
    until = time.monotonic() + _CONNECT_S
    while not server.targets:
        if time.monotonic() > until:
            raise WarpsightError(
                f"process {pid} did not connect within {_CONNECT_S:g} s: its main thread may be busy outside Python"
            )
        time.sleep(0.02)
