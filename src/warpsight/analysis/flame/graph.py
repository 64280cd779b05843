"""Flame graphs: a tree of host stack → ranges and operators → device work, weighed by time, launches, bytes or idle time.

Graphs of warp samples go from the kernel to inlined calls, instruction and stall reason; graphs of host samples: thread → host
stack → ranges → running or waiting.

Exact: weights are integers and the root holds the sum of the rows, whatever the stacks. Work without a host stack is kept
under a frame of its own; kernels that never finished have no time and are counted beside the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight._display import HtmlShown
from warpsight.analysis.base.labels import NumberedLabels
from warpsight.analysis.flame import ranges as flame_ranges
from warpsight.analysis.flame import rows as flame_rows
from warpsight.analysis.flame import samples as flame_samples
from warpsight.analysis.flame.runs import Runs, in_order
from warpsight.analysis.flame.tree import Tree
from warpsight.errors import UsageError, choices
from warpsight.model.selection import Rows, begin_of
from warpsight.model.work import blocks, summed, values_in

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = NDArray[Any]
WEIGHTS = tuple(flame_rows.WEIGHTS)
#: Levels between the root and the leaves, outermost first.
LEVELS = ("stack", "range", "op")
#: The ways to split a graph, above the stacks.
BY = ("device", "stream", "rank", "process", "thread")
#: Forms of kernel names.
NAMES = ("demangled", "short", "mangled")
#: Placeholder for a frame that the trace does not describe.
_UNKNOWN_FRAME = "?"
NO_STACK = "[no host stack]"
_ALL = Rows()


@dataclass(frozen=True)
class Shape:
    """How to build a graph.

    Attributes:
        weight: One of :data:`WEIGHTS`.
        by: Levels above the stacks, of :data:`BY`.
        levels: Which of :data:`LEVELS` are between the root and the leaves.
        names: Form of kernel names, of :data:`NAMES`.
        lines: Frames of one function at different lines are different frames.
    """

    weight: str = "time"
    by: Sequence[str] = ()
    levels: Sequence[str] = LEVELS
    names: str = "demangled"
    lines: bool = True

    def check(self) -> None:
        """Refuse unsupported choices.

        Raises:
            UsageError: for an unsupported choice; the message names the supported ones.
        """
        for value, known, what in ((self.weight, WEIGHTS, "weight"), (self.names, NAMES, "form of names"),
                                   *((b, BY, "split") for b in self.by),
                                   *((v, LEVELS, "level") for v in self.levels)):  # fmt: skip
            if value not in known:
                raise UsageError(f"there is no {what} {value!r}{choices(value, known)}")


@dataclass(frozen=True)
class FlameAccount:
    """The measured and the drawn totals: `measured` is summed from the tables, `shown` from the graph; they are equal."""

    measured: int
    shown: int
    rows: int
    without_stack: int
    without_time: int

    def to_json(self) -> dict[str, int]:
        """Plain data."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class FlameGraph(HtmlShown):
    """A weighed tree; a differential one has two weights per node (before, after), a plain one has one.

    Attributes:
        weight: One of :data:`WEIGHTS`.
        unit: Unit of the weights: ns, B or none.
        parent: Parent of each node, -1 for the root, which is node 0; parents come before their children.
        label: Index into `labels` and `kinds` (0: the root's).
        own: Weight of the node itself, shape (nodes, 1 or 2).
        total: Weight of the node and all below it, same shape.
        count: Rows at or below the node, same shape.
        labels: Texts of frames, ranges and leaves.
        kinds: root, device, …, python, native, missing, range, op, kernel, source, instruction, stall, copy, set, allocation,
            running or waiting.
        accounts: One per trace.
        traces: Path of each trace.
        runs: The same weights in the order of time; None in a differential graph and where times are unknown.
    """

    weight: str
    unit: str
    parent: Column
    label: Column
    depth: Column
    own: Column
    total: Column
    count: Column
    labels: Sequence[str]
    kinds: Sequence[str]
    accounts: tuple[FlameAccount, ...]
    traces: tuple[str, ...] = ()
    runs: Runs | None = None

    def __len__(self) -> int:
        return len(self.parent)

    @property
    def differential(self) -> bool:
        """Whether two traces are compared."""
        return bool(self.total.shape[1] == 2)

    def __repr__(self) -> str:
        """The weight and the size of the graph."""
        weights = " and ".join(f"{int(total):,}" for total in self.total[0]) if len(self) else "0"
        return f"<FlameGraph: {weights} {self.unit} in {len(self):,} nodes>"


