"""The account: it covers every nanosecond of every device, from its first to its last work, exactly once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.account import gaps as gaps_of
from warpsight.analysis.account import naming, pieces
from warpsight.analysis.account.busy import whole
from warpsight.analysis.account.classes import CLASSES, COMMUNICATION, COMPUTE, COPY, HOST, IDLE, LAUNCH
from warpsight.analysis.account.copies import copy_names
from warpsight.analysis.account.gaps import Gaps
from warpsight.analysis.account.naming import HostTime
from warpsight.analysis.account.pieces import Pieces
from warpsight.model import calls as host_calls
from warpsight.model import work as device_work
from warpsight.model.calls import Calls
from warpsight.model.naming import kernel_names
from warpsight.model.naming import texts as names_of
from warpsight.model.selection import Rows
from warpsight.model.work import COMMUNICATION as COLLECTIVE
from warpsight.model.work import KERNEL, KINDS, Work, blocks, distinct, summed
from warpsight.model.workers import workers

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = NDArray[Any]
_ALL = Rows()


@dataclass(frozen=True)
class Entry:
    """One row of the account.

    Attributes:
        kind: Place of the class in :data:`~warpsight.analysis.account.classes.CLASSES`.
        name: Kernel (:func:`warpsight.model.naming.kernel_names.family`), collective, direction of a copy, call, annotation or
            function.
        time: ns, summed over devices.
        count: Rows of device work, or idle stretches.
        kernels: Kernels that share the name: instances of one template.
    """

    kind: int
    name: str
    time: int
    count: int
    kernels: int = 1

    @property
    def class_name(self) -> str:
        """The class as a phrase."""
        return CLASSES[self.kind]


@dataclass(frozen=True)
class AccountSummary:
    """An account's rows without the data they were computed from; times in ns.

    Attributes:
        span: Summed length of the devices' spans.
        entries: The rows, the most time first; they add up to `span`.
        place: Where most of the host's time was, with its place in the program; "" without host time.
    """

    span: int
    entries: tuple[Entry, ...]
    place: str

    def time(self, *kinds: int) -> int:
        """Total time of some classes."""
        return sum(entry.time for entry in self.entries if entry.kind in kinds)

    def share(self, *kinds: int) -> float:
        """Share of the span that some classes take, 0 to 1."""
        return self.time(*kinds) / max(self.span, 1)

    def of(self, kind: int) -> tuple[Entry, ...]:
        """The rows of a class, largest first."""
        return tuple(entry for entry in self.entries if entry.kind == kind)

    @property
    def classes(self) -> tuple[tuple[int, int, Entry], ...]:
        """Every class with time, largest first: the class, its time (ns) and its largest row."""
        kinds = dict.fromkeys(entry.kind for entry in self.entries if entry.time)
        listed = [(kind, self.time(kind), self.of(kind)[0]) for kind in kinds]
        return tuple(sorted(listed, key=lambda one: -one[1]))

    def to_json(self) -> list[dict[str, Any]]:
        """The rows as plain data."""
        return [
            {"class": entry.class_name, "name": entry.name, "ns": entry.time, "count": entry.count}
            for entry in self.entries
        ]


@dataclass(frozen=True)
class Account(AccountSummary):
    """The account of some device work; times in ns.

    Attributes:
        gaps: The idle stretches.
        pieces: The idle time by class.
        host: The host's part of it by name.
    """

    work: Work
    calls: Calls
    call: Column
    gaps: Gaps
    pieces: Pieces
    host: tuple[HostTime, ...]

    @property
    def summary(self) -> AccountSummary:
        """Only the rows: the account of ten million kernels takes a gigabyte."""
        return AccountSummary(self.span, self.entries, self.place)

    @cached_property
    def devices(self) -> dict[int | None, dict[str, int]]:
        """For each device its span and its time by class."""
        out: dict[int | None, dict[str, int]] = {}
        code = self.gaps.device[self.pieces.gap] * np.int16(len(CLASSES)) + self.pieces.kind
        idle = summed(code, self.pieces.length, len(self.gaps.devices) * len(CLASSES)).reshape(
            -1, len(CLASSES)
        )
        for number, (name, (_, one)) in enumerate(zip(self.gaps.devices, self.gaps.busy, strict=True)):
            times = dict(zip(CLASSES, idle[number].tolist(), strict=True))
            times |= {"compute": one.total[0], "communication": one.total[1], "copy": one.total[2]}
            out[name] = {"span": one.span, **times}
        return out


def account(trace: StoredTrace, rows: Rows = _ALL) -> Account:
    """The account of the device work that the rows select; cached while the trace is open."""
    return trace.kept.get(("account", rows.key()), lambda: _account(trace, device_work.load(trace, rows)))


def forget(trace: StoredTrace, rows: Rows = _ALL) -> None:
    """Drop the cached account."""
    trace.kept.forget(("account", rows.key()))


def _account(trace: StoredTrace, work: Work) -> Account:
    calls, call = host_calls.of_work(trace, work, api=True)
    found = gaps_of.find(work, calls, call)
    with workers(1, "account") as pool:
        worked = pool.submit(_worked, trace, work, found)
        if trace.count("stack"):  # names of host time will ask for it
            pool.submit(host_calls.by_thread, trace)
        parts = pieces.cut(trace, work, calls, found)
        idle = pool.submit(_idle, parts)
        host = naming.host_time(trace, calls, found, parts, call)
        of_host = [Entry(HOST, one.name, one.time, len(one.pieces)) for one in host]
        entries = [*worked.result(), *of_host, *idle.result()]
    span = sum(one.span for _, one in found.busy)
    ordered = tuple(sorted(entries, key=lambda entry: -entry.time))
    place = host[0].place if host else ""
    return Account(span, ordered, place, work, calls, call, found, parts, tuple(host))


def _worked(trace: StoredTrace, work: Work, found: Gaps) -> list[Entry]:
    """Compute and communication by kernel, copies and fills by direction."""
    out: list[Entry] = []
    own = np.zeros(len(work))
    total = np.zeros(3, np.int64)
    for index, one in found.busy:
        own[index] = one.own
        total += one.total
    names: Mapping[int, str] = {}
    if len(work):
        names = names_of.texts(trace)
    # A number for each kind and name: rows of all kinds are counted and summed at once.
    ids, code = distinct(work.name_id)
    kinds = len(KINDS)
    for block in blocks(len(work)):
        part = code[block]
        part *= kinds
        part += work.kind[block]
    own_times = np.bincount(code, own, len(ids) * kinds)
    own_counts = np.bincount(code, minlength=len(ids) * kinds)
    for kind, number in ((KERNEL, COMPUTE), (COLLECTIVE, COMMUNICATION)):
        there = np.flatnonzero(own_counts[kind::kinds])
        times, counts = (
            whole(own_times[kind::kinds][there], int(total[number])),
            own_counts[kind::kinds][there],
        )
        merged: dict[str, tuple[int, int, int]] = {}
        for one_id, time, count in zip(ids[there].tolist(), times.tolist(), counts.tolist(), strict=True):
            name = kernel_names.family(names.get(one_id) or kernel_names.UNNAMED)
            known = merged.get(name, (0, 0, 0))
            merged[name] = known[0] + time, known[1] + count, known[2] + 1
        out += [Entry(number, name, *sums) for name, sums in merged.items()]
    return out + _copied(trace, work, own, int(total[COPY]))


def _copied(trace: StoredTrace, work: Work, own: Column, total: int) -> list[Entry]:
    mine = np.flatnonzero(work.kind > COLLECTIVE)
    if not len(mine):
        return []
    labels, code = copy_names(trace, work, mine)
    times = whole(np.bincount(code, own[mine], len(labels)), total)
    counts = np.bincount(code, minlength=len(labels))
    return [
        Entry(COPY, name, time, count)
        for name, time, count in zip(labels, times.tolist(), counts.tolist(), strict=True)
        if count
    ]


def _idle(parts: Pieces) -> list[Entry]:
    """Idle time by class and name, without the host's."""
    out: list[Entry] = []
    width = len(parts.names)
    shape = (len(CLASSES), width)
    code = parts.kind * np.int32(width)
    code += parts.name
    every = np.bincount(code, minlength=shape[0] * width).reshape(shape)
    times = summed(code, parts.length, shape[0] * width).reshape(shape)
    del code
    for kind in IDLE:
        if kind == HOST:
            continue
        counts, names = every[kind], np.flatnonzero(every[kind])
        if kind == LAUNCH and len(names):
            # One launch ends a stretch: the pieces inside of the call and after it are of one launch.
            mine = parts.of(kind)
            name_of = np.full(int(parts.gap[mine].max()) + 1, width, np.int32)
            name_of[parts.gap[mine]] = parts.name[mine]
            counts = np.bincount(name_of, minlength=width)
        out += [
            Entry(kind, parts.names[name], time, count)
            for name, time, count in zip(
                names.tolist(), times[kind][names].tolist(), counts[names].tolist(), strict=True
            )
        ]
    return out
