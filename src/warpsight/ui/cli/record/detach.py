"""`warpsight detach`: end the recording of an attached process."""

from __future__ import annotations

from warpsight.ui.cli import options
from warpsight.ui.render import terminal


def command(pid: options.Pid) -> None:
    """End the recording of an attached process.

    The process runs on at no cost, and `attach` completes its trace. In a running `warpsight record` the process only pauses;
    attach to it again to go on.
    """
    from warpsight.recorder import attach

    folder = attach.detach(pid)
    terminal.note(f"process {pid} is no longer recorded; its rows are in {folder}")
