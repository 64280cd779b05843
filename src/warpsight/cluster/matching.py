"""The same collective on all ranks of its group.

Ranks run the operations of a communicator in the same order, so the n-th of one rank is the n-th of the others. Operations are
matched by the source's sequence numbers, or otherwise by position from the start of the recording, shifted for recordings that
began later. The operations determine the shift; if several shifts are possible, the ends decide, whose distances are equal on
both clocks.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from warpsight.cluster.summary import RankSummary, codes
from warpsight.model.work import numbered

Column = NDArray[Any]
#: Operations that no rank leaves before all have entered.
MEETINGS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "barrier")
#: Operations whose sizes are equal on all ranks.
_EQUAL_SIZES = ("all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce")
POINT_TO_POINT = ("send", "receive", "send-receive")
#: Operations that cannot be read off the name of a kernel.
_VAGUE = ("unknown", "several")
_MOST_MOVED = 256
_FEW_WRONG = 4
MISSING = -1


@dataclass(frozen=True)
class Communicator:
    """A communicator: a row per operation, a column per rank of it that was recorded.

    Attributes:
        key: Its name.
        size: How many ranks it has; None unknown.
        members: Its ranks if the source names them, else those that were recorded.
        ranks: Places of its recorded ranks among the job's.
        row: Row of each rank's own table of collectives, :data:`MISSING` where the rank did not record it.
        operation: Number of each rank's operation in `operations`, -1 missing.
        bytes: Size on each rank, -1 unknown.
        dtype: Number of each rank's element type in `dtypes`, -1 unknown.
    """

    key: str
    size: int | None
    members: tuple[int, ...]
    ranks: tuple[int, ...]
    row: Column
    operation: Column
    operations: tuple[str, ...]
    bytes: Column
    dtype: Column
    dtypes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.row)

    def of(self, summaries: Sequence[RankSummary], column: str) -> Column:
        """A column of times (ns) of the ranks' tables by operation and rank; 0 where missing."""
        parts = []
        for place, rank in enumerate(self.ranks):
            values = summaries[rank].collectives[column].to_numpy()
            row = self.row[:, place]
            parts.append(
                np.where(row >= 0, values[np.maximum(row, 0)], 0)
                if len(values)
                else np.zeros(len(row), np.int64)
            )
        return np.stack(parts, 1) if parts else np.zeros((len(self), 0), np.int64)

    @property
    def common(self) -> Column:
        """The operation that most ranks ran, by row."""
        return _most_common(self.operation)

    def is_a(self, names: Sequence[str]) -> Column:
        """Which rows are one of some operations."""
        wanted = [number for number, name in enumerate(self.operations) if name in names]
        return np.asarray(np.isin(self.common, wanted))

    @property
    def complete(self) -> Column:
        """Rows that every recorded rank has."""
        return np.asarray((self.row >= 0).all(1))


def match(summaries: Sequence[RankSummary]) -> list[Communicator]:
    """The groups of a job with their operations, largest first; groups with a single recorded rank are left out."""
    found: dict[tuple[str, str], list[int]] = {}
    members = _members(summaries)
    pairs = [_pairs(one, members) for one in summaries]
    for place, (_, keys) in enumerate(pairs):
        for key in dict.fromkeys(keys.values()):
            found.setdefault(key, []).append(place)
    groups = [_group(summaries, pairs, key, ranks) for key, ranks in found.items() if len(ranks) > 1]
    return sorted(groups, key=lambda group: (-len(group.ranks), -len(group), group.key))


_Pairs = tuple[Column, dict[int, tuple[str, str]]]


def _members(summaries: Sequence[RankSummary]) -> dict[str, dict[int, int]]:
    """For each group whose ranks know their number in it, the job rank behind each number."""
    out: dict[str, dict[int, int]] = {}
    for one in summaries:
        listed = one.collectives
        known = listed.filter(listed["rank"].is_valid()).group_by(["group", "rank"]).aggregate([])
        for row in known.to_pylist():
            out.setdefault(row["group"], {})[row["rank"]] = one.about.rank
    return out


