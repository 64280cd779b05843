"""Pictures of event traces as SVG, in the pages' colors: addresses over time, pipelines, dataflow, shares of values.

All but the first are drawn twice, for wide windows and for phones.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.device_code.demangle import short
from warpsight.formats.events.kinds import KINDS, READ, WRITE
from warpsight.formats.events.records import Events
from warpsight.sass.events.dataflow import DISTANCES, Dataflow, Flow
from warpsight.sass.events.pipelines import BlockPipeline
from warpsight.sass.events.trace import EventTrace
from warpsight.sass.events.value_patterns import ValuePatterns
from warpsight.ui.render.numbers import duration

Array = npt.NDArray[Any]
_WIDTH, _LEFT, _CELL, _TEXT = 960, 150, 3, 18
#: Width on a phone, of a character, and of one with what is between two entries of a legend.
_NARROW, _CHARACTER, _ENTRY = 330, 6.7, 7.5
_COLORS = {"load": "var(--kernel)", "store": "var(--copy)", "both": "var(--communication)"}
_DISTANCE_COLORS = dict(
    zip(
        DISTANCES,
        ("var(--idle)", "var(--host)", "var(--kernel)", "var(--copy)", "var(--communication)"),
        strict=True,
    )
)
DISTANCES_NAMED = {
    "thread": "same thread", "warp": "lanes of a warp", "block": "warps of a block", "grid": "blocks", "launch": "launches",
}  # fmt: skip
#: Addresses further apart than this are drawn as stretches of their own.
_GAP = 1 << 14
_STRETCH, _MOST_STRETCHES, _PANELS, _MOST_FLOWS, _MOST_BARS = 60, 8, 4, 16, 24


def _svg(height: float, title: str, parts: Sequence[str], width: int = _WIDTH, kind: str = "wide") -> str:
    return (
        f'<svg class="{kind}" viewBox="0 0 {width} {height:g}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>" + "".join(parts) + "</svg>"
    )


def _label(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _legend(
    y: float, entries: Sequence[tuple[str, str]], left: float = _LEFT, width: float = _WIDTH
) -> tuple[list[str], float]:
    """Colors and what they mean, in as many lines as they need; and the last line's height."""
    parts, x = [], left
    for name, color in entries:
        wide = 15 + _ENTRY * len(name)
        if x > left and x + wide > width:
            x, y = left, y + 18
        parts += [
            f'<rect x="{x:.0f}" y="{y - 9:.0f}" width="10" height="10" fill="{color}"/>',
            _label(x + 15, y, name),
        ]
        x += wide + 20
    return parts, y


def _cut(text: str, most: float) -> str:
    """A text of at most so many characters; its end, which has the line, stays."""
    kept = int(most)
    if len(text) <= kept:
        return text
    end = kept * 2 // 5
    return f"{text[: kept - 1 - end]}…{text[-end:]}"


def addresses(trace: EventTrace) -> tuple[str, str]:
    """Addresses over time of the launch with most accesses: of all warps, then of the busiest ones. Also returns a title."""
    numbers, counts = np.unique(trace.events.launch[trace.events.is_access], return_counts=True)
    if not len(numbers):
        return "", ""
    launch = trace.launches[int(numbers[counts.argmax()])]
    events = trace.of_launch(launch.number)
    events = events.take(events.is_access)
    spaces = np.array([KINDS[kind].space if kind in KINDS else "" for kind in range(256)])[events.kind]
    events = events.take(np.isin(spaces, ("global", "shared")))
    if not len(events):
        return "", ""
    title = f"Addresses over time: {short(launch.name)}, launch {launch.number}"
    warp = events.block.astype(np.int64) * launch.warps + events.warp
    busiest = [int(one) for one in np.argsort(-np.bincount(warp), kind="stable")[:_PANELS]]
    begin, end = int(events.time.min()), max(int(events.time.max()), int(events.time.min()) + 1)
    places = _Places(events)
    parts, y = [], 20.0
    panels: list[tuple[str, Array]] = [("all warps", np.arange(len(events)))]
    if len(np.unique(warp)) > 1:
        panels += [
            (f"block {one // launch.warps}, warp {one % launch.warps}", np.flatnonzero(warp == one))
            for one in busiest
        ]
    for name, rows in panels:
        parts.append(_label(0, y, name))
        parts += places.drawn(events.take(rows), y + 8, begin, end)
        y += places.height + 36
    parts += [_label(_LEFT, y - 8, "0"), _label(_WIDTH, y - 8, duration(end - begin), "end")]
    kinds = [("loads", _COLORS["load"]), ("stores", _COLORS["store"]), ("both", _COLORS["both"])]
    parts += _legend(y + 12, kinds)[0]
    return title, _svg(y + 22, title, parts)


