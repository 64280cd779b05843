"""Collectives that some ranks waited in and others never joined, or joined differently, found in the recordings alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpsight.analysis.base import words
from warpsight.analysis.base.frames import is_library
from warpsight.analysis.base.result import Finding
from warpsight.cluster.job import Job
from warpsight.cluster.matching import POINT_TO_POINT, Communicator

#: A wait counts if it is this many times the longest usual operation of its rank, and this share of the job's time.
_TIMES, _SHARE = 10, 0.05


def unmet(job: Job) -> list[Finding]:
    """The first operation of each group that a rank never joined while others waited long for it, the cause first.

    A rank that waits in another group is itself held up by the rank it waits for.
    """
    found = [one for one in (_of(job, group) for group in job.groups) if one is not None]
    found += _stuck(job)
    waiting = {rank for one in found for rank in one.values["waiting"]}
    return sorted(
        found, key=lambda one: bool(one.values["ranks"]) and waiting.issuperset(one.values["ranks"])
    )


def _of(job: Job, group: Communicator) -> Finding | None:
    there = group.row >= 0
    last = np.where(there.any(0), len(group) - 1 - there[::-1].argmax(0), -1)
    first = int(last.min()) + 1
    if first >= len(group) or first < 1:
        return None
    length = np.where(there, group.of(job.summaries, "end") - group.of(job.summaries, "start"), 0)
    waiting = np.flatnonzero(there[first])
    absent = np.flatnonzero(last < first)
    longest = int(length[first, waiting].max(initial=0))
    usual = float(np.quantile(length[:first][there[:first]], 0.95))
    if longest < _TIMES * usual or longest < _SHARE * job.length:
        return None
    absentees = [group.ranks[column] for column in absent.tolist()]
    waiters = [group.ranks[column] for column in waiting.tolist()]
    operation = group.operations[int(group.common[first])]
    return _never_came(job, f"the {operation} number {first + 1:,} of group {group.key!r}", absentees, waiters, longest,
                       {"group": group.key, "number": first})  # fmt: skip


def _never_came(
    job: Job, what: str, absent: list[int], waiting: list[int], waited: int, values: dict[str, Any]
) -> Finding:
    """Ranks (by their places) that did not come to an operation in which others waited (ns)."""
    ranks = [job.summaries[place].about.rank for place in absent]
    others = [job.summaries[place].about.rank for place in waiting]
    about = job.summaries[absent[0]].about
    text = f"{_rank_list(ranks)} never came to {what}, in which {_rank_list(others)} waited {words.duration(waited)}"
    place, seen = about.afterwards
    evidence: tuple[str, ...] = ()
    if ending := _ending(job, absent[0], waiting, waited):
        text += f": {ending}"
        place = ""
    elif place:
        text += f": it was {'outside of the program, ' if is_library(place) else ''}in {place}"
        evidence = (f"rank {about.rank} was seen there for {words.duration(seen)} after its last work",)
    values |= {"ranks": ranks, "waiting": others, "name": place or None}
    return Finding("error", text, values, "cluster/hang", None, evidence,
                   "Look at what this rank did instead of the collective: a loader, an exception that was caught, a branch that "
                   "the others do not take.")  # fmt: skip


def _ending(job: Job, place: int, waiting: list[int], waited: int) -> str:
    """How a rank that others waited for exited, in words; "" if nothing shows that it exited before them.

    A failing rank ends by itself, the others are ended by whoever started them.
    """
    seen = {one: job.summaries[one].about.last_seen for one in (place, *waiting)}
    if not all(seen.values()):
        return ""
    on_one = {one: int(job.clocks.corrected(one, np.array([moment]))[0]) for one, moment in seen.items()}
    before = max(on_one[one] for one in waiting) - on_one[place]
    ended = job.summaries[place].about.ended
    alone = ended not in ("", "exit 0", *(job.summaries[one].about.ended for one in waiting))
    if before > 0 and alone:
        return f"its process had ended ({ended.replace('exit', 'exit code')})"
    return "its process had ended" if before > waited / 2 else ""


#: A group, and of its messages the two ranks in it that exchange them: each counts its operations by itself.
_Channel = tuple[str, tuple[int, int] | None]


@dataclass(frozen=True)
class _Side:
    """What one rank asked a group to do: what did not end by its number, what ended by kind, the last number of those."""

    rank: int
    asked: dict[int, dict[str, Any]]
    ended: Counter[tuple[str, int | None]]
    last: int


def _stuck(job: Job) -> list[Finding]:
    """The first operation of each group that no rank completed after requesting it, and why.

    What ended on one rank has ended on all: what is missing there are the records of the last kernels before it was killed.
    """
    channels = {_channel(row) for one in job.summaries for row in one.unfinished.to_pylist()}
    usual = _usual(job)
    out = []
    for channel in sorted(channels, key=str):
        sides = [
            one for place in range(len(job.summaries)) if (one := _side(job, place, channel)) is not None
        ]
        done = max((one.last for one in sides), default=-1)
        waits = {
            one.rank: (number, _waited(job, one.rank, one.asked[number]))
            for one in sides
            if (number := min((n for n in one.asked if n > done), default=-1)) >= 0
        }
        longest = max((time for _, time in waits.values()), default=0)
        if len(sides) > 1 and longest >= _TIMES * usual and longest >= _SHARE * (job.length + longest):
            out.append(_at_first(job, channel, sides, min(number for number, _ in waits.values()), longest))
    return out


def _channel(row: dict[str, Any]) -> _Channel:
    both = row["rank"], row["peer"]
    paired = row["operation"] in POINT_TO_POINT and None not in both
    return row["group"], (min(both), max(both)) if paired else None


def _waited(job: Job, place: int, row: dict[str, Any]) -> int:
    """How long a rank was seen after it asked for an operation, and after its last work, ns."""
    about = job.summaries[place].about
    return max(int(about.last_seen - max(row["start"], about.end)), 0)


def _usual(job: Job) -> float:
    """The longest usual time from the end of one operation to that of the next, ns: work between them included."""
    between = [np.diff(np.unique(one.collectives["end"].to_numpy())) for one in job.summaries]
    return max((float(np.quantile(one, 0.95)) for one in between if len(one)), default=0.0)


def _side(job: Job, place: int, channel: _Channel) -> _Side | None:
    one = job.summaries[place]
    columns = ["group", "operation", "bytes", "sequence", "rank", "peer"]
    ended = [row for row in one.collectives.select(columns).to_pylist() if _channel(row) == channel]
    left = [row for row in one.unfinished.to_pylist() if _channel(row) == channel]
    if not ended and not left:
        return None
    if channel[1] is not None:  # both directions at once are one operation
        left = list({row["start"]: row for row in left}.values())
    numbered = channel[1] is None and all(row["sequence"] is not None for row in (*ended, *left))
    last = max((row["sequence"] for row in ended), default=-1) if numbered else len(ended) - 1
    asked = {row["sequence"] if numbered else last + 1 + at: row for at, row in enumerate(left)}
    return _Side(place, asked, Counter((row["operation"], row["bytes"]) for row in ended), last)


def _differing(sides: list[_Side], first: int) -> int:
    """The first operation at or after one where ranks made different requests; that one if there is none.

    Ranks run one program: where all asked alike, the operation ended, or waits for an earlier one, and its record is lost.
    """
    number = first
    while any(number in one.asked for one in sides):
        rows = [one.asked.get(number) for one in sides]
        if len({None if row is None else _signature(row) for row in rows}) > 1:
            return number
        number += 1
    return first


def _signature(row: dict[str, Any]) -> tuple[Any, ...]:
    """What all ranks of a group ask for alike; the two sides of a message differ by nature."""
    if row["operation"] in POINT_TO_POINT:
        return ()
    return row["operation"], row["bytes"], row["dtype"]


def _at_first(job: Job, channel: _Channel, sides: list[_Side], number: int, waited: int) -> Finding:
    """Blame ranks that did not request an operation, or else those that requested another; otherwise nobody."""
    group, pair = channel
    number = _differing(sides, number)
    there = {one.rank: one.asked[number] for one in sides if number in one.asked}
    absent = [one.rank for one in sides if number not in one.asked]
    values = {"group": group, "number": number}
    what = f"{there[min(there)]['operation']} number {number + 1:,} of group {group!r}"
    what += f" between its ranks {pair[0]} and {pair[1]}" if pair else ""
    if absent:
        return _never_came(job, f"the {what}", absent, sorted(there), waited, values)
    ranks = {place: job.summaries[place].about.rank for place in there}
    evidence = tuple(
        f"rank {ranks[place]}: {_operation_and_place(row)}" for place, row in sorted(there.items())[:6]
    )
    said = {place: _signature(row) for place, row in there.items()}
    if len(set(said.values())) > 1 and pair is None:
        before: Counter[tuple[Any, ...]] = sum((one.ended for one in sides), Counter())
        counts = Counter(said.values())
        common = max(counts, key=lambda one: (counts[one], before[one[:2]]))
        wrong = sorted(place for place, one in said.items() if one != common)
        right = next(row for place, row in there.items() if place not in wrong)
        text = (f"mismatched collective: number {number + 1:,} of group {group!r} never ended: "
                f"{_rank_list([ranks[place] for place in wrong])} did {_operation_text(there[wrong[0]])}, "
                f"{_rank_list([ranks[place] for place in there if place not in wrong])} {_operation_text(right)}")  # fmt: skip
        values |= {"ranks": [ranks[place] for place in wrong], "waiting": []}
        return Finding("error", text, values, "cluster/mismatch", None, evidence, "All ranks of a group must call the same "
                       "collectives with the same sizes in the same order: look for a branch that depends on the rank or on "
                       "its data.")  # fmt: skip
    text = (f"the {what} does not end on {_rank_list(sorted(ranks.values()))}, which waited {words.duration(waited)} in it, "
            "though all called it alike")  # fmt: skip
    return Finding("error", text, {**values, "ranks": [], "waiting": sorted(ranks.values())}, "cluster/hang", None, evidence,
                   "All ranks are in it: a kernel before it does not end on one of them, or the network or NVLink is at fault; "
                   "NCCL_DEBUG=INFO says which transport it uses.")  # fmt: skip


def _rank_list(ranks: list[int]) -> str:
    """`rank 1`, `ranks 0, 2`."""
    shown = ", ".join(map(str, ranks[:8])) + (", …" if len(ranks) > 8 else "")
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}"


def _operation_text(row: dict[str, Any]) -> str:
    size = "" if row["bytes"] is None else f" of {row['bytes']:,} B"
    article = "an" if row["operation"][0] in "aeiou" else "a"
    return f"{article} {row['operation']}{size}"


def _operation_and_place(row: dict[str, Any]) -> str:
    return _operation_text(row) + (f", at {row['place']}" if row["place"] else "")
