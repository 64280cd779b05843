"""Colors of pictures, from Okabe and Ito's palette, safe for common color blindness.

Pages have the same colors in `assets/theme.css`, for light and dark.
"""

from __future__ import annotations

#: Kind of a frame → fill on white; texts on it are black.
KINDS = {
    "root": "#d5d9de",
    "device": "#c3ccd6",
    "stream": "#c3ccd6",
    "rank": "#c3ccd6",
    "process": "#c3ccd6",
    "thread": "#c3ccd6",
    "python": "#f3cf7a",
    "native": "#d9cdb8",
    "marker": "#d9cdb8",
    "line": "#d9cdb8",
    "missing": "#cfcfcf",
    "range": "#8fd3bd",
    "op": "#dcaed0",
    "kernel": "#8cc4ea",
    "copy": "#eda47a",
    "set": "#e6dc6e",
    "allocation": "#eda47a",
    "source": "#8fd3bd",
    "instruction": "#e6dc6e",
    "stall": "#eda47a",
    "running": "#8cc4ea",
    "waiting": "#cfcfcf",
}
#: More after than before, less after than before.
MORE, LESS = (213, 94, 0), (0, 114, 178)
INK = "#14181d"


def kind_color(kind: str) -> str:
    """The fill of a frame of a plain graph."""
    return KINDS.get(kind, "#d5d9de")


def change_color(before: int, after: int) -> str:
    """The fill of a frame in a differential graph: redder the more it grew, bluer the more it shrank, white if equal."""
    most = max(before, after)
    if not most:
        return "#ececec"
    strength = (after - before) / most
    toward = MORE if strength > 0 else LESS
    mix = 0.75 * abs(strength)
    return "#" + "".join(f"{round(244 + (c - 244) * mix):02x}" for c in toward)