class _Places:
    """The vertical axis: address ranges that are used."""

    def __init__(self, events: Events) -> None:
        pages = [np.unique(batch.operand(0)[batch.accessing] // 64) for batch in events.batches()]
        lines = np.unique(np.concatenate(pages)) * 64
        cuts = np.flatnonzero(np.diff(lines) > _GAP) + 1
        parts = np.split(lines, cuts)
        if len(parts) > _MOST_STRETCHES:  # the largest gaps stay
            largest = np.sort(
                cuts[np.argsort(-np.diff(lines)[cuts - 1], kind="stable")[: _MOST_STRETCHES - 1]]
            )
            parts = np.split(lines, largest)
        self.begins = np.array([part[0] for part in parts], np.uint64)
        self.ends = np.array([part[-1] + 64 for part in parts], np.uint64)
        self.tall = _STRETCH if len(parts) > 2 else 2 * _STRETCH
        self.height = len(parts) * (self.tall + 6)

    def drawn(self, events: Events, top: float, begin: int, end: int) -> list[str]:
        """A panel's cells."""
        columns, rows = (_WIDTH - _LEFT) // _CELL, self.tall // _CELL
        kinds = np.zeros((len(self.begins) * rows, columns), np.uint8)
        for batch in events.batches():
            at, lane = np.nonzero(batch.accessing)
            address = batch.operand(0)[at, lane]
            stretch = np.searchsorted(self.begins, address, "right") - 1
            span = (self.ends - self.begins)[stretch].astype(np.float64)
            within = (address - self.begins[stretch]).astype(np.float64) / span
            y = stretch * rows + np.minimum((within * rows).astype(np.int64), rows - 1)
            x = ((batch.time[at] - begin) * (columns - 1) // (end - begin)).astype(np.int64)
            np.bitwise_or.at(kinds, (y, x), (batch.flags[at] & (READ | WRITE)).astype(np.uint8))
        parts = []
        for number, low in enumerate(self.begins.tolist()):
            edge = top + number * (self.tall + 6)
            parts.append(
                f'<rect class="panel" x="{_LEFT}" y="{edge:.0f}" width="{columns * _CELL}" height="{rows * _CELL}"/>'
            )
            parts.append(_label(0, edge + 11, f"{low:#x}"))
            if self.tall > 40:
                parts.append(_label(0, edge + 27, f"{int(self.ends[number]) - low:,} bytes"))
        names = {READ: "load", WRITE: "store", READ | WRITE: "both"}
        for kind, name in names.items():
            path = []
            for row in np.flatnonzero((kinds == kind).any(axis=1)).tolist():
                edge = top + row // rows * (self.tall + 6) + row % rows * _CELL
                filled = np.flatnonzero(kinds[row] == kind)
                for _, run in groupby(enumerate(filled.tolist()), lambda pair: pair[1] - pair[0]):
                    listed = [x for _, x in run]
                    path.append(
                        f"M{_LEFT + listed[0] * _CELL} {edge:.0f}h{len(listed) * _CELL}v{_CELL}h-{len(listed) * _CELL}z"
                    )
            if path:
                parts.append(f'<path fill="{_COLORS[name]}" d="{"".join(path)}"/>')
        return parts


_MARKS = (
    ("waits at an mbarrier", "var(--bad)", ("wait", "wait without end")),
    ("copies", "var(--kernel)", ("bulk_load", "bulk_store", "bulk_shared", "bulk_reduce", "bulk_reduce_shared",
                                 "bulk_prefetch", "tensor_load", "tensor_store", "tensor_reduce", "tensor_prefetch",
                                 "store_async", "reduce_async", "memset_shared", "copy_async")),
    ("arrivals", "var(--host)", ("init", "arrive", "arrive and drop", "arrive, expecting", "arrive and drop, expecting",
                                 "invalidate", "copy_async_barrier", "tensor_barrier")),
    ("products", "var(--communication)", ("wgmma", "wgmma_wait", "wgmma_fence")),
    ("barriers", "var(--unknown)", ("barrier", "barrier_release", "cluster_arrive", "cluster_wait", "pipeline_commit",
                                    "pipeline_wait")),
)  # fmt: skip


def pipeline(found: BlockPipeline) -> str:
    """A block's pipeline: a row for each warp, a bar for each wait, a tick for everything else."""
    return _pipeline(found, _WIDTH, _LEFT, "wide") + _pipeline(found, _NARROW, 56, "narrow")


def _pipeline(found: BlockPipeline, width: int, left: int, kind: str) -> str:
    colors = {name: color for _, color, names in _MARKS for name in names}
    warps = sorted({event.warp for event in found.events})
    end = max(max(event.time + event.duration for event in found.events), 1)
    scale = (width - left - 8) / end
    row = 26
    parts = []
    for at, warp in enumerate(warps):
        y = 8 + at * row
        parts += [
            f'<rect class="panel" x="{left}" y="{y}" width="{width - left}" height="{row - 6}"/>',
            _label(0, y + 14, f"warp {warp}"),
        ]
    ordered = sorted(found.events, key=lambda event: not event.duration)  # bars lie below ticks
    for event in ordered:
        y, x = 8 + warps.index(event.warp) * row, left + event.time * scale
        told = escape(f"{event.what} {event.where}")
        long, inset = max(event.duration * scale, 2.0), 5 if event.duration else 1
        parts.append(
            f'<rect x="{x:.1f}" y="{y + inset}" width="{long:.1f}" height="{row - 6 - 2 * inset}" '
            f'fill="{colors.get(event.what, "var(--other)")}"><title>{told}</title></rect>'
        )
    y = 8 + len(warps) * row + 10
    parts += [_label(left, y, "0"), _label(width, y, duration(end), "end")]
    used = {event.what for event in found.events}
    legend, below = _legend(
        y + 22,
        [(name, color) for name, color, names in _MARKS if used & set(names)],
        left if kind == "wide" else 0,
        width,
    )
    return _svg(below + 10, f"Pipeline of block {found.block}", [*parts, *legend], width, kind)


def flows(found: Dataflow) -> str:
    """Writers on the left, readers on the right, bands as wide as the bytes between them."""
    shown = found.flows[:_MOST_FLOWS]
    if not shown:
        return ""
    sides = _Side(shown, "writer"), _Side(shown, "reader")
    # Beside the bands, or on a phone above them: two lines, and some room.
    wide = _bands(shown, sides, (330, _WIDTH - 330), _WIDTH, 6, 26.0 * len(shown) + 160)
    labels = [_label(322, y + 4, _cut(name, 46), "end") for name, y, _ in sides[0].placed()]
    labels += [_label(_WIDTH - 322, y + 4, _cut(name, 46)) for name, y, _ in sides[1].placed()]
    drawn = _flows_svg(shown, [*wide, *labels], sides[0].tall, _WIDTH, "wide")
    narrow = _bands(shown, sides, (0, _NARROW), _NARROW, 36, 0.0)
    labels = []
    for side, x, anchor in ((sides[0], 0, "start"), (sides[1], _NARROW, "end")):
        for name, _, top in side.placed():
            place, _, line = name.partition(" ")
            labels += [
                _label(x, y, _cut(text, _NARROW / 2 / _CHARACTER), anchor)
                for y, text in ((top - 18, place), (top - 5, line))
                if text
            ]
    return drawn + _flows_svg(shown, [*narrow, *labels], sides[0].tall, _NARROW, "narrow")


def _flows_svg(shown: Sequence[Any], parts: Sequence[str], tall: float, width: int, kind: str) -> str:
    used = [(DISTANCES_NAMED[name], color)
            for name, color in _DISTANCE_COLORS.items() if any(flow.distance == name for flow in shown)]  # fmt: skip
    legend, y = _legend(tall + 14, used, _LEFT if kind == "wide" else 0, width)
    return _svg(y + 10, "Dataflow between instructions", [*parts, *legend], width, kind)


def _bands(
    shown: Sequence[Any],
    sides: tuple[_Side, _Side],
    ends: tuple[int, int],
    width: int,
    gap: float,
    tall: float,
) -> list[str]:
    """The bands between places that are `gap` apart at least, in a picture that is `tall` at least."""
    tall = max(tall, *(side.least(gap) for side in sides))
    for side in sides:
        side.place(tall)
    (x0, x1), middle = ends, width / 2
    parts = []
    for flow in shown:
        thick = sides[0].thick(flow)
        y0, y1 = sides[0].take(flow, thick), sides[1].take(flow, thick)
        parts.append(
            f'<path fill="none" stroke="{_DISTANCE_COLORS[flow.distance]}" stroke-opacity=".75" stroke-width="{thick:.1f}" '
            f'd="M{x0} {y0:.1f}C{middle} {y0:.1f} {middle} {y1:.1f} {x1} {y1:.1f}"/>'
        )
    return parts


class _Side:
    """The places of one side, stacked vertically, and how much of each is used up."""

    def __init__(self, shown: Sequence[Flow], side: str) -> None:
        self._side = side
        self._total: int = sum(flow.bytes for flow in shown)
        self._heights: dict[tuple[str, str], float] = {}
        for flow in shown:
            key = self._key(flow)
            self._heights[key] = self._heights.get(key, 0.0) + self.thick(flow)
        self._top: dict[tuple[str, str], float] = {}
        self._next: dict[tuple[str, str], float] = {}
        self.tall = 0.0

    def _key(self, flow: Flow) -> tuple[str, str]:
        return (flow.writer_kernel, flow.writer) if self._side == "writer" else (flow.kernel, flow.reader)

    def thick(self, flow: Flow) -> float:
        """The width of a flow's band."""
        share: float = flow.bytes / self._total
        return max(share * 150, 1.5)

    def least(self, gap: float) -> float:
        """How tall it is with such gaps between its places."""
        return sum(self._heights.values()) + gap * (len(self._heights) + 0.5)

    def place(self, tall: float) -> None:
        """Spread the places evenly."""
        self.tall = tall
        gap = (tall - sum(self._heights.values())) / (len(self._heights) + 0.5)
        y = gap
        for key, height in self._heights.items():
            self._top[key] = self._next[key] = y
            y += height + gap

    def take(self, flow: Flow, thick: float) -> float:
        """The middle of the next band at a flow's place."""
        y = self._next[self._key(flow)]
        self._next[self._key(flow)] = y + thick
        return y + thick / 2

    def placed(self) -> list[tuple[str, float, float]]:
        """Each place's name, middle and top."""
        return [
            (key[1], self._top[key] + height / 2, self._top[key]) for key, height in self._heights.items()
        ]


def shares(rows: Sequence[ValuePatterns]) -> str:
    """For each instruction, the shares of zeros, of the most common other value, and of the rest."""
    shown = rows[:_MOST_BARS]
    if not shown:
        return ""
    return _shares(shown, _WIDTH, 330, "wide") + _shares(shown, _NARROW, 0, "narrow")


def _shares(shown: Sequence[ValuePatterns], width: int, left: int, kind: str) -> str:
    parts, beside = [], kind == "wide"
    row_height, above = (24, 0) if beside else (40, 16)
    for at, row in enumerate(shown):
        y = 6 + at * row_height
        common = row.most_common if row.example not in ("0", "-0") else 0.0
        name = f"{row.operation} {row.where}"
        parts.append(
            _label(left - 8, y + 13, _cut(name, 46), "end")
            if beside
            else _label(0, y + 11, _cut(name, width / _CHARACTER))
        )
        x = float(left)
        for share, color in (
            (row.zero, "var(--idle)"), (common, "var(--copy)"), (max(1 - row.zero - common, 0), "var(--kernel)"),
        ):  # fmt: skip
            parts.append(
                f'<rect x="{x:.1f}" y="{y + above}" width="{share * (width - left):.1f}" height="17" fill="{color}"/>'
            )
            x += share * (width - left)
    entries = [("zero", "var(--idle)"), ("most common value", "var(--copy)"), ("others", "var(--kernel)")]
    legend, below = _legend(6.0 + row_height * len(shown) + 16, entries, _LEFT if beside else 0, width)
    return _svg(below + 10, "Values by instruction", [*parts, *legend], width, kind)