def _pairs(one: RankSummary, groups: dict[str, dict[int, int]]) -> _Pairs:
    """A number for each row, and the name and members of the group with that number.

    Sends and receives whose peer is known belong to a group of the two ranks: only between those two they have an order.
    """
    listed = one.collectives
    (name, names), (member, members), (operation, operations) = (
        codes(listed[column]) for column in ("group", "members", "operation")
    )
    paired = np.isin(operation, [i for i, text in enumerate(operations) if text in POINT_TO_POINT])
    peer = np.where(paired, listed["peer"].fill_null(-1).to_numpy(), -1)
    number, distinct = numbered([name, member, peer.astype(np.int64)])
    keys = {}
    for place, (group, ranks, other) in enumerate(
        zip(*(column.tolist() for column in distinct), strict=True)
    ):
        listed = members[ranks] if ranks >= 0 else ""
        if other >= 0:
            inside = (
                dict(enumerate(json.loads(listed)))
                if listed
                else groups.get(names[group] if group >= 0 else "", {})
            )
            listed = json.dumps(sorted((one.about.rank, inside.get(other, other))))
        keys[place] = (names[group] if group >= 0 else "", listed)
    return number, keys


def _group(
    summaries: Sequence[RankSummary], pairs: Sequence[_Pairs], key: tuple[str, str], ranks: list[int]
) -> Communicator:
    known: dict[str, dict[str, int]] = {"operation": {}, "dtype": {}}
    sides = [_side(summaries[place], pairs[place], key, known) for place in ranks]
    row = _aligned(sides)
    safe = np.maximum(row, 0)

    def taken(column: str) -> Column:
        parts = [np.where(row[:, i] >= 0, side[column][safe[:, i]], -1) for i, side in enumerate(sides)]
        return np.stack(parts, 1)

    numbers = taken("row")
    sizes = [int(side["ranks"].max()) for side in sides if len(side["ranks"])]
    size = max(sizes, default=-1)
    listed = tuple(json.loads(key[1])) if key[1] else tuple(summaries[place].about.rank for place in ranks)
    return Communicator(
        key[0], size if size > 0 else (len(listed) if key[1] else None), listed, tuple(ranks), numbers, taken("operation"),
        tuple(known["operation"]), taken("bytes"), taken("dtype"), tuple(known["dtype"]),
    )  # fmt: skip


def _side(
    one: RankSummary, pairs: _Pairs, key: tuple[str, str], numbers: dict[str, dict[str, int]]
) -> dict[str, Column]:
    """One rank's operations of a group as columns, in order of begin."""
    listed = one.collectives
    number, keys = pairs
    mine = np.flatnonzero(np.isin(number, [one for one, pair in keys.items() if pair == key]))
    part = listed.take(pa.array(mine))
    out: dict[str, Column] = {"row": mine, "end": part["end"].to_numpy()}
    for name in ("bytes", "ranks", "sequence"):
        out[name] = part[name].fill_null(-1).to_numpy()
    for name, known in numbers.items():
        own, texts = codes(part[name])
        onto = np.array([*(known.setdefault(text, len(known)) for text in texts), -1], np.int64)
        out[name] = onto[own]
    out["like"] = _alike(out["operation"], numbers["operation"], one.about.rank, key[1])
    return out


def _alike(operation: Column, known: dict[str, int], rank: int, members: str) -> Column:
    """A number shared by all ranks of one operation; for a message, its sender's rank on both sides."""
    both = json.loads(members) if members else []
    if len(both) != 2 or rank not in both:
        return operation
    other = both[0] + both[1] - rank
    sender = np.where(operation == known.get("send", -2), rank, other)
    message = np.isin(operation, [known.get("send", -2), known.get("receive", -2)])
    return np.where(message, sender + (1 << 32), operation)


