"""Evidence for a share of the account: its largest parts, the program's calls, its longest piece, each device's part."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.account import copies
from warpsight.analysis.account.account import Account, Entry
from warpsight.analysis.account.classes import (
    BLOCKED_CALL,
    CLASSES,
    COMMUNICATION,
    COMPUTE,
    COPY,
    HOST,
    LAUNCH,
    OTHER_STREAM,
)
from warpsight.analysis.account.naming import NEARLY, UNNAMED, HostTime
from warpsight.analysis.account.questions import pieces_of
from warpsight.analysis.base import words
from warpsight.analysis.base.frames import shown
from warpsight.analysis.base.typical import half
from warpsight.analysis.rules.advice import Transfers
from warpsight.analysis.rules.base.facts import Facts
from warpsight.analysis.rules.copies import SMALL
from warpsight.model import intervals
from warpsight.model.naming import kernel_names
from warpsight.model.naming import texts as names_of
from warpsight.model.work import COMMUNICATION as COLLECTIVE
from warpsight.model.work import COPY as MEMCPY
from warpsight.model.work import KERNEL, any_of, distinct, summed, values_in

Column = npt.NDArray[Any]
#: Maximum number of listed parts of a class, and of devices.
_PARTS, _DEVICES = 3, 8
#: Minimum share of the device's kernel time for a stream to count as computing; maximum number of copies joined with "and".
_COMPUTES, _SOME = 0.05, 2
#: Minimum share of a kernel's time with page migrations for them to slow it down.
_PAGED = 0.1
#: Smaller parts would print as 0.0%.
_LEAST = 0.0005
#: Minimum share of a class's time for a single stretch to be named.
_ONE = 0.5


def where(found: Account) -> str:
    """Which annotation or function holds most of the host's time, as the rest of a sentence; "" if unknown."""
    if not found.host or found.host[0].name == UNNAMED:
        return ""
    first = found.host[0]
    share, place = _host_place(first)
    part = share * first.time / max(found.time(HOST), 1)
    inside = f", {part:.0%} of it" if part < 0.995 else ", all of it"
    return f"{inside} in {place}"


def _host_place(one: HostTime) -> tuple[float, str]:
    """The name of host time with its places in the program: `batch, at load (data.py:9), 70% of that in unpack (data.py:20)`.

    And the part of the time that it is true of: less than all where the name is that of the function that holds most.
    """
    most = shown(one.most)
    if (one.most.rpartition(" (")[0] or one.most) == one.name and not one.function:
        return one.most_share, most
    own = one.function.split(" (")[0] == one.name  # an annotation covers all of it, a function maybe less
    share = one.function_share if own and one.function_share < NEARLY else 1.0
    return share, one.place + (f", {one.most_share / share:.0%} of that in {most}" if most else "")


def one_stretch(facts: Facts, kind: int) -> str:
    """The idle stretch that accounts for at least half of a class's time, as the rest of a sentence, or ""."""
    gaps, pieces = facts.account.gaps, facts.account.pieces
    mine, length = pieces.held(kind)
    if not len(mine):
        return ""
    total = int(length.sum())
    long = np.flatnonzero(gaps.end - gaps.begin >= _ONE * total)
    held, gap = max(((int(length[pieces.gap[mine] == g].sum()), -g) for g in long.tolist()), default=(0, 0))
    part, gap = held / total, -gap
    if part < _ONE:
        return ""
    whole = int(gaps.end[gap] - gaps.begin[gap])
    if held < _ONE * whole:
        return ""  # the stretch is another class's
    lasts = words.duration(whole)
    inside = "all of it" if part >= 0.995 else f"{part:.0%} of it"
    return f", {inside} in one stretch of {lasts} at {words.moment(int(gaps.begin[gap]) - facts.origin)}"


def usual_piece(facts: Facts, kind: int) -> int:
    """The length of idle pieces (ns) such that half of a class's time is in pieces at least as long, or 0."""
    length = facts.account.pieces.held(kind)[1]
    return int(half(length)) if len(length) else 0


