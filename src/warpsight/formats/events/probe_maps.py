"""The contents of probe maps after a launch, from device words to columns.

A map begins with a word that counts overflow, followed by the words of each owner: the launch, or its CTAs, warps or threads,
counted from the first CTA that was probed. Elements that were never written are left out, except that a counter of the launch
gives 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from warpsight.formats.events.blocks import EventFile

_SIGN = np.uint64(1 << 63)
_MOST = np.int64((1 << 63) - 1)
_OWNERS = ("grid", "cta", "warp", "thread")
Array = npt.NDArray[Any]


@dataclass(eq=False)
class DeclaredMap:
    """A map as its probe declared it.

    Attributes:
        kind: array, histogram, top or ring; per: who owns each copy; words: words of one copy, 8 bytes each.
        reduce: what an array does with a second value for a key.
        types: types of its values, by name: an array's `value`, a ring's columns. low, width: lower bound and width of a
            histogram's bins (width 0: powers of two); size: keys, bins or rows; top: rows shown of a top.
        key: name of the column of keys.
        wraps: whether a full ring drops its oldest row, which is possible if one thread at a time writes to each copy.
    """

    kind: str
    per: Literal["thread", "warp", "cta", "grid"]
    words: int
    size: int
    reduce: str = "sum"
    types: dict[str, str] = field(default_factory=dict)
    low: int = 0
    width: int = 0
    top: int = 0
    key: str = "key"
    name: str = ""
    wraps: bool = False

    @property
    def columns(self) -> list[str]:
        """The columns of its results, following those of the launch."""
        owner = {"grid": [], "cta": ["block"], "warp": ["block", "warp"], "thread": ["block", "thread"]}[
            self.per
        ]
        own = {"array": [self.key, "value"], "histogram": ["low", "high", "count"], "top": [self.key, "weight"],
               "ring": ["row", *self.types]}[self.kind]  # fmt: skip
        return owner + (own if self.kind != "array" or self.size > 1 else ["value"])


@dataclass(frozen=True)
class MapContents:
    """The contents of a map after a launch: columns of equal length, and how many additions found no free entry."""

    map: DeclaredMap
    launch: int
    columns: dict[str, Array]
    lost: int


def maps_of(request: Mapping[str, Any]) -> list[DeclaredMap]:
    """The maps described in a trace's request; empty if it is not a valid trace of probes."""
    try:
        found = [DeclaredMap(**{**said, "types": dict(said["types"])}) for said in request["probes"]["maps"]]
        return found if all(_sound(one) for one in found) else []
    except (TypeError, KeyError, ValueError):
        return []


def _sound(known: DeclaredMap) -> bool:
    """Whether a description fits itself."""
    numbers = (known.words, known.size, known.low, known.width, known.top)
    texts = (known.name, known.reduce, known.key, *known.types)
    words = {
        "array": known.size,
        "histogram": known.size,
        "top": 2 * known.size,
        "ring": 1 + known.size * len(known.types),
    }
    return (
        known.per in _OWNERS and known.words == words.get(known.kind) and 0 < known.size < 1 << 32
        and all(isinstance(one, int) and abs(one) < 1 << 62 for one in numbers) and all(isinstance(one, str) for one in texts)
        and set(known.types.values()) <= {"int", "float"} and (known.kind != "array" or [*known.types] == ["value"])
        and (known.kind != "ring" or len(known.types) > 0) and len(set(known.columns)) == len(known.columns)
    )  # fmt: skip


def blocks_of(request: Mapping[str, Any]) -> tuple[int, int]:
    """The blocks that a request covers: from low up to but not including high."""
    try:
        low, high = request["blocks"]
        return max(int(low), 0), max(int(high), 0)
    except (TypeError, KeyError, ValueError):
        return 0, 1 << 62


def held(file: EventFile) -> Iterator[MapContents]:
    """The contents of each map after each launch; sizes that do not fit the launch are noted as losses."""
    request = file.process.get("request") or {}
    maps, launches = maps_of(request), {int(said["launch"]): said for said in file.launches}
    low, _ = blocks_of(request)
    for launch, number, words in file.maps:
        said = launches.get(launch)
        known = maps[number] if number < len(maps) else None
        if said is None or known is None or (len(words) - 1) % known.words:
            file.losses.append(("a map does not fit its probe and launch; it was left out", 1))
            continue
        yield decoded(known, launch, words, max(int(np.prod(said["block"], dtype=np.int64)), 1), low)


