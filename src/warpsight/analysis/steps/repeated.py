"""The main loop, found from repeated launches if nothing announces it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.account.copies import copy_names
from warpsight.analysis.ops.module_tree import PREFIX
from warpsight.analysis.steps import repetition
from warpsight.analysis.steps.turns import Turns
from warpsight.model import calls, intervals
from warpsight.model.calls import STREAM_WAIT
from warpsight.model.naming import api_names, kernel_names
from warpsight.model.naming import texts as names_of
from warpsight.model.work import COPY, NO_TIME, Work, distinct, numbered

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = npt.NDArray[Any]
#: Minimum iterations of a loop, and of one with uneven iterations.
LEAST, LEAST_UNEVEN = 3, 5
#: Uneven iterations contain this share of the launches from the first to the last of them, and those this share of all; maximum
#: number of pieces examined.
_HELD, _PART, _MOST_TURNS = 0.8, 0.3, 200_000
_PRIME = np.uint64(0x9E3779B97F4A7C15)
#: This share of the uneven iterations is this far from the usual size.
_VARIOUS, _FAR = 0.25, 0.3
#: Share of the waits followed by the usual number of launches, needed if only waits separate the iterations.
_EVENLY = 0.8
#: With this many repetitions of the same work between two waits, each repetition is an iteration.
_MANY_PARTS = 10
#: Share of the waits across which work keeps repeating, at which waits do not separate iterations.
_ACROSS = 0.5
#: A call that waits for its work returns when the work ends, within the accuracy of host and device clocks (ns).
_CLOCK_ERROR = 1_000
#: Turns with so many times the usual work, in which most of the time is, hold the work around an inner loop.
_FAR_LARGER, _INNER = 1.5, 0.5
_EVENT = re.compile(r"Event(Record|Query)|StreamQuery")
_ALLOCATES = re.compile(r"alloc", re.IGNORECASE)
#: Maximum layers of a model; minimum and maximum kernels of a layer.
_LAYERS, _LEAST_LAYER, _MOST_LAYER = 128, 4, 200


def best(trace: StoredTrace, process: int, work: Work, launched: Column, when: Column) -> Turns | None:
    """The loop found in the sequence of launches, with the host's waits as marks, or None.

    A loop often waits for the device once per turn, where its kernels alone show shorter repetitions.
    """
    names = work.name_id[launched].astype(np.int64) * 4 + work.kind[launched]
    begun, _ = waits(trace, process)
    begun = begun[(begun >= (when[0] if len(when) else 0))]
    found = _between(trace, work, launched, when, names, begun)
    if found is not None and not found.weak:
        at = np.unique(np.searchsorted(when, begun, side="right"))
        if not _goes_on(names, at):
            return found
    alone = _between(trace, work, launched, when, names, begun[:0])
    if alone is None or (
        found is not None and not found.weak and not _now_and_then(found, alone, when, begun)
    ):
        return found
    return _several_each(alone, names, when, begun) or alone


def _several_each(parts: Turns, names: Column, when: Column, waits: Column) -> Turns | None:
    """The iterations between waits that all have the same number of parts (a model's layers) and other work around the waits.

    The other work may differ between iterations, so that only the parts repeat:

        b l l l e | b l l l e v | b l l l e | b l l l e | b l l l e v |
    """
    at = np.unique(np.searchsorted(when, waits, side="right"))
    part, first = np.unique(parts.of_launch, return_index=True)
    edges = np.unique(np.concatenate([[0], at, [len(names)]]))
    each = np.diff(np.searchsorted(first[part >= 0], edges))
    usual = int(np.median(each)) if len(each) else 0
    if (
        len(each) < LEAST_UNEVEN
        or not 2 <= usual < _MANY_PARTS
        or (each == usual).mean() < _EVENLY
        or _goes_on(names, at)
    ):
        return None
    turn = np.searchsorted(edges, np.arange(len(names)), "right") - 1
    return Turns("repetition between waits", turn, [""] * len(each), announced=False)


def _goes_on(names: Column, at: Column) -> bool:
    """Whether work repeats across most waits, each before a place of it, as it does elsewhere: then they divide no turns.

    Turns that end with a wait have work of their own around it:

        a b a b a b | a b a b | a b a b a b a b |         goes on
        a b a b a b r | a b a b r | a b a b a b a b r |   does not
    """
    tokens = distinct(names)[1]
    if not len(at) or not tokens.any():
        return len(at) > 0
    found = repetition.period(tokens)
    if found is None:
        return False
    length, _ = found
    at = at[(at >= length) & (at < len(names) - length)]
    other = np.append(0, np.cumsum(names[length:] != names[:-length]))
    first, last = np.maximum(at - 2 * length, 0), np.minimum(at + length, len(other) - 1)
    return bool(len(at)) and bool((other[last] == other[first]).mean() >= _ACROSS)


def _now_and_then(waited: Turns, alone: Turns, when: Column, waits: Column) -> bool:
    """Whether the host waits only every few iterations, or irregularly, so that its waits do not mark iterations.

    Parts of the same work that a wait follows each time are sweeps of a turn; many of them are turns, of which every tenth, say,
    prints how far it is.
    """
    turns, parts = len(waited.label), len(alone.label)
    return parts >= _MANY_PARTS * turns or (parts > turns and not _evenly(when, waits))


def _evenly(when: Column, waits: Column) -> bool:
    """Whether nearly the same number of launches lies between any two waits."""
    between = np.diff(np.unique(np.searchsorted(when, waits, side="right")))
    return bool((between == np.median(between)).mean() >= _EVENLY) if len(between) else False


def _between(
    trace: StoredTrace, work: Work, launched: Column, when: Column, names: Column, waits: Column
) -> Turns | None:
    """The loop in the sequence of some works by name, with waits as marks in it."""
    ended = np.maximum.accumulate(work.end[launched]) if len(launched) else launched
    gap = np.zeros(len(launched), np.int64)
    gap[1:] = np.maximum(work.start[launched][1:] - ended[:-1], 0)
    before = np.searchsorted(when, waits, side="right")  # a wait is before this launch
    at = before + np.arange(len(before))
    own = np.ones(len(launched) + len(at), bool)
    own[at] = False
    sequence, pauses = np.full(len(own), -1, np.int64), np.zeros(len(own), np.int64)
    sequence[own], pauses[own] = names, gap
    found = repetition.find(sequence, pauses)
    if found is None:
        return None
    alike = np.full(len(own), -1, np.int64)
    alike[own] = _alike(trace, work.name_id[launched]) * 4 + work.kind[launched]
    found = repetition.halved(found, alike)
    rows = np.cumsum(own) - own  # launches before each place
    first = rows[found.begins]
    first = np.unique(
        first[first < len(launched)]
    )  # a turn that begins with a wait begins with the launch after it
    if len(first) < 2:
        return None
    last = int(found.begins[-1]) + found.period
    stop = len(launched) if last >= len(rows) else max(int(rows[last]), int(first[-1]) + 1)
    edges = _with_kernels(np.append(first, stop), work.kind[launched])
    first, stop = _with_first(edges[:-1], names, found.period), int(edges[-1])
    if len(first) < LEAST:
        return None
    turn = np.searchsorted(first, np.arange(len(launched)), "right") - 1
    turn[stop:] = -1
    marked = len(np.unique(np.searchsorted(first, before, "right"))) if len(before) else 0
    size = int(np.median(np.diff(first)))
    source = f"repetition of {size:,} kernels and copies" if size > 1 else "repetition of one kernel or copy"
    return Turns(source, turn, [""] * len(first), announced=False, weak=marked * 2 < len(first))


def _with_kernels(edges: Column, kind: Column) -> Column:
    """The edges of turns without those before and after a loop of kernels that only copy.

    Copies come again at any distance; of period 3, two turns of `c` come before the loop:

        c c c | c c c | a b a | a b a | a b a
    """
    count = np.diff(np.append(0, np.cumsum(kind < COPY))[edges])
    inside = np.flatnonzero(count)
    return edges[inside[0] : inside[-1] + 2] if 2 * len(inside) > len(count) else edges


def _with_first(first: Column, names: Column, period: int) -> Column:
    """The places of turns, with that of the one that comes before the first wait, which no wait marks.

    `period` counts launches and waits; names are those of launches:

        a b c | a b c | a b c |        found: | a b c and | a b c, the first three are a turn as well
    """
    place, size = int(first[0]), int(first[1] - first[0])
    if (
        size >= period
        or size > place
        or not np.array_equal(names[place - size : place], names[place : place + size])
    ):
        return first
    return np.append(place - size, first)


def uneven(trace: StoredTrace, process: int, work: Work, launched: Column, when: Column) -> Turns | None:
    """The loop whose turns are divided by the host's waits, even if parts repeat within a turn, or None.

    Between two waits, each turn launches kernels of the same names and begins and ends with the same kernel; only their counts
    differ:

        a b c a b c r | a b c r | a b c a b c a b c r |
    """
    names = work.name_id[launched].astype(np.int64) * 4 + work.kind[launched]
    waited = np.searchsorted(when, waits(trace, process)[0], side="right")
    issued, call = calls.of_work(trace, work, api=True)
    of = call[launched]
    returned = issued.end[of] if len(issued) else np.zeros(len(of), np.int64)
    held = (of >= 0) & (returned >= work.end[launched] - _CLOCK_ERROR)
    edges = np.unique(np.concatenate([[0], waited, np.flatnonzero(held) + 1, [len(names)]]))
    if not LEAST_UNEVEN < len(edges) <= _MOST_TURNS:
        return None
    kind, several = _kinds(names, edges)
    usual = int(np.argmax(np.bincount(kind)))
    turns = np.flatnonzero(kind == usual)
    # The same work in another number is what tells a turn; one name alone, or turns that are all alike, repetition finds.
    if len(turns) < LEAST_UNEVEN or not several[turns[0]] or _goes_on(names, edges[1:-1]):
        return None
    inside = edges[turns[-1] + 1] - edges[turns[0]]
    size = edges[turns + 1] - edges[turns]
    usual_size, covered = float(np.median(size)), int(size.sum())
    if (np.abs(size - usual_size) >= _FAR * usual_size).mean() < _VARIOUS:
        return None  # a loop that waits now and then
    if covered < _HELD * inside or inside < _PART * len(names):
        return None
    first = edges[turns]
    turn = np.searchsorted(first, np.arange(len(names)), "right") - 1
    turn[edges[turns[-1] + 1] :] = -1
    return Turns("repetition between waits", turn, [""] * len(first), announced=False, uneven=True)


def _kinds(names: Column, edges: Column) -> tuple[Column, Column]:
    """A number for each piece between two edges, and whether it has several names.

    Numbers are equal where the names are, and the first and the last of them.
    """
    ids, code = np.unique(names, return_inverse=True)
    piece = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    pairs = np.unique(piece * len(ids) + code)
    where = pairs // len(ids)
    first = np.searchsorted(where, np.arange(len(edges) - 1))
    marks = (np.arange(1, len(ids) + 1, dtype=np.uint64) * _PRIME) ** np.uint64(3)
    names_in = np.add.reduceat(marks[pairs % len(ids)], first)
    kind, _ = numbered([code[edges[:-1]], code[edges[1:] - 1], names_in])
    return kind, np.bincount(where) > 1


def parts_of_a_module(trace: StoredTrace, process: int, turns: Turns, when: Column) -> bool:
    """Whether most iterations begin within the same run of a module in torch's profiler, which makes them its layers."""
    if not trace.count("marker"):
        return False
    texts = names_of.texts(trace, "name")
    modules = [number for number, text in texts.items() if text.startswith(PREFIX)]
    if not modules:
        return False
    columns, _ = trace.columns("marker", {"start": 0, "duration": -1, "process": 0, "name_id": 0})
    rows = np.flatnonzero((columns["process"] == process) & np.isin(columns["name_id"], modules))
    runs = intervals.union(columns["start"][rows], (columns["start"] + columns["duration"])[rows])
    numbers, first = np.unique(turns.of_launch, return_index=True)
    begin = when[first[numbers >= 0]]
    run = np.searchsorted(runs.start, begin, "right") - 1
    inside = (run >= 0) & (begin < runs.end[np.maximum(run, 0)]) if len(runs) else np.zeros(len(begin), bool)
    return int(inside.sum()) * 2 > len(begin) and len(np.unique(run[inside])) * 2 <= int(inside.sum())


def usual_size(turns: Turns) -> int:
    """The usual number of launches per iteration."""
    return int(np.median(np.bincount(turns.of_launch[turns.of_launch >= 0])))


def may_be_layers(turns: Turns) -> bool:
    """Whether there are as few iterations as a model has layers, with as much work in each."""
    return len(turns.label) <= _LAYERS and _LEAST_LAYER <= usual_size(turns) <= _MOST_LAYER


def layers_of_one_pass(
    trace: StoredTrace, process: int, turns: Turns, work: Work, launched: Column, when: Column
) -> bool:
    """Whether iterations without waits are more likely the layers of one pass through a framework's model.

    Other work comes right before the first and right after the last, without a wait in between:

        embed | layer layer … layer | norm head
    """
    if not turns.weak or not may_be_layers(turns) or not trace.count("op"):
        return False
    inside, size = np.flatnonzero(turns.of_launch >= 0), usual_size(turns)
    names = work.name_id[launched].astype(np.int64) * 4 + work.kind[launched]
    differs = np.flatnonzero(names[size:] != names[:-size])
    begin, end = int(inside[0]), int(np.flatnonzero(turns.of_launch == len(turns.label) - 1)[0])
    first = int(differs[differs < begin].max(initial=-1)) + 1
    last = int((differs + size)[differs + size >= end].min(initial=len(launched))) - 1
    if first == 0 or last + 1 == len(launched):
        return False
    begun, _ = waits(trace, process)
    edges = np.searchsorted(begun, when[[first - 1, first, last, last + 1]])
    copied = turns.of_launch[inside[_to_or_from_host(trace, work, launched[inside])]]
    marked = turns.of_launch[np.maximum(np.searchsorted(when, _marks(trace, process), "right") - 1, 0)]
    marked = np.union1d(copied, marked[marked >= 0])
    return bool(edges[0] == edges[1] and edges[2] == edges[3] and len(marked) * 2 < len(turns.label))


def passes(turns: Turns, names: Column) -> Turns | None:
    """The passes through a model that iterations without waits are the layers of; None if they are not.

    `names` are those of the launches. What ends a pass and begins the next comes between equally many layers, its end also after
    the last layer, and its begin before the first:

        embed | layer layer layer | norm head embed | layer layer layer | norm head
    """
    if not turns.weak or not may_be_layers(turns):
        return None
    size = usual_size(turns)
    same = np.concatenate([[False], names[size:] == names[:-size], [False]])
    start, stop = np.flatnonzero(np.diff(same.astype(np.int8))).reshape(-1, 2).T
    long = stop - start >= (LEAST - 1) * size
    start, stop = start[long], stop[long] + size
    if len(start) < 2 or len(set((stop - start).tolist())) > 1:
        return None
    between = [names[end:begin] for end, begin in zip(stop[:-1], start[1:], strict=True)]
    if not len(between[0]) or any(not np.array_equal(one, between[0]) for one in between[1:]):
        return None
    begin, end, length = int(start[0]), int(stop[-1]), len(between[0])
    for head in range(length + 1):  # how much of it ends a pass
        before, after = names[max(begin - length + head, 0) : begin], names[end : end + head]
        if np.array_equal(before, between[0][head:]) and np.array_equal(after, between[0][:head]):
            edges = np.append(start - length + head, end + head)
            turn = np.searchsorted(edges, np.arange(len(names)), "right") - 1
            turn[turn == len(start)] = -1
            layers = int(stop[0] - start[0]) // size
            source = f"{turns.source}, {layers} in a turn"
            return Turns(source, turn, [""] * len(start), announced=False, weak=True)
    return None


def around_inner(turns: Turns, work: Work, launched: Column, names: Column) -> Turns | None:
    """The turns that repetition found or, where these are an inner loop, the turns of the loop around it; None if it has none.

    Most of the time is in turns with much more work than the others: it is that of the loop around them, however often they come:

        x y a b a b a b a b x y a b a b x y a b a b a b a b a b a b
    """
    if turns.announced or turns.uneven:
        return turns
    number, first = np.unique(turns.of_launch, return_index=True)
    first = first[number >= 0]
    stop = int(np.flatnonzero(turns.of_launch >= 0)[-1]) + 1
    size, usual = np.diff(np.append(first, stop)), usual_size(turns)
    odd = much_larger(work, launched, np.append(first, stop))
    if not len(odd):
        return turns
    extra = [names[first[turn] + usual : first[turn] + size[turn]] for turn in odd.tolist()]
    ids, count = np.unique(np.concatenate([np.unique(one) for one in extra]), return_counts=True)
    common = ids[count >= _EVENLY * len(odd)]
    begins = [
        int(first[turn]) + usual
        for turn, one in zip(odd.tolist(), extra, strict=True)
        if len(np.intersect1d(one, common)) >= _EVENLY * len(common)
    ]
    if len(begins) < LEAST_UNEVEN - 1 or len(common) < 2:
        return None
    before = names[: first[0]]
    if len(np.intersect1d(before, common)) >= _EVENLY * len(common):
        begins.insert(0, max(int(first[0]) - int(np.median([len(one) for one in extra])), 0))
    turn = np.searchsorted(np.array(begins), np.arange(len(names)), "right") - 1
    return Turns("repetition around an inner loop", turn, [""] * len(begins), announced=False, uneven=True)


def much_larger(work: Work, launched: Column, edges: Column) -> Column:
    """The turns with much more work than the usual one, if most of the time is in them; turns lie between edges and have work."""
    size = np.diff(edges)
    odd = np.flatnonzero(size > _FAR_LARGER * np.median(size))
    start = np.minimum.reduceat(work.start[launched[: edges[-1]]], edges[:-1])
    length = np.diff(np.append(start, work.end[launched[edges[-2] : edges[-1]]].max()))
    return odd if float(length[odd].sum()) >= _INNER * float(length.sum()) else odd[:0]


def _to_or_from_host(trace: StoredTrace, work: Work, rows: Column) -> Column:
    """Which rows of work are copies that bring data or fetch results, as loops do; layers copy on the device."""
    texts, code = copy_names(trace, work, rows)
    outside = np.array(["DtoD" not in text and "PtoP" not in text for text in texts], bool)
    found: Column = outside[code] & (work.kind[rows] == COPY)
    return found


def _marks(trace: StoredTrace, process: int) -> Column:
    """When the host held on in the driver, or recorded or asked for an event: loops do that, layers do not.

    Layers allocate: a framework's allocator asks for more while a model is passed for the first time.
    """
    issued = calls.load(trace, api=True)
    if not len(issued):
        return issued.start
    marks = [
        (api_names.blocks(name) and _ALLOCATES.search(name) is None) or _EVENT.search(name) is not None
        for name in issued.functions
    ]
    found: Column = issued.start[(issued.process == process) & np.array(marks, bool)[issued.function]]
    return found


def _alike(trace: StoredTrace, name: Column) -> Column:
    """A number for each name, shared by kernels that differ only in template arguments."""
    ids, place = distinct(name)
    texts = names_of.texts(trace, "name")
    known: dict[str, int] = {}
    bare = (kernel_names.short(texts.get(one) or "?").split("<")[0] for one in ids.tolist())
    return np.array([known.setdefault(text, len(known)) for text in bare], np.int64)[place]


def waits(trace: StoredTrace, process: int) -> tuple[Column, Column]:
    """When the host began to wait for the device, ascending, and when it continued."""
    found, texts = trace.columns("sync", {"start": NO_TIME, "duration": 0, "process": -1}, ["kind"])
    of_host = np.array([kind != STREAM_WAIT for kind in texts["kind"]] + [False])[found["kind"]]
    mine = np.flatnonzero(of_host & (found["process"] == process) & (found["start"] != NO_TIME))
    begin = found["start"][mine]
    end = begin + np.maximum(found["duration"][mine], 0)
    if not len(mine):
        issued = calls.load(trace, api=True)
        held = np.array([api_names.waits(name) for name in issued.functions], bool)
        chosen = (issued.process == process) & held[issued.function] if len(issued) else np.zeros(0, bool)
        begin, end = issued.start[chosen], issued.end[chosen]
    order = np.argsort(begin, kind="stable")
    return begin[order], end[order]