def of(facts: Facts, kind: int, entries: tuple[Entry, ...], work: Column, usual: int) -> tuple[str, ...]:
    """Evidence for a class or one row of it; `work` comes from :func:`work_of`, `usual` from :func:`usual_piece`."""
    found = facts.account
    out: list[str] = []
    if kind == HOST:
        out += _host(found)
    elif kind not in (COMPUTE, BLOCKED_CALL) and len(entries) > 1:
        out += [
            f"{entry.time / found.span:.1%} {kernel_names.short(entry.name)} ({entry.count:,})"
            for entry in entries[:_PARTS]
            if entry.time >= _LEAST * found.span
        ]
    out += _place(facts, kind, entries[0], work)
    out += _longest(facts, kind, entries, usual)
    if len(found.devices) > 1 and kind != COMPUTE:
        per = [
            f"GPU {name}: {times[CLASSES[kind]] / max(times['span'], 1):.1%}"
            for name, times in found.devices.items()
        ]
        out.append(", ".join(per[:_DEVICES]))
    return tuple(out)


def _host(found: Account) -> list[str]:
    known = [one for one in found.host[:_PARTS] if one.name != UNNAMED]
    told = [(one.time, *_host_place(one)) for one in known] if len(known) > 1 else []
    parts = [(time, 1.0, name) for name, time in (known[0].parts if known else ())[:_PARTS]]
    return [f"{time * share / found.span:.1%} in {place}" for time, share, place in (*told, *parts)]


def _place(facts: Facts, kind: int, entry: Entry, rows: Column) -> list[str]:
    """Where the program requested the work that takes most of the time."""
    work = facts.account.work
    if kind in (COMPUTE, COMMUNICATION, COPY):
        return _text(facts, "launched by", work.stack[rows], work.end[rows] - work.start[rows])
    if kind in (LAUNCH, OTHER_STREAM):
        mine, length = facts.account.pieces.held(kind)
        rows = facts.account.gaps.row[facts.account.pieces.gap[mine]]
        return _text(facts, "launched by", work.stack[rows], length)
    if kind == BLOCKED_CALL:
        mine = pieces_of(facts.account, kind, entry.name)
        call = _calls_at(facts.account, mine, entry.name)
        stack = np.where(call >= 0, facts.calls.stack[call], 0) if len(facts.calls) else call
        return _text(facts, "called by", stack, facts.account.pieces.length_of(mine))
    return []


def work_of(facts: Facts, kind: int, entry: Entry) -> Column:
    """The device work behind a row of the account (empty for idle time); any copy or fill row stands for all of them."""
    if kind not in (COMPUTE, COMMUNICATION, COPY):
        return np.zeros(0, np.int64)
    work = facts.account.work
    if kind == COPY:
        return np.flatnonzero(work.kind > COLLECTIVE)
    names = names_of.texts(facts.trace)
    wanted = [number for number, name in names.items() if kernel_names.family(name or "?") == entry.name]
    chosen = any_of(work.name_id, wanted)
    chosen &= work.kind == (KERNEL if kind == COMPUTE else COLLECTIVE)
    return np.flatnonzero(chosen)


def paged(facts: Facts, rows: Column) -> bool:
    """Whether pages moved for much of some kernels' time: kernels wait for each page that they fault on."""
    if not len(facts.migrated):
        return False
    work = facts.account.work
    taken = int((work.end[rows] - work.start[rows]).sum())
    moved = int(intervals.coverage(facts.migrated, work.start[rows], work.end[rows]).sum())
    return moved >= _PAGED * max(taken, 1)