def _aligned(sides: list[dict[str, Column]]) -> Column:
    """For each operation, the index of each rank's own among its operations, or :data:`MISSING`."""
    if all(len(side["sequence"]) and (side["sequence"] >= 0).all() for side in sides):
        numbers = [_numbered(side["sequence"]) for side in sides]
        every = np.unique(np.concatenate(numbers))
        row = np.full((len(every), len(sides)), MISSING, np.int64)
        for place, own in enumerate(numbers):
            row[np.searchsorted(every, own), place] = np.arange(len(own))
        return row
    longest = max(range(len(sides)), key=lambda i: len(sides[i]["row"]))
    moves = [0 if i == longest else _move(sides[longest], side) for i, side in enumerate(sides)]
    first = min(moves)
    last = max(move + len(side["row"]) for move, side in zip(moves, sides, strict=True))
    row = np.full((last - first, len(sides)), MISSING, np.int64)
    for place, (move, side) in enumerate(zip(moves, sides, strict=True)):
        begin = move - first
        row[begin : begin + len(side["row"]), place] = np.arange(len(side["row"]))
    return row


def _numbered(sequence: Column) -> Column:
    """Numbers that are distinct: of operations with one number (coalesced ones) each has its own place behind it."""
    order = np.argsort(sequence, kind="stable")
    ordered = sequence[order]
    first = np.maximum.accumulate(
        np.where(np.append(True, ordered[1:] != ordered[:-1]), np.arange(len(order)), 0)
    )
    out = np.empty(len(sequence), np.int64)
    out[order] = (ordered << 20) + np.arange(len(order)) - first
    return out