def flame(trace: StoredTrace, rows: Rows = _ALL, shape: Shape = Shape()) -> FlameGraph:
    """The flame graph of one trace.

    Args:
        trace: The trace.
        rows: Which rows count; rows that reach into a window count with the part inside it.
        shape: Weight, levels and names.

    Raises:
        UsageError: for a weight, level or form of names that does not exist.
    """
    return _graph([(trace, rows)], shape)


def flame_diff(
    before: StoredTrace, after: StoredTrace, rows: Sequence[Rows] = (_ALL, _ALL), shape: Shape = Shape()
) -> FlameGraph:
    """One graph of two traces; frames, ranges and kernels match if their names are equal.

    Args:
        before: The earlier trace.
        after: The later trace.
        rows: Which rows of each count.
        shape: Weight, levels and names of both.

    Raises:
        UsageError: as :func:`flame`.
    """
    return _graph([(before, rows[0]), (after, rows[1])], shape)


def _graph(sources: Sequence[tuple[StoredTrace, Rows]], shape: Shape) -> FlameGraph:
    shape.check()
    labels = NumberedLabels({("root", "all"): 0})
    parts = [_Part.of(trace, rows, shape, labels) for trace, rows in sources]
    tree = Tree()
    # All traces take each step together: a node that both have is made once.
    owner = np.repeat(np.arange(len(parts)), [len(p.weight) for p in parts])
    nodes = np.zeros(len(owner), np.int64)
    for level in zip(*(p.levels for p in parts), strict=True):
        width = max(paths.shape[1] for _, paths in level)
        offsets = np.cumsum([0, *(len(paths) for _, paths in level)])
        ids = np.concatenate([i + o for (i, _), o in zip(level, offsets[:-1], strict=True)])
        stacked = np.full((int(offsets[-1]), width), -1, np.int64)
        for (_, paths), at in zip(level, offsets[:-1], strict=True):
            stacked[at : at + len(paths), : paths.shape[1]] = paths
        nodes = tree.walk(nodes, ids, stacked)
    own = np.zeros((len(tree), len(parts)), np.int64)
    count = np.zeros_like(own)
    np.add.at(own, (nodes, owner), np.concatenate([p.weight for p in parts]))
    np.add.at(count, (nodes, owner), np.concatenate([p.count for p in parts]))
    total = tree.totals(own)
    used, label = np.unique(np.maximum(tree.label, 0), return_inverse=True)
    known = list(labels.numbers)
    kinds, texts = zip(*(known[i] for i in used.tolist()), strict=True)
    accounts = tuple(p.account(int(total[0, i])) for i, p in enumerate(parts))
    runs = parts[0].runs if len(parts) == 1 else None
    return FlameGraph(
        shape.weight, flame_rows.WEIGHTS[shape.weight][0], tree.parent, label, tree.depth, own, total,
        tree.totals(count), texts, kinds, accounts, tuple(trace.path for trace, _ in sources),
        None if runs is None else replace(runs, node=nodes[runs.node]),
    )  # fmt: skip