def transfers(facts: Facts, kind: int, rows: Column) -> Transfers:
    """The streams on which these copies or collectives are exposed, and the size of the copies."""
    if kind not in (COMMUNICATION, COPY):
        return Transfers()
    work = facts.account.work
    others, time = facts.exposed
    exposed = time[np.searchsorted(others, rows)]
    alone = np.zeros(len(work.queues), bool)
    count, time = facts.kernels_of_queues
    for mine in work.devices.values():
        alone[mine] = time[mine] < _COMPUTES * max(int(time[mine].sum()), 1)
    own_time = int(exposed[alone[work.queue[rows]]].sum())
    own_stream = 2 * own_time > int(exposed.sum()) if count.any() else None
    copied = np.flatnonzero(work.kind[rows] == MEMCPY)
    if kind == COMMUNICATION or len(copied) < _SOME:
        return Transfers(own_stream)
    exposed = exposed[copied]
    few = copies.sizes(facts.trace, work, rows[copied]) < SMALL
    return Transfers(own_stream, 2 * int(exposed[few].sum()) > int(exposed.sum()))


def _calls_at(found: Account, mine: Column, name: str) -> Column:
    """The call with this name that was holding the launching thread at the start of each piece; -1: not in the trace."""
    calls, pieces = found.calls, found.pieces
    out = np.full(len(mine), -1, np.int64)
    if name not in calls.functions:
        return out
    index = np.flatnonzero(calls.function == calls.functions.index(name))
    index = index[np.argsort(calls.start[index], kind="stable")]
    launch = found.gaps.call[pieces.gap[mine]]
    begin = pieces.begin[mine]
    threads = values_in(calls.thread[launch])
    for thread in threads.tolist():
        own = index[calls.thread[index] == thread]
        here = np.flatnonzero(calls.thread[launch] == thread)
        last = np.searchsorted(calls.start[own], begin[here], "right") - 1
        good = last >= 0
        candidate = own[np.maximum(last, 0)] if len(own) else np.zeros(len(here), np.int64)
        good &= (calls.end[candidate] > begin[here]) & (
            calls.process[candidate] == calls.process[launch[here]]
        )
        out[here[good]] = candidate[good]
    return out


def _text(facts: Facts, verb: str, stack: Column, time: Column) -> list[str]:
    """The stack with the largest share of some times; damaged (negative) times count as 0."""
    if not bool((stack > 0).all()):
        known = np.flatnonzero(stack > 0)
        stack, time = stack[known], time[known]
    if not len(stack):
        return []
    ids, place = distinct(stack)
    best = int(np.argmax(summed(place, np.maximum(time, 0), len(ids))))
    text = facts.stack_text(int(ids[best]))
    return [f"{verb} {text}"] if text else []


def stretch(facts: Facts, kind: int, entries: tuple[Entry, ...], rows: Column) -> tuple[int, int] | None:
    """Start and end of the longest piece of a class's idle time, or of its longest kernel or copy, ns."""
    found = facts.account
    if kind in (COMPUTE, COMMUNICATION, COPY):
        if not len(rows):
            return None
        longest = int(rows[np.argmax(found.work.end[rows] - found.work.start[rows])])
        return int(found.work.start[longest]), int(found.work.end[longest])
    mine, length = _pieces(found, kind, entries)
    if not len(mine):
        return None
    longest = int(mine[np.argmax(length)])
    return int(found.pieces.begin[longest]), int(found.pieces.end[longest])


def _pieces(found: Account, kind: int, entries: tuple[Entry, ...]) -> tuple[Column, Column]:
    """Indices and lengths of the pieces of a class, or of one call."""
    if kind != BLOCKED_CALL:
        return found.pieces.held(kind)
    mine = pieces_of(found, kind, entries[0].name)
    return mine, found.pieces.length_of(mine)


def _longest(facts: Facts, kind: int, entries: tuple[Entry, ...], usual: int) -> list[str]:
    """The longest piece of a class's idle time, and the spread of the pieces' lengths."""
    pieces = facts.account.pieces
    mine, length = _pieces(facts.account, kind, entries)
    if not len(mine):
        return []
    longest = int(np.argmax(length))
    at = words.moment(int(pieces.begin[mine[longest]]) - facts.origin)
    text = f"the longest takes {words.duration(length[longest])}, at {at}"
    if len(mine) > 1:
        most = half(length) if kind == BLOCKED_CALL else usual
        text = f"{len(mine):,} pieces, half of the time in pieces of {words.duration(most)} or more; {text}"
    return [text]
