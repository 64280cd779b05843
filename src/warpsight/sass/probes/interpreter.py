"""Evaluates probes on a recorded event trace: the same maps, with the same words, that the device would have filled.

Lanes are evaluated together as arrays. For a probe that reads its maps, the events of a warp are evaluated in sequence, and all
warps in parallel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.device_code.demangle import demangle
from warpsight.errors import UsageError
from warpsight.formats.events.kinds import PREFETCH, READ, VALUES, WRITE
from warpsight.formats.events.probe_maps import blocks_of
from warpsight.formats.events.records import Events
from warpsight.sass.events.memory import sectors
from warpsight.sass.events.trace import EventTrace, TracedLaunch
from warpsight.sass.probes.arithmetic import OPERATIONS, ordered
from warpsight.sass.probes.definition import Probe, Translated, maps_of, translated
from warpsight.sass.probes.event import class_of
from warpsight.sass.probes.maps import Map
from warpsight.sass.probes.results import Results, results
from warpsight.sass.probes.running import described
from warpsight.sass.probes.tree import (
    Assign,
    Constant,
    Expression,
    Field,
    For,
    If,
    Local,
    Operation,
    Read,
    Return,
    Statement,
    Update,
)

Array = npt.NDArray[Any]
_TYPES = {"int": np.int64, "float": np.float64, "bool": np.bool_}
_SIGN = np.uint64(1 << 63)
_HASH = 0x9E3779B97F4A7C15
_STEPS = 64


def interpret(path: Path | str, probes: Sequence[Probe]) -> Results:
    """The tables of probes over a recorded trace.

    Raises:
        UsageError: for unsupported code in a probe, or data that the trace lacks.
        FormatError: when the file is not an event trace.
    """
    return of_trace(EventTrace(path), translated(probes))


def of_trace(trace: EventTrace, probes: Sequence[Translated]) -> Results:
    """The tables of probes over an open trace."""
    _check(trace, probes)
    request = trace.file.process.get("request") or {}
    trace.file.process["request"] = {**request, "probes": described(probes)}
    trace.file.maps.clear()
    maps, selected = maps_of(probes), blocks_of(request)
    for launch in trace.launches.values():
        seen = [one for one in probes if _matches(one.probe.kernel, launch)]
        if not seen:
            continue
        filled = _Maps(launch, maps, *selected)
        for lanes in _parts(trace.of_launch(launch.number), launch, seen):
            for one, fields in zip(seen, lanes, strict=True):
                if len(fields["lane"]):
                    _Evaluation(one, filled, fields).run()
        trace.file.maps += [
            (launch.number, number, words)
            for number, words in enumerate(filled.finished())
            if not maps[number].hidden
        ]
    return results([trace])


def _matches(pattern: str, launch: TracedLaunch) -> bool:
    mangled = str(launch.said["name"])
    return fnmatchcase(mangled, pattern) or fnmatchcase(demangle(mangled), pattern)


def _check(trace: EventTrace, probes: Sequence[Translated]) -> None:
    """Refuse events that the trace does not have; without its request, as in damaged files, this is unknown."""
    recorded = (trace.file.process.get("request") or {}).get("events")
    for one in probes:
        name = one.probe.name
        if "clock" in one.fields:
            raise UsageError(f"{name} reads event.clock, which a recorded trace lacks: use event.time, in ns")
        if recorded is None:
            continue
        if {"value", "value_high"} & one.fields and VALUES not in recorded:
            raise UsageError(
                f"{name} reads values, which {trace.name} does not have: sass trace --events memory,values"
            )
        for kind in (where.kind for where in one.probe.where):
            if class_of(kind) not in recorded:
                raise UsageError(
                    f"{name} is at {', '.join(one.probe.at)}, which {trace.name} lacks: sass trace --events {class_of(kind)}"
                )


def _events_of(events: Events, one: Translated) -> Array:
    """The events that a probe sees."""
    chosen = np.zeros(len(events), bool)
    for where in one.probe.where:
        flags = events.flags & where.mask == where.operation if where.operation is not None else True
        chosen |= (events.kind == where.kind) & flags
    return chosen


def _parts(
    events: Events, launch: TracedLaunch, probes: Sequence[Translated]
) -> Iterator[Sequence[dict[str, Array]]]:
    """The lane fields that each probe sees: many events at once, or at most one per warp if a probe reads its maps."""
    alone = any(one.reads for one in probes)
    for batch in events.take(np.any([_events_of(events, one) for one in probes], axis=0)).batches():
        number, parts = _rounds(batch), []
        for one in probes:
            chosen = np.flatnonzero(_events_of(batch, one))
            parts.append(_fields(batch.take(chosen), number[chosen], launch, one))
        if alone:
            yield from zip(*(_by_round(part, int(number.max(initial=-1)) + 1) for part in parts), strict=True)
        else:
            yield parts


def _rounds(events: Events) -> Array:
    """The number of earlier events of the same warp, for each event."""
    warp = events.block.astype(np.int64) * 256 + events.warp
    order = np.argsort(warp, kind="stable")
    before = np.empty(len(events), np.int64)
    before[order] = np.arange(len(events)) - np.searchsorted(warp[order], warp[order])
    return before


def _by_round(fields: dict[str, Array], rounds: int) -> Iterator[dict[str, Array]]:
    """The lanes of the first event of each warp, then of the second, and so on."""
    order = np.argsort(fields["round"], kind="stable")
    ordered_fields = {name: values[order] for name, values in fields.items()}
    bounds = np.searchsorted(ordered_fields["round"], np.arange(rounds + 1)).tolist()
    for low, high in pairwise(bounds):
        yield {name: values[low:high] for name, values in ordered_fields.items()}


def _fields(events: Events, number: Array, launch: TracedLaunch, one: Translated) -> dict[str, Array]:
    """An event's fields for each lane, or at warp level for the first active lane."""
    active = events.active
    if one.probe.level == "warp":
        active = active & (np.cumsum(active, axis=1) == 1)
    row, lane = np.nonzero(active)
    flags = events.flags[row]
    operation = flags & (READ | WRITE)
    blocks = int(np.prod(launch.grid, dtype=np.int64))
    found: dict[str, Array] = {
        "round": number[row], "size": events.size[row], "lane": lane, "warp": events.warp[row], "block": events.block[row],
        "thread": events.warp[row].astype(np.int64) * 32 + lane, "active": events.lanes[row], "sm": events.sm[row],
        "block_threads": np.full(len(row), launch.threads), "grid_blocks": np.full(len(row), blocks),
        "pc": (events.pc[row] - np.uint32(int(launch.said["pc"]) % (1 << 32))).view(np.int32), "time": events.time[row],
        "kind": events.kind[row], "is_load": (operation == READ) & (flags & PREFETCH == 0), "is_store": operation == WRITE,
        "is_atomic": operation == READ | WRITE,
    }  # fmt: skip
    used = one.fields
    if used & {"address", "a", "sectors"}:
        operands = events.operand(0)
        found["address"] = found["a"] = operands[row, lane].view(np.int64)
        if "sectors" in used:
            found["sectors"] = sectors(operands, events.active)[row]
    if "b" in used:
        found["b"] = events.operand(1)[row, lane].view(np.int64)
    if used & {"value", "value_high"}:
        values = events.values()[row, lane].view(np.int64)
        found["value"], found["value_high"] = values[:, 0], values[:, 1]
    return {name: array if array.dtype == bool else array.astype(np.int64) for name, array in found.items()}


