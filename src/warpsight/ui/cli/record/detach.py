"""`warpsight detach`: end the recording of an attached process."""

from __future__ import annotations

from warpsight.ui.cli import options
from warpsight.ui.render import terminal


def command(pid: options.Pid) -> None:
    """End the recording of an attached process.

    The process runs on at no cost, and `attach` completes its trace. In a running `warpsight record` the process only pauses;
    attach to it again to go on.
    """
    from warpsight.recorder import attach, find
    from warpsight.recorder.drain import listener
    from warpsight.recorder.environment import SOCKET

    launcher = find.environment(pid).get(SOCKET)
    if not (launcher and listener.reachable(launcher)):
        launcher = attach.launcher_of(pid)
    answer = listener.ask(launcher, {"do": "detach", "pid": pid}, 30)
    terminal.note(f"process {pid} is not recorded any more; its rows are in {answer['folder']}")