def decoded(known: DeclaredMap, launch: int, words: Array, threads: int, low: int = 0) -> MapContents:
    """The columns of one map: `threads` are those of a block, `low` the first block that was probed."""
    copies = words[1:].reshape(-1, known.words)
    rule = {"array": _array, "histogram": _histogram, "top": _top, "ring": _ring}[known.kind]
    owner, columns, lost = rule(known, copies)
    warps = -(-threads // 32)
    owners: dict[str, Array] = {}
    if known.per != "grid":
        share = {"cta": 1, "warp": warps, "thread": threads}[known.per]
        owners["block"] = owner // share + low
    if known.per in ("warp", "thread"):
        owners[known.per] = owner % (warps if known.per == "warp" else threads)
    wanted = {**owners, **columns}
    return MapContents(known, launch, {name: wanted[name] for name in known.columns}, lost + int(words[0]))


_Decoded = tuple[Array, dict[str, Array], int]


def _typed(known: DeclaredMap, name: str, words: Array) -> Array:
    return words.view(np.float64 if known.types[name] == "float" else np.int64)


def _array(known: DeclaredMap, copies: Array) -> _Decoded:
    counter = known.per == "grid" and known.size == 1 and known.reduce == "sum"
    owner, key = np.nonzero(copies) if not counter else (np.zeros(1, np.int64), np.zeros(1, np.int64))
    words = copies[owner, key]
    if known.reduce in ("min", "max"):
        values = ((~words if known.reduce == "min" else words) ^ _SIGN).view(np.int64)
        restored = values ^ (values >> 63 & _MOST) if known.types["value"] == "float" else values
        words = restored.view(np.uint64)
    return owner, {known.key: key, "value": _typed(known, "value", words)}, 0


def _histogram(known: DeclaredMap, copies: Array) -> _Decoded:
    owner, bin_ = np.nonzero(copies)
    count = copies[owner, bin_].view(np.int64)
    if known.width:
        low, high = known.low + (bin_ - 1) * known.width, known.low + bin_ * known.width
    else:
        edges = np.array([-(2**63), *(1 << bit for bit in range(63)), 2**63 - 1], np.int64)
        low, high = edges[np.minimum(bin_, 63)], edges[np.minimum(bin_ + 1, 64)]
    low, high = low.astype(np.int64), high.astype(np.int64)
    if known.width:
        low[bin_ == 0], high[bin_ == known.size - 1] = -(2**63), 2**63 - 1
    return owner, {"low": low, "high": high, "count": count}, 0


def _top(known: DeclaredMap, copies: Array) -> _Decoded:
    pairs = copies.reshape(len(copies), -1, 2)
    owner, place = np.nonzero(pairs[:, :, 0])
    key, weight = (pairs[owner, place, 0] ^ _SIGN).view(np.int64), pairs[owner, place, 1].view(np.int64)
    order = np.lexsort((key, -weight, owner))
    owner, key, weight = owner[order], key[order], weight[order]
    begin = np.searchsorted(owner, owner)
    best = np.arange(len(owner)) - begin < known.top
    return owner[best], {known.key: key[best], "weight": weight[best]}, 0


def _ring(known: DeclaredMap, copies: Array) -> _Decoded:
    """Rows in order of arrival; a ring that wrapped has the last ones."""
    count = copies[:, 0].astype(np.int64)
    kept = np.minimum(count, known.size)
    owner = np.repeat(np.arange(len(copies)), kept)
    nth = np.arange(len(owner)) - np.repeat(np.cumsum(kept) - kept, kept)
    row = nth + (count - kept)[owner] if known.wraps else nth
    rows = copies[:, 1:].reshape(len(copies), known.size, len(known.types))
    values = rows[owner, row % known.size]
    columns = {name: _typed(known, name, values[:, i].copy()) for i, name in enumerate(known.types)}
    return owner, {"row": row, **columns}, int((count - kept).sum())
