"""The account as findings: the largest shares of the time first.

Each kernel, each blocking call, exposed communication, exposed copies and each other cause of idle time are in one ranking.
"""

from __future__ import annotations

from collections.abc import Iterator

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
    RECORDER,
    UNKNOWN,
)
from warpsight.analysis.account.pieces import AFTER, MIGRATION, SEEN_WAIT
from warpsight.analysis.base import words
from warpsight.analysis.base.result import Finding
from warpsight.analysis.rules import advice
from warpsight.analysis.rules.base import evidence
from warpsight.analysis.rules.base.facts import Facts
from warpsight.model.naming import kernel_names

#: Minimum shares of the account for a finding: idle causes, communication and copies; kernels.
LEAST, LEAST_KERNEL = 0.01, 0.05
#: If the largest row reaches this share of its class, it represents the class.
_ALL = 0.95
_MOST_KERNELS = 5


def check(facts: Facts) -> Iterator[Finding]:
    """The shares worth a finding, and the largest in any case."""
    yield from _ranked(facts, leads=True)


def largest(facts: Facts) -> Finding | None:
    """The largest share, phrased as one among others."""
    return next(_ranked(facts, leads=False), None)


def _ranked(facts: Facts, *, leads: bool) -> Iterator[Finding]:
    found = facts.account
    if not found.span:
        return
    ranked = sorted(_candidates(found), key=lambda one: -one[1])
    shown = kernel_names.apart(entries[0].name for kind, _, entries in ranked if kind == COMPUTE)
    kernels = 0
    for place, (kind, time, entries) in enumerate(ranked):
        kernels += kind == COMPUTE
        if kind == COMPUTE and kernels > _MOST_KERNELS:
            continue
        if place and time < (LEAST_KERNEL if kind == COMPUTE else LEAST) * found.span:
            continue
        text = _text(facts, kind, shown, time, entries[0], first=leads and not place)
        yield _finding(facts, kind, time, entries, text)


def _candidates(found: Account) -> Iterator[tuple[int, int, tuple[Entry, ...]]]:
    """Class, time and rows of everything that is ranked: kernels and blocking calls individually, other classes as a whole."""
    for entry in (*found.of(COMPUTE), *found.of(BLOCKED_CALL)):
        yield entry.kind, entry.time, (entry,)
    for kind in (COMMUNICATION, COPY, HOST, LAUNCH, OTHER_STREAM, RECORDER, UNKNOWN):
        entries = found.of(kind)
        if entries:
            yield kind, sum(entry.time for entry in entries), entries


def _finding(facts: Facts, kind: int, time: int, entries: tuple[Entry, ...], text: str) -> Finding:
    top = entries[0]
    share = time / facts.account.span
    name = kernel_names.bare(top.name) if kind in (COMPUTE, COMMUNICATION) else top.name
    count = sum(entry.count for entry in entries)
    values = {"time": time, "count": count, "share": share}
    severity = "note" if kind == COMPUTE else "warning"
    rows = evidence.work_of(facts, kind, top)
    usual = evidence.usual_piece(facts, kind)
    if kind == COMPUTE and evidence.paged(facts, rows):
        todo = advice.PAGED
    elif kind == BLOCKED_CALL and facts.copies_unseen(top.name):
        todo = advice.UNSEEN_COPIES
    else:
        transfers = evidence.transfers(facts, kind, rows)
        todo = advice.of(kind, top.name, usual, top.kernels if kind == COMPUTE else top.count, transfers)
    return Finding(
        severity, text, values, f"account/{CLASSES[kind]}", None,
        evidence.of(facts, kind, entries, rows, usual), todo, CLASSES[kind], name, time,
        evidence.stretch(facts, kind, entries, rows),
    )  # fmt: skip


def _text(facts: Facts, kind: int, shown: dict[str, str], time: int, top: Entry, *, first: bool) -> str:
    found = facts.account
    name = shown[top.name] if kind == COMPUTE else top.name
    if kind == COMMUNICATION:
        name = kernel_names.short(name)
    share = words.percent(time / found.span)
    part = "" if top.time >= _ALL * time else f"{top.time / time:.0%} of it "
    times = words.times(top.count)
    idle = f"the GPU is idle for {share} of the time"
    if kind == COMPUTE and name == kernel_names.UNNAMED:
        return f"{share} of the time is in kernels whose names are not in the trace ({times})"
    if kind == COMPUTE and name.startswith(kernel_names.WHOLE_GRAPH):
        whole = f"{name}, recorded as a whole"
        return (
            f"{share} of the time is in {whole} ({times})"
            if first
            else f"{whole}, takes {share} of the time ({times})"
        )
    if kind == COMPUTE:
        one = "one kernel" if top.kernels == 1 else f"{top.kernels:,} kernels of one template"
        if first:
            return f"{share} of the time is in {one}, {name} ({times})"
        of = "" if top.kernels == 1 else f"{one}, "
        return f"{name} takes {share} of the time ({of}{times})"
    if kind == UNKNOWN and name == MIGRATION:
        return f"{idle} before {name}"
    if kind == UNKNOWN:
        after = f": most of it {name} had returned" if name.startswith(AFTER) else f": before {name}"
        return f"{idle} for a reason that is not in the trace{after}" + evidence.one_stretch(facts, kind)
    if kind == OTHER_STREAM and name == SEEN_WAIT:
        return f"{idle} while the streams of the next work wait for other streams or devices"
    if kind == BLOCKED_CALL and facts.copies_unseen(name):
        nothing = f"no kernel runs for {share} of the time while the host is held in {name} ({times})"
        return f"{nothing}, whose copies were not recorded"
    stretch = evidence.one_stretch(facts, kind) if kind in (HOST, LAUNCH) else ""
    texts = {
        COMMUNICATION: f"exposed communication: {share} of the time is in collectives that no kernel hides ({part}{name})",
        COPY: f"{share} of the time is in copies and fills that no kernel hides ({part}{name}, {times})",
        BLOCKED_CALL: f"{idle} while the host is held in {name} ({times})",
        HOST: f"{idle} while the host runs code between two launches{evidence.where(found)}{stretch}",
        LAUNCH: f"{idle} in launch calls and on the way from them to the device ({part}{name}){stretch}",
        OTHER_STREAM: f"{idle} because launched work waits for another stream ({name})",
        RECORDER: f"{idle} because of the recorder itself ({name})",
    }
    return texts[kind]
