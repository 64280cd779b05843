"""What the applications in the terminal share."""

from __future__ import annotations

import asyncio
import contextlib
import signal

from textual.app import App


class TerminalApp(App[None]):
    """An application that gives the terminal back when SIGTERM or SIGHUP ends it; `return_code` is 128 + signal then."""

    def on_load(self) -> None:
        """Listen for the signals, before the terminal is taken."""
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            with contextlib.suppress(NotImplementedError, RuntimeError):  # Windows; tests in a thread
                if number is not None and signal.getsignal(number) != signal.SIG_IGN:
                    asyncio.get_running_loop().add_signal_handler(number, self.exit, None, 128 + number)
