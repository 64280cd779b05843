"""A terminal line while another tool's file is read: share, rate and time left; removed at the end."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from warpsight.ui.render import numbers, terminal

if TYPE_CHECKING:
    from warpsight.formats.source import Source

#: Faster operations need no progress line.
_PATIENCE_S, _EVERY_S = 1.0, 0.2


@contextmanager
def shown(source: Source) -> Iterator[None]:
    """Show the progress of reading a source, if it takes a while and someone is watching."""
    if not sys.stderr.isatty() or terminal.verbosity() < 0:
        yield
        return
    done = threading.Event()
    began = time.monotonic()

    def show() -> None:
        wait = _PATIENCE_S
        while not done.wait(wait):
            wait = _EVERY_S
            text = line(source.path, source.taken, source.size, time.monotonic() - began)
            sys.stderr.write(f"\r\033[K{text[: shutil.get_terminal_size().columns - 1]}")
            sys.stderr.flush()
        if wait == _EVERY_S:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()

    thread = threading.Thread(target=show, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def line(path: Path, taken: int, size: int, seconds: float) -> str:
    """The progress line: share, rate and time left if the reader proceeds in order, otherwise the elapsed time."""
    label = f"reading {terminal.printable(path.name)}"
    if not 0 < taken < size:
        return f"{label} ({numbers.size(size)}): {seconds:.0f} s"
    left = seconds * (size - taken) / taken
    return f"{label}: {taken / size:.0%} of {numbers.size(size)}, {numbers.rate(taken / seconds)}, {left:.0f} s left"
