"""Pictures of event traces as SVG, in the pages' colors: addresses over time, pipelines, dataflow, shares of values."""

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
from warpsight.sass.events.dataflow import DISTANCES, Dataflow
from warpsight.sass.events.pipelines import BlockPipeline
from warpsight.sass.events.trace import EventTrace
from warpsight.sass.events.value_patterns import ValuePatterns
from warpsight.ui.render.numbers import duration

Array = npt.NDArray[Any]
_WIDTH, _LEFT, _CELL, _TEXT = 960, 150, 3, 18
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


def _svg(height: float, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height:g}" role="img" aria-label="{escape(title)}"><title>{escape(title)}</title>'
        + "".join(parts)
        + "</svg>"
    )


def _label(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _legend(y: float, entries: Sequence[tuple[str, str]]) -> list[str]:
    parts, x = [], float(_LEFT)
    for name, color in entries:
        parts += [
            f'<rect x="{x:.0f}" y="{y - 9:.0f}" width="10" height="10" fill="{color}"/>',
            _label(x + 15, y, name),
        ]
        x += 15 + 7.5 * len(name) + 20
    return parts


def addresses(trace: EventTrace) -> tuple[str, str]:
    """Addresses over time of the launch with most accesses: of all warps, then of the busiest ones; and a title."""
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
    parts += _legend(
        y + 12, [("loads", _COLORS["load"]), ("stores", _COLORS["store"]), ("both", _COLORS["both"])]
    )
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
    ("copies", "var(--kernel)", ("bulk_load", "bulk_store", "bulk_shared", "bulk_reduce", "bulk_reduce_shared", "store_async",
                                 "reduce_async", "memset_shared", "copy_async")),
    ("arrivals", "var(--host)", ("init", "arrive", "arrive and drop", "arrive, expecting", "arrive and drop, expecting",
                                 "invalidate", "copy_async_barrier", "tensor_barrier")),
    ("products", "var(--communication)", ("wgmma", "wgmma_wait", "wgmma_fence")),
    ("barriers", "var(--unknown)", ("barrier", "barrier_release", "cluster_arrive", "cluster_wait", "pipeline_commit",
                                    "pipeline_wait")),
)  # fmt: skip


def pipeline(found: BlockPipeline) -> str:
    """A block's pipeline: a row for each warp, a bar for each wait, a tick for everything else."""
    colors = {name: color for _, color, names in _MARKS for name in names}
    warps = sorted({event.warp for event in found.events})
    end = max(max(event.time + event.duration for event in found.events), 1)
    scale = (_WIDTH - _LEFT - 8) / end
    row = 26
    parts = []
    for at, warp in enumerate(warps):
        y = 8 + at * row
        parts += [
            f'<rect class="panel" x="{_LEFT}" y="{y}" width="{_WIDTH - _LEFT}" height="{row - 6}"/>',
            _label(0, y + 14, f"warp {warp}"),
        ]
    ordered = sorted(found.events, key=lambda event: not event.duration)  # bars lie below ticks
    for event in ordered:
        y, x = 8 + warps.index(event.warp) * row, _LEFT + event.time * scale
        told = escape(f"{event.what} {event.where}")
        width, inset = max(event.duration * scale, 2.0), 5 if event.duration else 1
        parts.append(
            f'<rect x="{x:.1f}" y="{y + inset}" width="{width:.1f}" height="{row - 6 - 2 * inset}" '
            f'fill="{colors.get(event.what, "var(--other)")}"><title>{told}</title></rect>'
        )
    y = 8 + len(warps) * row + 10
    parts += [_label(_LEFT, y, "0"), _label(_WIDTH, y, duration(end), "end")]
    parts += _legend(y + 22, [(name, color) for name, color, _ in _MARKS])
    return _svg(y + 32, f"Pipeline of block {found.block}", parts)


