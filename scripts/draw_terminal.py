"""What commands print on terminals, as SVG."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

from rich.console import Console
from rich.text import Text

#: Name -> columns of the terminal, and the command.
_SCREENS = {
    "terminal-help": (100, ("--help",)),
    "terminal-analyze": (100, ("analyze", "{trace}")),
    "terminal-analyze-narrow": (40, ("analyze", "{trace}")),
    "terminal-stats": (100, ("stats", "{trace}", "kernels", "-n", "12")),
}


def screens(trace: str) -> dict[str, tuple[int, str]]:
    """Columns and SVG of each screen, of commands on this trace.

    Raises:
        subprocess.CalledProcessError: when a command fails.
    """
    out = {}
    for name, (columns, command) in _SCREENS.items():
        words = [word.format(trace=trace) for word in command]
        console = Console(record=True, width=columns, file=open(os.devnull, "w"), force_terminal=True)  # noqa: SIM115
        console.print(Text.from_ansi(_printed(words, columns)))
        out[name] = columns, console.export_svg(title=f"warpsight {words[0]}")
    return out


def _printed(words: list[str], columns: int) -> str:
    """What a command prints on a terminal of so many columns."""
    ours, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 200, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns)}
    running = subprocess.Popen(
        [sys.executable, "-m", "warpsight", *words],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=environment,
    )
    os.close(terminal)
    printed = b""
    while True:
        try:
            some = os.read(ours, 65536)
        except OSError:  # the command has ended
            break
        if not some:
            break
        printed += some
    os.close(ours)
    if running.wait():
        raise subprocess.CalledProcessError(running.returncode, words, printed)
    return printed.decode().replace("\r\n", "\n")