class _Evaluation:
    """One probe over lanes; those that have returned are masked out."""

    def __init__(self, probe: Translated, maps: _Maps, fields: dict[str, Array]) -> None:
        self._probe, self._maps, self._fields = probe, maps, fields
        self._count = len(fields["lane"])
        self._owner = {"grid": np.zeros(self._count, np.int64), **maps.owners(fields)}
        self._locals: dict[str, Array] = {}
        self._live = np.ones(self._count, bool)

    def run(self) -> None:
        with np.errstate(all="ignore"):
            self._block(self._probe.body, self._live.copy())

    def _block(self, statements: Sequence[Statement], mask: Array) -> None:
        for statement in statements:
            mask = mask & self._live
            if not mask.any():
                return
            match statement:
                case Assign(name, value):
                    made = self._value(value)
                    old = self._locals.get(name)
                    self._locals[name] = made if old is None else np.where(mask, made, old)
                case Return():
                    self._live &= ~mask
                case If(condition, body, other):
                    chosen = self._value(condition)
                    self._block(body, mask & chosen)
                    self._block(other, mask & ~chosen)
                case For(name, values, body):
                    for number in values:
                        self._block((Assign(name, Constant(number, "int")), *body), mask)
                case Update(known, how, values):
                    given = [self._value(value)[mask] for value in values]
                    self._maps.update(known, how, self._owner[known.per][mask], given)

    def _value(self, value: Expression) -> Array:
        match value:
            case Constant(number, kind):
                return np.full(self._count, number, _TYPES[kind])
            case Local(name, _):
                return self._locals[name]
            case Field(name, _):
                return self._fields[name]
            case Read(known, key, kind):
                return self._maps.read(known, self._owner[known.per], self._value(key)).view(_TYPES[kind])
            case Operation(name, operands, _):
                return OPERATIONS[name](*(self._value(operand) for operand in operands))


