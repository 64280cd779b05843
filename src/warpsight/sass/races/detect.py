"""Races of a launch: unordered accesses to the same bytes by two threads, one of them a write.

Each access is compared with the last write before it and each read with the next write after it, in the order in which the
device recorded them; if all of these are ordered, so are all others. If a piece of memory has a race, at least one is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.errors import UsageError
from warpsight.formats.events.kinds import BY_NAME
from warpsight.formats.events.records import Events
from warpsight.sass.events.trace import EventTrace, TracedLaunch
from warpsight.sass.races.accesses import BLOCK, Accesses, accesses
from warpsight.sass.races.arrivals import Arrivals
from warpsight.sass.races.epochs import epochs, whole_block
from warpsight.sass.races.fences import Fences, proxy_fenced
from warpsight.sass.races.on_device import races_on_device
from warpsight.sass.races.order import MOST_CLOCKS, SYNCHRONISATIONS, Strong, VectorClocks, size
from warpsight.sass.races.streams import stream_races
from warpsight.sass.races.witness import Race, side

Array = npt.NDArray[Any]
_RELEASE = BY_NAME["barrier_release"].number
_SCOPE_RACE = "atomics whose scope is one block, from two blocks"
_NO_PROXY_FENCE = (
    "no fence.proxy.async between a store and a bulk copy or matrix product that reads the stored data"
)
_NOT_WAITED = "a matrix product without a wait (wgmma.wait_group) reads data that is overwritten"


@dataclass(frozen=True)
class Races:
    """The races, and why the answer may be incomplete; accesses: how many were compared, or None."""

    races: tuple[Race, ...]
    launches: int
    accesses: int | None
    notes: tuple[str, ...]


def races(trace: EventTrace) -> Races:
    """The races within each launch of a trace, and those of launches on two streams.

    Raises:
        UsageError: when the trace lacks classes of events or was sampled, because missing events could establish the order.
    """
    request = trace.file.process.get("request") or {}
    if request.get("check"):
        races, left_out = races_on_device(trace)
        return Races(tuple(races), len(trace.launches), None, (*trace.notes, *left_out))
    missing = {"memory", "barriers"} - set(request.get("events") or ())
    if missing:
        raise UsageError(
            f"{trace.name} was recorded without {' and '.join(sorted(missing))}; record with --events memory,barriers"
        )
    if trace.partial:
        raise UsageError(
            f"{trace.name} has a part of each launch's events ({', '.join(trace.partial)}): "
            "the order between accesses may be missing"
        )
    found: list[Race] = []
    notes = list(trace.notes)
    total = 0
    for launch in trace.launches.values():
        events = trace.of_launch(launch.number)
        own = accesses(trace, launch, events)
        total += len(own)
        found += _of_launch(trace, launch, events, own, notes)
    found += stream_races(trace)
    return Races(tuple(found), len(trace.launches), total, tuple(dict.fromkeys(notes)))


def checked(files: Sequence[Path]) -> Races:
    """The races found on the device: the files of a run, one per process that used a GPU."""
    found = [races(EventTrace(file)) for file in files]
    notes = [note for one in found for note in one.notes]
    if not found:
        notes.append("the program did not use an NVIDIA GPU")
    return Races(
        tuple(race for one in found for race in one.races),
        sum(one.launches for one in found),
        None,
        tuple(dict.fromkeys(notes)),
    )


def _of_launch(
    trace: EventTrace, launch: TracedLaunch, events: Events, own: Accesses, notes: list[str]
) -> list[Race]:
    first, second = _neighbours(own)
    kept = ~own.ends[second]  # a product reads from its begin on
    first, second = first[kept], second[kept]
    if not len(first):
        return []
    ordered = _ordered(trace, launch, events, own, first, second, notes)
    waits = own.product[first] & ~own.ends[first]
    overtaken = waits & (own.event[second] < own.over[first])
    unfenced = ordered & own.asynchronous[second]
    if unfenced.any():
        pairs = own.event[first[unfenced]], own.event[second[unfenced]]
        unfenced[unfenced] = ~proxy_fenced(trace, launch, events, *pairs)
    racing = np.flatnonzero((~ordered & ~waits) | overtaken | unfenced)
    reasons = [_NOT_WAITED if overtaken[at] else _NO_PROXY_FENCE if unfenced[at] else "" for at in racing]
    return _witnesses(trace, launch, events, own, first[racing], second[racing], reasons)


def _ordered(
    trace: EventTrace,
    launch: TracedLaunch,
    events: Events,
    own: Accesses,
    first: Array,
    second: Array,
    notes: list[str],
) -> Array:
    """Which pairs of accesses are ordered, ignoring proxies."""
    of_block, of_warp = epochs(launch, events, own)
    same_block = own.block[first] == own.block[second]
    same_warp = same_block & (own.thread[first] // 32 == own.thread[second] // 32)
    ordered = same_block & (of_block[first] < of_block[second])
    ordered |= same_warp & ((of_warp[first] < of_warp[second]) | own.product[first] | own.product[second])
    ordered |= same_block & (own.thread[first] == own.thread[second])
    ordered |= own.event[first] == own.event[second]  # lanes of one instruction
    ordered |= _strong_together(own, first, second, same_block)
    apart = np.flatnonzero(~ordered & ~same_warp)
    if len(apart):
        ordered[apart] = _ordered_by_clocks(trace, launch, events, own, first[apart], second[apart], notes)
    return np.asarray(ordered)


def _neighbours(own: Accesses) -> tuple[Array, Array]:
    """Pairs to compare: (last write before, access) and (read, next write after), within a piece of memory."""
    count = len(own)
    number = np.arange(count)
    begin = np.searchsorted(own.place, own.place, "left")
    end = np.searchsorted(own.place, own.place, "right")
    last = np.maximum.accumulate(np.where(own.write, number, -1)) if count else number
    last = np.concatenate([[-1], last[:-1]]) if count else number
    after = np.minimum.accumulate(np.where(own.write, number, count)[::-1])[::-1] if count else number
    written = last >= begin
    overwritten = ~own.write & (after < end)
    first = np.concatenate([last[written], number[overwritten]])
    second = np.concatenate([number[written], after[overwritten]])
    return first.astype(np.int64), second.astype(np.int64)


def _strong_together(own: Accesses, first: Array, second: Array, same_block: Array) -> Array:
    """Whether both are atomic or strong, with scopes that include each other."""
    reach = (own.scope > BLOCK) | own.shared
    both = (own.scope[first] > 0) & (own.scope[second] > 0)
    return both & (same_block | (reach[first] & reach[second]))


def _ordered_by_clocks(
    trace: EventTrace,
    launch: TracedLaunch,
    events: Events,
    own: Accesses,
    first: Array,
    second: Array,
    notes: list[str],
) -> Array:
    """Which pairs are ordered by named barriers, mbarriers, cluster barriers or fenced atomics."""
    fences = Fences(trace)
    module = int(launch.said["module"])
    has_flags = bool((own.scope > 0).any()) and fences.any(module)
    known = whole_block(launch, events) | (events.kind == _RELEASE)  # by the epochs
    if not has_flags and not (np.isin(events.kind, SYNCHRONISATIONS) & ~known).any():
        return np.zeros(len(first), bool)
    if size(launch, events) > MOST_CLOCKS:
        notes.append(
            f"{launch.name} is too large for the order by named barriers, mbarriers and atomics to be followed: "
            "accesses that these order may be listed; trace a smaller grid"
        )
        return np.zeros(len(first), bool)
    clocks = VectorClocks(launch, events)
    strong = _strong(own) if has_flags else {}
    fence = fences.before(launch, events, clocks.warp_of)
    clocks.follow(strong, fence.item, _arrivals(trace, launch, events))
    return clocks.before(own.event[first], own.event[second])


def _strong(own: Accesses) -> dict[int, list[Strong]]:
    """Event → its atomic and strong accesses."""
    found: dict[int, list[Strong]] = {}
    chosen = np.flatnonzero(own.scope > 0)
    reads = ~own.write | own.atomic
    columns = (own.event, own.place, own.scope, reads, own.write)
    for event, *rest in zip(*(column[chosen].tolist() for column in columns), strict=True):
        found.setdefault(event, []).append(Strong(*rest))
    return found


def _arrivals(trace: EventTrace, launch: TracedLaunch, events: Events) -> dict[int, frozenset[int]] | None:
    """Event → named barriers at which its warp then arrives without waiting; None if the code does not tell."""
    arrivals = Arrivals(trace)
    distinct, inverse = np.unique(events.pc, return_inverse=True)
    places = trace.places(launch, distinct)
    functions = {(place.module, place.function) for place in places}
    if len(functions) != 1 or not arrivals.known(*next(iter(functions))):
        return None
    recorded = frozenset(place.offset // 16 for place in places)
    behind = [arrivals.after(place, recorded) for place in places]
    return {event: behind[at] for event, at in enumerate(inverse.tolist()) if behind[at]}


def _witnesses(
    trace: EventTrace,
    launch: TracedLaunch,
    events: Events,
    own: Accesses,
    first: Array,
    second: Array,
    reasons: Sequence[str],
) -> list[Race]:
    """A race for each pair of instructions; `reasons`: those that are known."""
    if not len(first):
        return []
    low, high = (events.pc[own.instruction[rows]].astype(np.int64) for rows in (first, second))
    keys = np.stack([np.minimum(low, high), np.maximum(low, high)], axis=1)
    _, chosen, counts = np.unique(keys, axis=0, return_index=True, return_counts=True)
    found = []
    for at, count in sorted(zip(chosen.tolist(), counts.tolist(), strict=True)):
        a, b = int(first[at]), int(second[at])
        shared = bool(own.shared[a])
        found.append(
            Race(
                launch.name, launch.number, "shared" if shared else "global", int(own.address[a]), count,
                reasons[at] or _reason(own, a, b), side(trace, launch, events, own, a), side(trace, launch, events, own, b),
            )
        )  # fmt: skip
    return found


def _reason(own: Accesses, a: int, b: int) -> str:
    if own.scope[a] and own.scope[b]:
        return _SCOPE_RACE
    if own.block[a] != own.block[b]:
        return "nothing orders the two blocks: that takes a fence and an atomic here, read by the other before its fence"
    if own.thread[a] // 32 == own.thread[b] // 32:
        return "no __syncwarp or barrier between two lanes of a warp"
    return "no barrier between two warps of a block"
