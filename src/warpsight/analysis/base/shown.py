"""Answers that print as their verbs do, in a terminal and in a notebook."""

from __future__ import annotations

from importlib import import_module


class Shown:
    """A base of answers; what shows them belongs to layers above and is looked up by name."""

    def __str__(self) -> str:
        """The answer as its verb prints it."""
        return str(import_module("warpsight.ui.render.answers").text(self))

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return str(import_module("warpsight.ui.jupyter.display").answer_html(self))