@dataclass(frozen=True)
class _Part:
    """One trace: a row per distinct path down the tree, and for each level the row's path and the paths' labels."""

    weight: Column
    count: Column
    levels: list[tuple[Column, Column]]
    measured: int
    without_stack: int
    without_time: int
    #: Its nodes are rows of this part.
    runs: Runs | None

    @classmethod
    def of(cls, trace: StoredTrace, rows: Rows, shape: Shape, labels: NumberedLabels) -> _Part:
        leaves = flame_rows.load(trace, rows, shape.weight, shape.names)
        groups = [_split(trace, leaves, by, labels) for by in shape.by]
        sources = tuple(level for level in shape.levels if level != "stack")
        chains = None
        if sources:
            beside = "stack" in shape.levels
            chains = flame_ranges.chains(
                trace, sources, leaves.process, leaves.moments, leaves.issued, beside
            )
        around = chains.of if chains else np.zeros(len(leaves), np.int64)
        told = int(leaves.stack.max(initial=0)) + 1
        keys = [*(ids for ids, _ in groups), _stack_ids(leaves, around, shape, told), around, leaves.leaf]
        place, first = _places(keys, len(leaves))
        weight = summed(place, leaves.weight, len(first))
        count = np.bincount(place, minlength=len(first))
        ids = [key[first] for key in keys]
        own = np.array([labels(k, t) for k, t in zip(leaves.kinds, leaves.labels, strict=True)], np.int64)
        paths = [paths for _, paths in groups]
        paths.append(_stacks(trace, ids[-3], shape, labels, told))
        ids[-3] = np.unique(ids[-3], return_inverse=True)[1]
        paths.append(_chain_labels(chains, labels))
        paths.append(_leaf_paths(leaves, own))
        without = int(leaves.weight[leaves.stack == 0].sum())
        runs = None
        if leaves.start is not None:
            lanes = [ids for ids, _ in groups]
            runs = in_order(place, leaves.start, leaves.weight, lanes, begin_of(trace))
        return cls(
            weight, count, list(zip(ids, paths, strict=True)), leaves.measured, without, leaves.without_time, runs
        )  # fmt: skip

    def account(self, shown: int) -> FlameAccount:
        return FlameAccount(
            self.measured, shown, int(self.count.sum()), self.without_stack, self.without_time
        )


def _leaf_paths(leaves: flame_rows.Leaves, own: Column) -> Column:
    """Labels of each leaf's frames: one, except for leaves that span several frames."""
    if leaves.paths is None:
        return own.reshape(-1, 1)
    return np.where(leaves.paths >= 0, own[np.maximum(leaves.paths, 0)], -1)


def _stack_ids(leaves: flame_rows.Leaves, chain: Column, shape: Shape, told: int) -> Column:
    """Stack of each row; rows without one get `told` if a range or operator gives their origin."""
    if "stack" not in shape.levels:
        return np.full(len(leaves), told, np.int64)
    without = np.flatnonzero(leaves.stack == 0)
    if not len(without):
        return leaves.stack
    out = leaves.stack.astype(np.int64)
    out[without[chain[without] > 0]] = told
    return out


def _places(keys: Sequence[Column], rows: int) -> tuple[Column, Column]:
    """The group of each row (rows with equal keys form a group), and the first row of each group.

    Groups are numbered as they appear.
    """
    widths = [int(key.max(initial=0)) + 1 for key in keys]
    size = prod(widths)
    if size > 4 * rows + 1024:
        place = _sparse_places(keys, widths, rows)
        first = np.zeros(int(place.max(initial=-1)) + 1, np.int64)
        first[place[::-1]] = np.arange(rows)[::-1]
        return place, first
    code = np.zeros(rows, np.int32)
    seen = np.full(size, rows, np.int64)
    for block in reversed(blocks(rows)):
        own = code[block]
        for key, width in zip(keys, widths, strict=True):
            own *= width
            np.add(own, key[block], out=own, casting="unsafe")
        seen[own[::-1]] = np.arange(block.start + len(own) - 1, block.start - 1, -1)
    used = np.flatnonzero(seen < rows)
    used = used[np.argsort(seen[used])]
    number = np.zeros(size, np.int32)
    number[used] = np.arange(len(used))
    for block in blocks(rows):
        code[block] = number[code[block]]
    return code, seen[used]


def _sparse_places(keys: Sequence[Column], widths: Sequence[int], rows: int) -> Column:
    import pyarrow as pa

    code = np.zeros(rows, np.int64)
    size = 1
    for key, width in zip(keys, widths, strict=True):
        if size * width >= 1 << 62:  # few wide keys: number what there is and go on
            code = pa.array(code).dictionary_encode().indices.to_numpy().astype(np.int64)
            size = int(code.max(initial=0)) + 1
        code = code * width + key
        size *= width
    out: Column = pa.array(code).dictionary_encode().indices.to_numpy()
    return out


