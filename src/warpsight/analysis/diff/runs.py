"""One run reduced for a comparison: device time per iteration at every place in its call tree, and a few measures.

A *cell* is one leaf of the call tree: a kernel (or copies, or fills) below one chain of host frames, ranges and operators. Cells
of a run are few, so many runs can be compared without their traces staying open.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.base.frames import is_library
from warpsight.analysis.base.labels import NumberedLabels
from warpsight.analysis.diff import turns
from warpsight.analysis.diff.roles import role
from warpsight.analysis.diff.turns import RunTurns
from warpsight.analysis.flame import ranges as open_ranges
from warpsight.analysis.flame.ranges import Chains
from warpsight.model import work as device_work
from warpsight.model.naming import texts as names_of
from warpsight.model.selection import Rows
from warpsight.model.work import COPY, Work

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = npt.NDArray[Any]
_ALL = Rows()
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
_FILE = re.compile(r"[^/\\]*$")
_COPIES = ("copies", "fills")
#: Ways to label a cell, besides its place in the tree.
GROUPINGS = ("kernel", "role", "stack", "range", "operator")
#: Maximum length of the typical iteration kept for the alignment by sequence, which is quadratic in the worst case.
LONGEST_SEQUENCE = 6_000
#: Number of the program's own frames in a stack's label, innermost first.
_FRAMES = 4
_EPOCH_NS = 10**18


@dataclass(frozen=True)
class RunValues:
    """The times of a run per iteration (or as a whole).

    Attributes:
        measures: Name → ns: iteration (or recording), slowest tenth, device busy, device idle, device time.
        work: Kernels, copies and fills.
        time: Device time of each cell, ns.
        count: Work in each cell.
    """

    measures: dict[str, float]
    work: float
    time: Column
    count: Column


@dataclass(frozen=True)
class ReducedRun:
    """A reduced trace. Labels are (kind, text) pairs; columns hold their numbers, -1 for none.

    Attributes:
        path: What the user called it.
        when: When its device work began, ns since 1970; None where the trace does not say.
        machine: Host and devices, as one text.
        source: How its iterations were found, numbers as `#`, or "".
        name: What the program calls an iteration.
        turns: Iterations that count; 1 for the whole recording.
        kinds: Kinds of iterations.
        labels: Every label once.
        paths: For each cell the labels from the outermost frame to the leaf (cells × depth, with gaps).
        groups: For each of :data:`GROUPINGS` the label of each cell.
        position: Average position of a cell's work in an iteration, 0 first.
        iteration: Values per iteration; None where the run has none.
        recording: Values of the whole recording.
        sequence: Kernels of a typical iteration in order: numbers of their labels, and ns.
        lost: What is missing from the trace: source, cause, count.
    """

    path: str
    when: int | None
    machine: str
    source: str
    name: str | None
    turns: int
    kinds: int
    labels: list[tuple[str, str]]
    paths: Column
    groups: dict[str, Column]
    position: Column
    iteration: RunValues | None
    recording: RunValues
    sequence: tuple[Column, Column]
    lost: tuple[tuple[str, str, int], ...] = ()


def read(trace: StoredTrace, rows: Rows = _ALL) -> ReducedRun:
    """Reduce a trace to a run."""
    work = device_work.load(trace, rows, cut=False)
    found, everything = turns.find(trace, rows, work), turns.whole(work)
    labels = NumberedLabels()
    chains = open_ranges.chains(
        trace, ("range", "op"), work.process, lambda: open_ranges.calls(trace, work.process, work.correlation)
    )
    around = chains.of if chains is not None else np.zeros(len(work), np.int64)
    leaf = np.where(
        work.kind < COPY, work.name_id.astype(np.int64), COPY - 1 - work.kind.astype(np.int64)
    )  # -1 copies, -2 fills
    cell, (stack, chain, leaf) = device_work.numbered([work.stack, around, leaf])
    leaves = _leaves(trace, leaf, labels)
    frames = _frames(trace, stack, labels)
    above = _ranges(chains, chain, found.name if found else None, labels)
    groups = {
        "kernel": leaves,
        "role": _roles(leaves, labels),
        "stack": _own_stacks(trace, stack, labels),
        **{name: _innermost(chains, chain, kind, labels) for name, kind in (("range", "range"), ("operator", "op"))},
    }  # fmt: skip
    part = found or everything
    return ReducedRun(
        trace.path, _start_time(trace, work), _machine(trace), found.source if found else "", found.name if found else None,
        len(part), part.kinds, list(labels.numbers), np.concatenate([frames, above, leaves[:, None]], axis=1), groups,
        _positions(cell, part, len(leaf)), _values(work, cell, len(leaf), found) if found else None,
        _values(work, cell, len(leaf), everything), _typical(work, cell, leaves, part), _lost(trace),
    )  # fmt: skip


def _values(work: Work, cell: Column, cells: int, part: RunTurns) -> RunValues:
    """The duration of the iterations; each cell counts its own undisturbed launches."""
    length = work.end - work.start
    time = np.bincount(cell, length * part.undisturbed(cell, length), minlength=cells)
    count = np.bincount(cell, np.append(part.share, 0.0)[part.place], minlength=cells)
    duration, busy = float(part.duration @ part.weight), float(part.busy @ part.weight)
    measures = {"iteration" if part.source else "recording": duration}
    if len(part) >= turns.TENTH:
        measures["slowest tenth"] = float(np.quantile(part.duration, 0.9))
    measures |= {
        "device busy": busy,
        "device idle": max(duration - busy, 0.0),
        "device time": float(time.sum()),
    }
    return RunValues(measures, float(count.sum()), time, count)


def _positions(cell: Column, part: RunTurns, cells: int) -> Column:
    """The mean place in its iteration of each cell's work; work is sorted by start, so a place is a rank among its iteration."""
    inside = np.flatnonzero(part.place >= 0)
    place = part.place[inside]
    order = np.argsort(place, kind="stable")
    first = np.searchsorted(place[order], np.arange(len(part)))
    rank = np.empty(len(inside), np.int64)
    rank[order] = np.arange(len(inside)) - first[place[order]]
    count = np.bincount(cell[inside], minlength=cells)
    total = np.bincount(cell[inside], rank, minlength=cells)
    out: Column = np.where(count > 0, total / np.maximum(count, 1), np.inf)
    return out


