"""The account as findings: what most of the time was spent on, and why the devices were idle, the largest share first.

Each kernel, each blocking call, exposed communication, exposed copies and each other cause of idle time stand in one ranking.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

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
from warpsight.analysis.account.naming import UNNAMED
from warpsight.analysis.base import words
from warpsight.analysis.base.result import Finding
from warpsight.analysis.rules import advice
from warpsight.analysis.rules.facts import Facts
from warpsight.model import kernel_names

#: Shares of the account that are worth a finding: idle causes, communication and copies; kernels.
LEAST, LEAST_KERNEL = 0.01, 0.05
_MOST_KERNELS = 5


def check(facts: Facts) -> Iterator[Finding]:
    """The shares worth a finding, and the largest in any case."""
    found = facts.account
    if not found.span:
        return
    ranked = sorted(_candidates(found), key=lambda one: -one[1])
    kernels = 0
    for place, (kind, time, entries) in enumerate(ranked):
        kernels += kind == COMPUTE
        if kind == COMPUTE and kernels > _MOST_KERNELS:
            continue
        if place and time < (LEAST_KERNEL if kind == COMPUTE else LEAST) * found.span:
            continue
        yield _finding(facts, found, kind, time, entries, first=not place)


def _candidates(found: Account) -> Iterator[tuple[int, int, tuple[Entry, ...]]]:
    """Class, time and rows of everything that is ranked: kernels and blocking calls one by one, other classes as wholes."""
    for entry in (*found.of(COMPUTE), *found.of(BLOCKED_CALL)):
        yield entry.kind, entry.time, (entry,)
    for kind in (COMMUNICATION, COPY, HOST, LAUNCH, OTHER_STREAM, RECORDER, UNKNOWN):
        entries = found.of(kind)
        if entries:
            yield kind, sum(entry.time for entry in entries), entries


def _finding(
    facts: Facts, found: Account, kind: int, time: int, entries: tuple[Entry, ...], *, first: bool
) -> Finding:
    top = entries[0]
    share = time / found.span
    name = kernel_names.short(top.name) if kind in (COMPUTE, COMMUNICATION) else top.name
    count = sum(entry.count for entry in entries)
    idle = f"the GPU is idle for {share:.0%} of the time"
    kernel = (
        f"{share:.0%} of the time is in one kernel, {name}"
        if first
        else f"{name} takes {share:.0%} of the time"
    )
    after = f": most of it {name} had returned" if name.startswith("after ") else f": before {name}"
    texts = {
        COMPUTE: f"{kernel} ({top.count:,} times)",
        COMMUNICATION: f"exposed communication: {share:.0%} of the time is in collectives that no kernel hides ({name})",
        COPY: f"{share:.0%} of the time is in copies and fills that no kernel hides ({name}, {top.count:,} times)",
        BLOCKED_CALL: f"{idle} while the host is held in {name} ({top.count:,} times)",
        HOST: f"{idle} while the host runs code between two launches" + _where(found, time),
        LAUNCH: f"{idle} in launch calls and on the way from them to the device",
        OTHER_STREAM: f"{idle} because launched work waits for another stream ({name})",
        RECORDER: f"{idle} because of the recorder itself ({name})",
        UNKNOWN: f"{idle} for a reason that is not in the trace{after}",
    }
    text = texts[kind]
    values = {"time": time, "count": count, "share": share}
    severity = "note" if kind == COMPUTE else "warning"
    return Finding(
        severity, text, values, f"account/{CLASSES[kind]}", None, _evidence(facts, found, kind, entries),
        advice.of(kind, found), CLASSES[kind], name, time,
    )  # fmt: skip


def _where(found: Account, time: int) -> str:
    """Which annotation or function holds most of the host's time."""
    if not found.host or found.host[0].name == UNNAMED:
        return ""
    first = found.host[0]
    part = first.time / max(time, 1)
    inside = f", {part:.0%} of it" if part < 0.995 else ", all of it"
    place = f", at {first.function}" if first.function and first.function.split(" (")[0] != first.name else ""
    return f"{inside} in {first.name}{place}"


def _evidence(facts: Facts, found: Account, kind: int, entries: tuple[Entry, ...]) -> tuple[str, ...]:
    out: list[str] = []
    if kind in (COMMUNICATION, COPY, LAUNCH, UNKNOWN, OTHER_STREAM) and len(entries) > 1:
        out += [
            f"{entry.time / found.span:.1%} {kernel_names.short(entry.name)} ({entry.count:,})"
            for entry in entries[:3]
        ]
    if kind == HOST:
        out += [
            f"{one.time / found.span:.1%} in {one.name}" + (f", at {one.function}" if one.function else "")
            for one in found.host[:3]
            if one.name != UNNAMED
        ]
    if kind == COMPUTE:
        out += _launched_by(facts, found, entries[0])
    else:
        out += _longest(facts, found, kind, entries)
    if len(found.devices) > 1:
        per = [
            f"GPU {name}: {times[CLASSES[kind]] / max(times['span'], 1):.1%}"
            for name, times in found.devices.items()
        ]
        if kind != COMPUTE:
            out.append(", ".join(per[:8]))
    return tuple(out)


def _launched_by(facts: Facts, found: Account, entry: Entry) -> list[str]:
    ids = [
        row[0]
        for row in facts.trace.sql("SELECT id FROM name WHERE demangled = $name", name=entry.name).fetchall()
    ]
    stack = facts.common_stack(found.work.stack[np.isin(found.work.name_id, ids)])
    text = facts.stack_text(stack) if stack else ""
    return [f"launched by {text}"] if text else []


def _longest(facts: Facts, found: Account, kind: int, entries: tuple[Entry, ...]) -> list[str]:
    """The longest piece of idle time of a class, and how the pieces' lengths are spread."""
    pieces = found.pieces
    mine = pieces.of(kind)
    if kind == BLOCKED_CALL:
        mine = mine[
            np.array([pieces.names[i] == entries[0].name for i in range(len(pieces.names))])[
                pieces.name[mine]
            ]
        ]
    if not len(mine):
        return []
    length = pieces.length[mine]
    longest = int(np.argmax(length))
    at = (int(pieces.begin[mine[longest]]) - facts.origin) / 1e9
    text = f"the longest takes {words.duration(length[longest])}, at {at:.6f} s"
    if len(mine) > 1:
        text = f"{len(mine):,} pieces, {words.duration(float(np.median(length)))} in the middle; {text}"
    return [text]