class _Maps:
    """The words of a launch's maps, as on the device."""

    def __init__(self, launch: TracedLaunch, maps: Sequence[Map], low: int, high: int) -> None:
        self._launch, self._low = launch, low
        blocks = max(min(int(np.prod(launch.grid, dtype=np.int64)), high) - low, 0)
        copies = {"grid": 1, "cta": blocks, "warp": blocks * launch.warps, "thread": blocks * launch.threads}
        self._known = list(maps)
        self._lost = {id(one): 0 for one in maps}
        self._words = {id(one): np.zeros((copies[one.per], one.words), np.uint64) for one in maps}

    def owners(self, fields: dict[str, Array]) -> dict[str, Array]:
        """Whose copy each lane uses."""
        block = fields["block"] - self._low
        return {"cta": block, "warp": block * self._launch.warps + fields["warp"],
                "thread": block * self._launch.threads + fields["thread"]}  # fmt: skip

    def finished(self) -> list[Array]:
        """The words of each map as in the event file: losses, then the copies."""
        return [
            np.concatenate([[np.uint64(self._lost[id(one)])], self._words[id(one)].ravel()])
            for one in self._known
        ]

    def read(self, known: Map, owner: Array, key: Array) -> Array:
        """The owners' values for keys, 0 for missing ones."""
        good = (key >= 0) & (key < known.words)
        return np.where(good, self._words[id(known)][owner, np.where(good, key, 0)], np.uint64(0)).view(
            np.int64
        )

    def update(self, known: Map, how: str, owner: Array, values: list[Array]) -> None:
        """Add to a map, in array order."""
        if how == "row":
            self._push(known, owner, values)
            return
        key, value = values
        if value.dtype == np.float64 and how in ("min", "max"):
            good = ~np.isnan(value)
            owner, key, value = owner[good], key[good], ordered(value[good])
        word = value.view(np.uint64)
        if how == "top":
            self._add_to_top(known, owner, key, word)
            return
        good = (key >= 0) & (key < known.words)
        self._lost[id(known)] += int((~good).sum())
        words, at, word = self._words[id(known)], (owner[good], key[good]), word[good]
        if how == "last":
            words[at] = word
        elif how in ("min", "max"):
            biased = word ^ _SIGN
            np.maximum.at(words, at, ~biased if how == "min" else biased)
        else:
            (np.add if how == "sum" else np.bitwise_or).at(words, at, word)

    def _push(self, known: Map, owner: Array, values: list[Array]) -> None:
        words = self._words[id(known)]
        order = np.argsort(owner, kind="stable")
        sorted_owner = owner[order]
        nth = (
            words[sorted_owner, 0].astype(np.int64)
            + np.arange(len(order))
            - np.searchsorted(sorted_owner, sorted_owner)
        )
        np.add.at(words[:, 0], owner, np.uint64(1))
        last = words[sorted_owner, 0].astype(np.int64)
        kept = nth >= last - known.size if known.wraps else nth < known.size
        rows, at = order[kept], 1 + nth[kept] % known.size * len(values)
        for number, value in enumerate(values):
            words[sorted_owner[kept], at + number] = value[rows].view(np.uint64)

    def _add_to_top(self, known: Map, owner: Array, key: Array, weight: Array) -> None:
        """Add each distinct key once; if a slot is taken, try the next, as on the device."""
        words = self._words[id(known)].reshape(-1, known.size, 2)
        pairs, inverse = np.unique(np.stack([owner, key], axis=1), axis=0, return_inverse=True)
        sums, counts = np.zeros(len(pairs), np.uint64), np.bincount(inverse.ravel(), minlength=len(pairs))
        np.add.at(sums, inverse.ravel(), weight)
        for (of, own), total, count in zip(pairs.tolist(), sums, counts.tolist(), strict=True):
            tag = (own % (1 << 64)) ^ (1 << 63)
            begin = (tag * _HASH % (1 << 64) >> 32) & (known.size - 1)
            for step in range(min(_STEPS, known.size) if tag else 0):
                place = words[of, (begin + step) & (known.size - 1)]
                if place[0] in (0, tag):
                    place[0] = tag
                    place[1] += total
                    break
            else:
                self._lost[id(known)] += count
