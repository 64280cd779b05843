"""`warpsight cluster`: a folder of verbs about jobs of many ranks."""

from __future__ import annotations

#: Verbs below `cluster`, each a module here with a `command`.
BELOW = ("analyze", "merge", "topology", "traffic", "trigger")


def command() -> None:
    """Analyze a job of many ranks: which rank holds up the others, and why."""
