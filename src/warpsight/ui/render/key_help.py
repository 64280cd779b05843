"""The keys of an application in the terminal, shown over it."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import ModalScreen
from textual.widgets import Static


class KeyHelp(ModalScreen[None]):
    """The keys, as text, in one box."""

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