def _split(
    trace: StoredTrace, leaves: flame_rows.Leaves, by: str, labels: NumberedLabels
) -> tuple[Column, Column]:
    """The split group of each row, and the groups' labels."""
    if by == "thread":
        place, called = flame_samples.threads(trace, leaves.process, leaves.moments()[1])
        return place, np.array([labels(by, text) for text in called], np.int64).reshape(-1, 1)
    if by == "device":
        names = dict(trace.sql("SELECT device, name FROM device").fetchall())
        keys: list[Column] = [leaves.place("device")]
        texts = {(d,): f"device {d} {names.get(d, '')}".strip() for d in names} | {(-1,): "no device"}
    elif by == "stream":
        keys = [leaves.process, *map(leaves.place, ("device", "context", "stream"))]
        texts = {}
    else:
        found = trace.sql("SELECT process, pid, rank FROM process").fetchall()
        keys = [leaves.process]
        texts = {
            (p,): f"rank {rank}" if by == "rank" and rank is not None else f"process {pid}"
            for p, pid, rank in found
        }
    rows, back = np.unique(np.stack(keys, axis=1).astype(np.int64), axis=0, return_inverse=True)
    several = len({row[0] for row in rows.tolist()}) > 1
    named = []
    for row in map(tuple, rows.tolist()):
        text = texts.get(row)
        if by == "stream":
            text = f"device {row[1]} stream {row[3]}" + (f" process {row[0]}" if several else "")
        named.append([labels(by, text or f"{by} {row[-1]}")])
    return back.reshape(-1), np.array(named, np.int64).reshape(-1, 1)


def _stacks(trace: StoredTrace, ids: Column, shape: Shape, labels: NumberedLabels, told: int) -> Column:
    """Labels of each distinct id's frames, outermost first; id 0 is work of unknown origin, `told` is work placed by ranges."""
    wanted = values_in(ids)
    by_range = wanted == told
    wanted = np.where(by_range, 0, wanted)
    missing = shape.weight != "allocated" or bool(wanted.any())
    table = trace.sql("SELECT id, coalesce(parent, 0), frame FROM stack").fetchnumpy()
    number, parent, frame = (np.asarray(column, np.int64) for column in table.values())
    top = max(int(number.max(initial=0)), int(wanted.max(initial=0))) + 1
    parent_of, label_of = np.zeros(top, np.int64), np.full(top, -1, np.int64)
    parent_of[number] = parent
    label_of[number] = _frame_labels(trace, shape, labels)[frame]
    levels, at = [], wanted.copy()
    while at.any():
        levels.append(label_of[at])
        at = parent_of[at]
    upward = np.stack(levels or [np.full(len(wanted), -1, np.int64)], axis=1)
    depth = (upward >= 0).sum(axis=1)
    # innermost first → outermost first, left-aligned
    column = depth[:, None] - 1 - np.arange(upward.shape[1])
    paths = np.where(column >= 0, np.take_along_axis(upward, np.maximum(column, 0), axis=1), -1)
    if missing:
        paths[(depth == 0) & ~by_range, 0] = labels("missing", NO_STACK)
    return paths


def _frame_labels(trace: StoredTrace, shape: Shape, labels: NumberedLabels) -> Column:
    """Label of each frame id."""
    rows = trace.sql("SELECT id, kind, function, file, line FROM frame").fetchall()
    used = trace.sql("SELECT coalesce(max(frame), 0) FROM stack").fetchall()[0][0]
    out = np.full(max(used, *(row[0] for row in rows), 0) + 1, -1, np.int64)
    if len(rows) < used:  # frames that nothing describes
        out[:] = labels("native", _UNKNOWN_FRAME)
    for number, kind, function, file, line in rows:
        place = (
            "" if file is None else f" ({file}:{line})" if line is not None and shape.lines else f" ({file})"
        )
        out[number] = labels(kind, f"{function}{place}")
    return out


def _chain_labels(chains: flame_ranges.Chains | None, labels: NumberedLabels) -> Column:
    if chains is None:
        return np.zeros((1, 0), np.int64)
    own = np.array([*(labels(kind, text) for kind, text in chains.texts), -1], np.int64)
    return own[chains.labels]  # -1 stays -1: it is the last of them
