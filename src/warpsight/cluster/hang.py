"""Which rank a hung job waits for, from the ranks' dumps of PyTorch's flight recorder."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from warpsight.analysis.base import words
from warpsight.analysis.base.result import Finding
from warpsight.formats.snapshot.flight_recorder import FlightDump, FlightEntry

_PEERS = re.compile(r"^(send|recv)\s*(\d+)\s*(->|<-)\s*(\d+)$")
#: Operations whose sizes are equal on all ranks.
_EQUAL = ("all_reduce", "allreduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "_all_gather_base",
          "_reduce_scatter_base", "all_gather_into_tensor", "reduce_scatter_tensor")  # fmt: skip


def hang(dumps: Sequence[FlightDump]) -> list[Finding]:
    """The reasons why a job does not continue, the cause first.

    The cause is a rank that others wait for and that waits in no other group itself; ranks that wait for each other in several
    groups follow.
    """
    found: list[tuple[int, Finding]] = []
    groups = sorted({entry.group for dump in dumps for entry in dump.entries})
    waiting = {dump.rank for dump in dumps if any(_pending(dump, group) for group in groups)}
    for group in groups:
        found += _group(group, dumps, waiting)
    found += [(2, one) for one in _pairs(dumps)]
    found += [(4, one) for one in _absent(dumps)]
    out = [one for _, one in sorted(found, key=lambda pair: pair[0])]
    return out or [Finding("note", f"the dumps of {len(dumps)} ranks agree: every collective was called and ended on all of them",
                           {"ranks": [dump.rank for dump in dumps]}, "cluster/hang")]  # fmt: skip


def _calls(dump: FlightDump, group: str) -> dict[int, FlightEntry]:
    return {
        entry.sequence: entry for entry in dump.entries if entry.group == group and not entry.point_to_point
    }


def _pending(dump: FlightDump, group: str) -> FlightEntry | None:
    """The first collective of a group that a rank called and that has not ended."""
    calls = _calls(dump, group)
    done = max(
        dump.completed.get(group, -1),
        max((s for s, e in calls.items() if e.state == "completed"), default=-1),
    )
    last = max(calls, default=-1)
    # A communicator that was aborted marks everything as done: then the last call counts, if it is ahead of others.
    open_calls = [s for s, e in calls.items() if s > done or e.state in ("started", "scheduled")]
    return calls[min(open_calls)] if open_calls and last >= min(open_calls) else None


def _group(group: str, dumps: Sequence[FlightDump], waiting: set[int]) -> list[tuple[int, Finding]]:
    sides = {dump.rank: _calls(dump, group) for dump in dumps}
    members = next((dump.members[group] for dump in dumps if group in dump.members), None)
    inside = {rank: calls for rank, calls in sides.items() if calls or (members and rank in members)}
    if len(inside) < 2:
        return []
    different = _different(group, dumps, inside)
    if different is not None:
        return [(0, different)]
    last = {rank: max(calls, default=0) for rank, calls in inside.items()}
    most = max(last.values())
    behind = [rank for rank, number in last.items() if number < most]
    if behind:
        root = 0 if not set(behind) & waiting else 1
        return [(root, _never_called(group, dumps, inside, behind, last))]
    stuck = {
        rank: entry for dump in dumps if (rank := dump.rank) in inside and (entry := _pending(dump, group))
    }
    return [(2, _stuck(group, dumps, stuck))] if stuck else []


def _title(group: str, dumps: Sequence[FlightDump]) -> str:
    found = next((dump.description[group] for dump in dumps if dump.description.get(group)), "")
    return f"group {group!r}" + (f" ({found})" if found and found != group else "")


def _call(entry: FlightEntry) -> str:
    sizes = ", ".join("×".join(map(str, size)) for size in entry.sizes[:3])
    kinds = entry.dtypes[0] if entry.dtypes else ""
    return f"{entry.operation} of {kinds}[{sizes}]".replace(" of []", "")


def _ranks(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, sorted(ranks)[:8])) + (", …" if len(ranks) > 8 else "")
    return f"rank {shown}" if len(ranks) == 1 else f"ranks {shown}"


def _different(
    group: str, dumps: Sequence[FlightDump], inside: dict[int, dict[int, FlightEntry]]
) -> Finding | None:
    """The first call that ranks did not make alike."""
    for number in sorted(set.union(*(set(calls) for calls in inside.values()))):
        there = {rank: calls[number] for rank, calls in inside.items() if number in calls}
        said = {rank: _signature(entry) for rank, entry in there.items()}
        if len(there) < 2 or len(set(said.values())) == 1:
            continue
        usual = _usual(said, inside)
        wrong = [rank for rank, one in said.items() if one != usual]
        one = there[wrong[0]]
        other = next(entry for rank, entry in there.items() if rank not in wrong)
        what = "with another size" if one.operation == other.operation else "as another operation"
        text = (f"mismatched collective: number {number} of {_title(group, dumps)} was called {what} by {_ranks(wrong)}: "
                f"{_call(one)}, by {_ranks([r for r in there if r not in wrong])}: {_call(other)}")  # fmt: skip
        evidence = [
            f"{_ranks([rank])}: {entry.operation} at {_shown(entry)}"
            for rank, entry in sorted(there.items())[:6]
        ]
        return Finding("error", text, {"group": group, "sequence": number, "ranks": wrong}, "cluster/mismatch", None,
                       tuple(evidence), "All ranks of a group must call the same collectives with the same sizes in the same "
                       "order: look for a branch that depends on the rank or on its data.")  # fmt: skip
    return None


def _signature(entry: FlightEntry) -> tuple[Any, ...]:
    same_sizes = any(entry.operation.startswith(name) for name in _EQUAL)
    return (entry.operation, entry.sizes, entry.dtypes) if same_sizes else (entry.operation,)


def _usual(said: dict[int, tuple[Any, ...]], inside: dict[int, dict[int, FlightEntry]]) -> tuple[Any, ...]:
    """The operation that most ranks called; ties go to the one called more often before."""
    before = Counter(_signature(entry) for calls in inside.values() for entry in calls.values())
    counts = Counter(said.values())
    return max(counts, key=lambda one: (counts[one], before[one]))


def _shown(entry: FlightEntry) -> str:
    return entry.place or "a place without a stack (a thread of C++, or a JSON dump)"


def _never_called(group: str, dumps: Sequence[FlightDump], inside: dict[int, dict[int, FlightEntry]], behind: list[int],
                  last: dict[int, int]) -> Finding:  # fmt: skip
    first = min(last[rank] for rank in behind) + 1
    guilty = [rank for rank in behind if last[rank] == first - 1]
    there = {rank: calls[first] for rank, calls in inside.items() if first in calls}
    example = there[min(there)]
    text = (f"{_ranks(guilty)} never called number {first} of {_title(group, dumps)}, {_call(example)}, and "
            f"{_ranks(list(there))} wait{'s' if len(there) == 1 else ''} in it at {_shown(example)}")  # fmt: skip
    evidence = []
    for rank in guilty[:4]:
        own = [entry for dump in dumps if dump.rank == rank for entry in dump.entries]
        if own:
            entry = max(own, key=lambda one: one.created_ns)
            ago = words.duration(max(example.created_ns - entry.created_ns, 0))
            evidence.append(f"rank {rank} last called {entry.operation} number {entry.sequence} of group {entry.group!r} at "
                            f"{_shown(entry)}, {ago} before")  # fmt: skip
        else:
            evidence.append(f"rank {rank} called nothing that its dump still holds")
    return Finding("error", text, {"group": group, "sequence": first, "ranks": guilty, "waiting": sorted(there)}, "cluster/hang",
                   None, tuple(evidence), "See what this rank did instead: warpsight watch prints its stacks; a slow loader, an "
                   "exception that was caught, or a branch that the others do not take.")  # fmt: skip


def _stuck(group: str, dumps: Sequence[FlightDump], stuck: dict[int, FlightEntry]) -> Finding:
    """All ranks called it; those whose device has not begun it are before it in something else."""
    number = min(entry.sequence for entry in stuck.values())
    here = {rank: entry for rank, entry in stuck.items() if entry.sequence == number}
    late = [rank for rank, entry in here.items() if entry.state == "scheduled"]
    example = here[min(here)]
    head = f"number {number} of {_title(group, dumps)}, {_call(example)}, does not end"
    if late and len(late) < len(here):
        text = f"{head}: the device of {_ranks(late)} has not begun it, those of the others have"
        advice = "Look at that rank's device: a kernel before it does not end (warpsight watch --dumps), or it lost its GPU."
    else:
        late = []
        text = f"{head} on {_ranks(list(here))}, though all called it alike"
        advice = "All ranks have entered it: suspect the network or NVLink; NCCL_DEBUG=INFO says which transport it uses."
    return Finding("error", text, {"group": group, "sequence": number, "ranks": late}, "cluster/hang", None,
                   tuple(f"rank {rank}: {entry.state}, called at {_shown(entry)}" for rank, entry in sorted(here.items())[:6]),
                   advice)  # fmt: skip


def _pairs(dumps: Sequence[FlightDump]) -> list[Finding]:
    """Sends without their receive, and receives without their send."""
    counts: Counter[tuple[str, int, int, str]] = Counter()
    for dump in dumps:
        for entry in dump.entries:
            found = _PEERS.match(entry.operation)
            if found:
                sends = found[1] == "send"
                first, second = int(found[2]), int(found[4])
                source, target = (first, second) if sends == (found[3] == "->") or sends else (second, first)
                counts[entry.group, source, target, found[1]] += 1
    out = []
    for group, source, target in sorted({key[:3] for key in counts}):
        sent, received = counts[group, source, target, "send"], counts[group, source, target, "recv"]
        if sent != received:
            less, who = ("receives", target) if sent > received else ("sends", source)
            text = (f"in {_title(group, dumps)} rank {source} sent {sent:,} times to rank {target}, which received "
                    f"{received:,} times: rank {who} owes {abs(sent - received):,} {less}")  # fmt: skip
            out.append(Finding("error", text, {"group": group, "source": source, "target": target, "ranks": [who]},
                               "cluster/hang"))  # fmt: skip
    return out


def _absent(dumps: Sequence[FlightDump]) -> list[Finding]:
    members = {rank for dump in dumps for ranks in dump.members.values() for rank in ranks}
    absent = sorted(members - {dump.rank for dump in dumps})
    if not absent:
        return []
    text = f"{_ranks(absent)} left no dump: ended before, or could not write it"
    return [Finding("warning", text, {"ranks": absent}, "cluster/missing")]
