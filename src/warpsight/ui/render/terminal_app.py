"""Shared parts of the terminal applications."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.screen import ModalScreen
from textual.widgets import Input, Static


class TerminalApp(App[None]):
    """An application that restores the terminal when SIGTERM or SIGHUP ends it; `return_code` is then 128 + signal."""

    ENABLE_COMMAND_PALETTE = False
    #: Its keys and their actions.
    keys: ClassVar[str]

    def on_load(self) -> None:
        """Listen for the signals, before the terminal is taken."""
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            with contextlib.suppress(NotImplementedError, RuntimeError):  # Windows; tests in a thread
                if number is not None and signal.getsignal(number) != signal.SIG_IGN:
                    asyncio.get_running_loop().add_signal_handler(number, self.exit, None, 128 + number)

    def on_resize(self) -> None:
        """Redraw: the content depends on the width."""
        self.call_after_refresh(self.show)

    def show(self) -> None:
        """Draw everything."""
        raise NotImplementedError

    def open_field(self, name: str) -> None:
        """Show an input field and type into it."""
        field = self.query_one(name, Input)
        field.add_class("shown")
        field.focus()

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(KeyHelp(self.keys))


class KeyHelp(ModalScreen[None]):
    """The keys, as text, in a box over the application."""

    BINDINGS: ClassVar = [Binding("escape,question_mark,q,enter", "dismiss", "Close")]
    DEFAULT_CSS = """
    KeyHelp { align: center middle; }
    KeyHelp Static { width: auto; max-width: 100%; height: auto; border: round $primary; padding: 0 1; background: $surface; }
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def compose(self) -> ComposeResult:
        """The box."""
        yield Static(self.text, markup=False)