def flows(found: Dataflow) -> str:
    """Writers on the left, readers on the right, bands as wide as the bytes between them."""
    shown = found.flows[:_MOST_FLOWS]
    if not shown:
        return ""
    total = sum(flow.bytes for flow in shown)
    tall = 26.0 * len(shown) + 160
    left, right = _Column(shown, "writer", total, tall), _Column(shown, "reader", total, tall)
    x0, x1 = 330, _WIDTH - 330
    bands = []
    for flow in shown:
        thick = max(flow.bytes / total * 150, 1.5)
        y0, y1 = (
            left.take((flow.writer_kernel, flow.writer), thick),
            right.take((flow.kernel, flow.reader), thick),
        )
        middle = (x0 + x1) / 2
        bands.append(
            f'<path fill="none" stroke="{_DISTANCE_COLORS[flow.distance]}" stroke-opacity=".75" stroke-width="{thick:.1f}" '
            f'd="M{x0} {y0:.1f}C{middle} {y0:.1f} {middle} {y1:.1f} {x1} {y1:.1f}"/>'
        )
    labels = [_label(x0 - 8, y, name, "end") for name, y in left.labels()]
    labels += [_label(x1 + 8, y, name) for name, y in right.labels()]
    used = [(DISTANCES_NAMED[name], color)
            for name, color in _DISTANCE_COLORS.items() if any(flow.distance == name for flow in shown)]  # fmt: skip
    return _svg(tall + 24, "Dataflow between instructions", [*bands, *labels, *_legend(tall + 14, used)])


class _Column:
    """The places of one side, stacked vertically, and how much of each is used up."""

    def __init__(self, shown: Sequence[Any], side: str, total: int, tall: float) -> None:
        self._names: dict[tuple[str, str], float] = {}
        for flow in shown:
            kernel = flow.writer_kernel if side == "writer" else flow.kernel
            key = (kernel, getattr(flow, side))
            self._names[key] = self._names.get(key, 0.0) + max(flow.bytes / total * 150, 1.5)
        gap = max((tall - sum(self._names.values())) / (len(self._names) + 1), 6)
        self._next: dict[tuple[str, str], float] = {}
        self._center: dict[tuple[str, str], float] = {}
        y = gap / 2
        for key, height in self._names.items():
            self._next[key], self._center[key] = y, y + height / 2
            y += height + gap

    def take(self, key: tuple[str, str], thick: float) -> float:
        """The middle of the next band at a place."""
        y = self._next[key]
        self._next[key] = y + thick
        return y + thick / 2

    def labels(self) -> list[tuple[str, float]]:
        """Each place's name and height."""
        return [(place if len(place) < 46 else place[:45] + "…", self._center[kernel, place] + 4)
                for kernel, place in self._names]  # fmt: skip


def shares(rows: Sequence[ValuePatterns]) -> str:
    """For each instruction, the shares of zeros, of the most common other value, and of the rest."""
    shown = rows[:_MOST_BARS]
    if not shown:
        return ""
    x0, width = 330, _WIDTH - 330
    parts = []
    for at, row in enumerate(shown):
        y = 6 + at * 24
        common = row.most_common if row.example not in ("0", "-0") else 0.0
        parts.append(_label(x0 - 8, y + 13, f"{row.operation} {row.where}"[-46:], "end"))
        x = float(x0)
        for share, color in (
            (row.zero, "var(--idle)"), (common, "var(--copy)"), (max(1 - row.zero - common, 0), "var(--kernel)"),
        ):  # fmt: skip
            parts.append(
                f'<rect x="{x:.1f}" y="{y}" width="{share * width:.1f}" height="17" fill="{color}"/>'
            )
            x += share * width
    y = 6 + 24 * len(shown) + 16
    legend = _legend(
        y, [("zero", "var(--idle)"), ("most common value", "var(--copy)"), ("others", "var(--kernel)")]
    )
    return _svg(y + 10, "Values by instruction", [*parts, *legend])