def _move(one: dict[str, Column], other: dict[str, Column]) -> int:
    """How many places the other rank's operations lag behind: its i-th is our (i + move)-th."""
    count, most = len(other["row"]), len(one["row"])
    if count == most and (one["like"] == other["like"]).all() and (one["bytes"] == other["bytes"]).all():
        return 0
    fits: list[tuple[float, float, float, int, int]] = []
    for move in range(-min(count - 1, _MOST_MOVED), min(most - 1, _MOST_MOVED) + 1):
        begin, end = max(move, 0), min(move + count, most)
        overlap = end - begin
        if overlap < max(1, min(count, most) // 2):
            continue
        mine, theirs = slice(begin, end), slice(begin - move, end - move)
        same = one["like"][mine] == other["like"][theirs]
        same &= one["bytes"][mine] == other["bytes"][theirs]
        apart = (one["end"][mine] - other["end"][theirs]).astype(float)
        spread = float(np.median(np.abs(apart - np.median(apart))))
        # Ranks may really differ in a few operations: then the ends decide.
        fits.append((float(same.mean()), max(0.05, _FEW_WRONG / overlap), spread, abs(move), move))
    if not fits:
        return 0
    best = max(fit[0] for fit in fits)
    good = [fit[2:] for fit in fits if fit[0] + fit[1] >= best]
    tightest = min(fit[0] for fit in good)
    return min(fit[1:] for fit in good if fit[0] <= 2 * tightest + 1_000)[1]


def _most_common(values: Column) -> Column:
    """The value that most columns of each row have, among as many that which is more frequent elsewhere; -1 does not count."""
    if not values.size:
        return np.zeros(len(values), np.int64)
    out: Column = values.max(1)
    simple = ((values == out[:, None]) | (values < 0)).all(1)
    rows = np.flatnonzero(~simple)
    if len(rows):
        often = Counter(values.ravel().tolist())
        for row in rows.tolist():  # ranks that differ are rare
            counts = Counter(values[row][values[row] >= 0].tolist())
            out[row] = max(counts, key=lambda one: (counts[one], often[one]))
    return out


@dataclass(frozen=True)
class Mismatch:
    """An operation that differs between the ranks of a group.

    Attributes:
        group: Place of the group.
        row: Row of the operation in it.
        kind: order, operation, size, dtype or missing.
        ranks: Places (among the job's ranks) of those that differ from the majority.
        text: What differs, in words.
    """

    group: int
    row: int
    kind: str
    ranks: tuple[int, ...]
    text: str


def mismatches(groups: Sequence[Communicator], summaries: Sequence[RankSummary]) -> list[Mismatch]:
    """The first operation of each kind in each group that differs between ranks."""
    out: list[Mismatch] = []
    for place, group in enumerate(groups):
        known = np.isin(group.operation, [i for i, name in enumerate(group.operations) if name not in _VAGUE])
        point = group.is_a(POINT_TO_POINT)
        out += _operations(place, group, summaries, known & ~point[:, None])
        out += _values(place, group, summaries, "size", group.bytes, group.is_a(_EQUAL_SIZES))
        out += _values(place, group, summaries, "dtype", group.dtype, ~point)
    return out


def _rank_names(summaries: Sequence[RankSummary], ranks: Sequence[int]) -> str:
    numbers = [str(summaries[i].about.rank) for i in ranks]
    return f"rank {numbers[0]}" if len(numbers) == 1 else f"ranks {', '.join(numbers[:8])}"


def _operations(
    place: int, group: Communicator, summaries: Sequence[RankSummary], known: Column
) -> list[Mismatch]:
    common = group.common
    wrong = known & (group.operation != common[:, None])
    rows = np.flatnonzero(wrong.any(1))
    if not len(rows):
        return []
    row = int(rows[0])
    columns = np.flatnonzero(wrong[row])
    ranks = tuple(group.ranks[i] for i in columns.tolist())
    theirs = group.operations[int(group.operation[row, columns[0]])]
    usual = group.operations[int(common[row])]
    column = int(columns[0])
    right = int(np.flatnonzero(group.operation[row] == common[row])[0])
    kind, why = _difference(group.operation[row:, column], group.operation[row:, right])
    why = why.format(theirs=_a(theirs), usual=_a(usual))
    text = f"{_rank_names(summaries, ranks)} did {_a(theirs)} where the others did {_a(usual)}{why}"
    return [Mismatch(place, row, kind, ranks, text)]


def _difference(own: Column, common: Column) -> tuple[str, str]:
    """How a rank's operations from the first wrong one on differ from those of the others: kind, and words for it.

    own      gather  reduce  reduce  …        common   reduce  gather  reduce  …      order
    """
    own, common = own[:9], common[:9]
    if len(own) < 3 or (own[1:] == common[1:]).all():
        return "operation", ""
    if own[0] == common[1] and own[1] == common[0] and (own[2:] == common[2:]).all():
        return "order", "; it did the two in the other order"
    if (own[:-1] == common[1:]).all():
        return "missing", "; it left out {usual}"
    if (own[1:] == common[:-1]).all():
        return "order", "; it did {theirs} more than the others"
    return "operation", ""


def _a(operation: str) -> str:
    return f"{'an' if operation[0] in 'aeiou' else 'a'} {operation}"


def _values(
    place: int,
    group: Communicator,
    summaries: Sequence[RankSummary],
    kind: str,
    values: Column,
    among: Column,
) -> list[Mismatch]:
    usual = _most_common(values)
    same = group.operation == group.common[:, None]
    wrong = (values >= 0) & (values != usual[:, None]) & same & among[:, None]
    rows = np.flatnonzero(wrong.any(1))
    if not len(rows):
        return []
    row = int(rows[0])
    columns = np.flatnonzero(wrong[row])
    ranks = tuple(group.ranks[i] for i in columns.tolist())
    shown = [int(values[row, columns[0]]), int(usual[row])]
    listed = [f"{v:,} B" for v in shown] if kind == "size" else [group.dtypes[v] for v in shown]
    operation = group.operations[int(group.common[row])]
    text = (
        f"{_rank_names(summaries, ranks)} did the {operation} with {listed[0]}, the others with {listed[1]}"
    )
    return [Mismatch(place, row, kind, ranks, text)]