def _typical(work: Work, cell: Column, leaves: Column, part: RunTurns) -> tuple[Column, Column]:
    """Labels and ns of the work in the iteration of median length, ordered by start."""
    chosen = int(np.argsort(part.duration, kind="stable")[len(part) // 2])
    rows = np.flatnonzero(part.place == chosen)[:LONGEST_SEQUENCE]
    return leaves[cell[rows]], (work.end - work.start)[rows]


def _leaves(trace: StoredTrace, leaf: Column, labels: NumberedLabels) -> Column:
    names = names_of.texts(trace)
    ids, back = np.unique(leaf, return_inverse=True)
    own = [
        labels("kernel", names.get(i) or "?") if i >= 0 else labels("copy", _COPIES[-1 - i])
        for i in ids.tolist()
    ]
    return np.array(own, np.int64)[back]


def _roles(leaves: Column, labels: NumberedLabels) -> Column:
    texts = list(labels.numbers)
    ids, back = np.unique(leaves, return_inverse=True)
    own = [
        labels("role", role(texts[i][1]) if texts[i][0] == "kernel" else texts[i][1]) for i in ids.tolist()
    ]
    return np.array(own, np.int64)[back]


def _frames(trace: StoredTrace, stack: Column, labels: NumberedLabels) -> Column:
    """For each cell, the labels of its host frames, outermost first and padded with -1; lines and folders are left out."""
    wanted, back = np.unique(stack, return_inverse=True)
    columns = trace.sql("SELECT id, coalesce(parent, 0), frame FROM stack").fetchnumpy()
    number, parent, frame = (np.asarray(np.ma.getdata(column), np.int64) for column in columns.values())
    top = max(int(number.max(initial=0)), int(wanted.max(initial=0))) + 1
    parent_of, label_of = np.zeros(top, np.int64), np.full(top, -1, np.int64)
    parent_of[number] = parent
    label_of[number] = _frame_labels(trace, int(frame.max(initial=0)), labels)[frame]
    levels, at = [], np.maximum(wanted, 0)
    while at.any():
        levels.append(label_of[at])
        at = parent_of[at]
    upward = np.stack(levels, axis=1) if levels else np.full((len(wanted), 0), -1, np.int64)
    return upward[:, ::-1][back]


def _frame_labels(trace: StoredTrace, most: int, labels: NumberedLabels) -> Column:
    rows = trace.sql("SELECT id, kind, function, file FROM frame").fetchall()
    out = np.full(max(most, *(row[0] for row in rows), 0) + 1, -1, np.int64)
    for number, kind, function, file in rows:
        place = f" ({_base(file)})" if file else ""
        out[number] = labels(kind or "native", _ADDRESS.sub("#", f"{function}{place}"))
    return out


def _base(file: str) -> str:
    found = _FILE.search(file)
    return found[0] if found else file


def _ranges(chains: Chains | None, chain: Column, loop: str | None, labels: NumberedLabels) -> Column:
    """For each cell, the labels of the ranges and operators around it; all iterations of the loop are one range."""
    if chains is None:
        return np.full((len(chain), 0), -1, np.int64)
    own = [labels(kind, _turn(text, loop)) for kind, text in chains.texts]
    return np.array([*own, -1], np.int64)[chains.labels][chain]


def _turn(text: str, loop: str | None) -> str:
    """A range's name; iterations of the loop (`batch 17` of loop `batch`) lose their number."""
    text = _ADDRESS.sub("#", text)
    return _NUMBER.sub("#", text) if loop and text.startswith(loop) else text


def _innermost(chains: Chains | None, chain: Column, kind: str, labels: NumberedLabels) -> Column:
    """For each cell, the innermost range (or operator) around it, with numbers as `#`."""
    if chains is None:
        return np.full(len(chain), -1, np.int64)
    own = [labels(kind, _NUMBER.sub("#", text)) if one == kind else -1 for one, text in chains.texts]
    paths = np.array([*own, -1], np.int64)[chains.labels]
    if not paths.shape[1]:
        return np.full(len(chain), -1, np.int64)
    last = paths.shape[1] - 1 - (paths[:, ::-1] >= 0).argmax(axis=1)
    inner: Column = paths[np.arange(len(paths)), last]
    return inner[chain]


def _own_stacks(trace: StoredTrace, stack: Column, labels: NumberedLabels) -> Column:
    """For each cell, the program's own innermost frames as one label, by function and file."""
    ids, back = np.unique(stack, return_inverse=True)
    frames = trace.stacks(int(i) for i in ids if i > 0)
    own = [labels("stack", text) if (text := _own(frames.get(int(i), ()))) else -1 for i in ids]
    return np.array(own, np.int64)[back]


_PLACE = re.compile(r" \((?:.*[/\\])?([^()/\\:]*)(?::\d+)?\)$")


def _own(frames: Sequence[str]) -> str:
    """The user's own frames, innermost first, by function and file: line numbers change when a program is edited."""
    own = [f for f in frames if not is_library(f)] or list(frames)
    return _ADDRESS.sub("#", " ← ".join(_PLACE.sub(r" (\1)", frame) for frame in own[::-1][:_FRAMES]))


def _start_time(trace: StoredTrace, work: Work) -> int | None:
    """The time at which device work began, ns since 1970."""
    if not len(work):
        return None
    if work.begin > _EPOCH_NS:  # times that are counted from 1970 already
        return int(work.begin)
    found = trace.sql(
        "SELECT monotonic, realtime FROM clock WHERE realtime IS NOT NULL ORDER BY monotonic LIMIT 1"
    ).fetchall()
    return int(work.begin + found[0][1] - found[0][0]) if found else None


def _machine(trace: StoredTrace) -> str:
    devices = sorted({str(d.get("name")) for d in trace.manifest.get("devices", []) if d.get("name")})
    return ", ".join(filter(None, (str(trace.manifest.get("host") or ""), *devices)))


def _lost(trace: StoredTrace) -> tuple[tuple[str, str, int], ...]:
    rows = trace.sql("""SELECT source, cause, sum("count")::BIGINT AS n FROM loss WHERE severity <> 'note'
                        GROUP BY source, cause ORDER BY n DESC, cause""").fetchall()
    return tuple((source, cause, int(count)) for source, cause, count in rows)
