"""The extra fields of an NVTX range: the argument `nvtx` of our exports back as columns, and Chrome's colors.

The format has no colors of its own, only names of some that its viewer reserves (`cname`); their values are those of
catapult's tracing/base/color_scheme.html. The exact color is in the argument.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any

from warpsight.formats.writing.timeline import NVTX

Row = dict[str, Any]
_COLOR = re.compile(r"#[0-9a-f]{8}")
_KINDS = ("push/pop", "start/end", "instant")
_TEXTS = ("domain", "category", "source")
_MEMBERS = frozenset((*_TEXTS, "color", "payload", "kind", "open"))
_RESERVED = {
    "black": (0, 0, 0), "white": (255, 255, 255), "grey": (221, 221, 221), "generic_work": (125, 125, 125),
    "yellow": (255, 255, 0), "olive": (100, 100, 0), "good": (0, 125, 0), "bad": (180, 125, 0), "terrible": (180, 0, 0),
    "thread_state_iowait": (255, 140, 0), "thread_state_running": (126, 200, 148), "thread_state_runnable": (133, 160, 210),
    "thread_state_uninterruptible": (182, 125, 143), "thread_state_unknown": (199, 155, 125),
    "background_memory_dump": (0, 180, 180), "light_memory_dump": (0, 0, 180), "detailed_memory_dump": (180, 0, 180),
    "vsync_highlight_color": (0, 0, 255),
}  # fmt: skip


def taken(attributes: Row) -> tuple[Row, Row]:
    """Columns of table `marker` taken from the single argument of our exports, and the other arguments."""
    ours = attributes.get(NVTX)
    if not isinstance(ours, dict) or not ours.keys() <= _MEMBERS:
        return {"category": None}, attributes
    columns: Row = {"category": None}
    columns |= {name: ours[name] for name in _TEXTS if isinstance(ours.get(name), str)}
    color, payload, kind = ours.get("color"), ours.get("payload"), ours.get("kind")
    if isinstance(color, str) and _COLOR.fullmatch(color):
        columns["color"] = int(color[1:], 16)
    if isinstance(payload, (int, float)) or payload in ("nan", "inf", "-inf"):
        columns["payload"] = float(payload) if isinstance(payload, str) or math.isfinite(payload) else None
    if kind in _KINDS:
        columns["kind"] = kind
    if ours.get("open") is True:
        columns["open"] = True
    return columns, {name: value for name, value in attributes.items() if name != NVTX}


@lru_cache(maxsize=4096)
def reserved_color(color: str) -> str:
    """The name of Chrome's reserved color nearest to `#aarrggbb`."""
    red, green, blue = (int(color[place : place + 2], 16) for place in (3, 5, 7))

    def distance(name: str) -> float:
        r, g, b = _RESERVED[name]
        # Weighted by how differently the eye takes the three ("redmean").
        mean = (red + r) / 2
        return (
            (2 + mean / 256) * (red - r) ** 2
            + 4 * (green - g) ** 2
            + (2 + (255 - mean) / 256) * (blue - b) ** 2
        )

    return min(_RESERVED, key=distance)
