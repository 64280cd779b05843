"""What shows the cause of a gap, in words: frames, calls, stacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.account.causes import (
    API,
    BLOCKED,
    CAUSES,
    COPYING,
    HOST,
    LAUNCH,
    PROFILER,
    PYTHON,
    SYNC,
    WAIT,
    Attribution,
)
from warpsight.analysis.account.find import PLACES, Gaps
from warpsight.analysis.base import words
from warpsight.model.calls import Calls
from warpsight.model.work import KINDS, Work

if TYPE_CHECKING:
    from warpsight.model import Trace

Column = NDArray[Any]
COLUMNS = """device:int16 begin:int64:ns duration:int64:ns cause:string place:string evidence:string process:int32 thread:int32
    after_sync:bool stack:string stack_before:string stack_after:string"""
FRAMES = "cause:string frame:string gaps:int64 time:int64:ns samples:int64 stack:string"
BETWEEN = "before:string after:string gaps:int64 time:int64:ns longest:int64:ns"
_LOW = 0xFFFFFFFF
_NO_STACK = ("(no stack recorded)",)
#: Pairs of launches that are listed.
PAIRS = 50


def explained(
    trace: Trace, work: Work, gaps: Gaps, why: Attribution, issued: Calls, call_of: Column, which: list[int]
) -> list[dict[str, Any]]:
    """Rows of table `top`: the gaps of the indices `which`, with evidence."""
    before = _earlier_calls(gaps, call_of, which).tolist()
    stacks = _stack_texts(
        trace, [*why.frame_stack[which], *_stacks(issued, before), *_stacks(issued, why.call[which])]
    )
    names = dict(trace.sql("SELECT id, short FROM name").fetchall())
    threads = {(p, t): n for p, t, n in trace.sql("SELECT process, thread, name FROM thread").fetchall()}
    rows = []
    for i, earlier in zip(which, before, strict=True):
        own = stacks.get(int(why.frame_stack[i]), ())
        first, second = (stacks.get(_stack(issued, c), ()) for c in (earlier, int(why.call[i])))
        ends = [_work(work, int(gaps.earlier[i]), names), _work(work, int(gaps.later[i]), names)]
        thread = (int(why.process[i]), int(why.thread[i]))
        called = threads.get(thread) or f"thread {thread[1]}"
        rows.append({
            "device": gaps.devices[int(gaps.device[i])], "begin": int(gaps.begin[i]),
            "duration": int(gaps.end[i] - gaps.begin[i]), "cause": CAUSES[why.cause[i]], "place": PLACES[gaps.place[i]],
            "evidence": _text(why, i, called, own, (first, second), ends), "process": thread[0], "thread": thread[1],
            "after_sync": bool(why.after_sync[i]), "stack": _joined(own), "stack_before": _joined(first),
            "stack_after": _joined(second),
        })  # fmt: skip
    return rows


def frames(trace: Trace, gaps: Gaps, why: Attribution, length: Column) -> list[dict[str, Any]]:
    """Rows of table `frames`: gaps by cause and the frame most of their samples were in, most time first."""
    sampled = np.flatnonzero((why.frame > 0) & np.isin(why.cause, (PYTHON, BLOCKED)))
    if not len(sampled):
        return []
    key = why.cause[sampled].astype(np.int64) << 40 | why.frame[sampled]
    found, first, place = np.unique(key, return_index=True, return_inverse=True)
    time, samples = np.zeros(len(found), np.int64), np.zeros(len(found), np.int64)
    np.add.at(time, place, length[sampled])
    np.add.at(samples, place, why.samples[sampled])
    stacks = why.frame_stack[sampled[first]].tolist()
    texts = _stack_texts(trace, stacks)
    counts = np.bincount(place)
    rows = [
        {"cause": CAUSES[key >> 40], "frame": (texts.get(stacks[i]) or ("?",))[-1], "gaps": int(counts[i]), "time": int(time[i]),
         "samples": int(samples[i]), "stack": _joined(texts.get(stacks[i], ()))}
        for i, key in enumerate(found.tolist())
    ]  # fmt: skip
    return sorted(rows, key=lambda row: -row["time"])


def between(
    trace: Trace, gaps: Gaps, why: Attribution, issued: Calls, call_of: Column, length: Column
) -> list[dict[str, Any]]:
    """Rows of table `between`: launch before and launch after the gaps that the host caused, by the launches' stacks."""
    chosen = np.flatnonzero((why.cause == HOST) & (why.call >= 0))
    if not len(chosen) or not len(issued):
        return []
    after = issued.stack[why.call[chosen]].astype(np.int64)
    calls = _earlier_calls(gaps, call_of, chosen)
    before = np.where(calls >= 0, issued.stack[np.maximum(calls, 0)], 0).astype(np.int64)
    found, place = np.unique(before << 32 | after, return_inverse=True)
    time, longest = np.zeros(len(found), np.int64), np.zeros(len(found), np.int64)
    np.add.at(time, place, length[chosen])
    np.maximum.at(longest, place, length[chosen])
    counts = np.bincount(place)
    best = np.argsort(-time, kind="stable")[:PAIRS].tolist()
    texts = _stack_texts(trace, [s for i in best for s in (found[i] >> 32, found[i] & _LOW)])
    return [
        {"before": _joined(texts.get(int(found[i]) >> 32, _NO_STACK)),
         "after": _joined(texts.get(int(found[i]) & _LOW, _NO_STACK)),
         "gaps": int(counts[i]), "time": int(time[i]), "longest": int(longest[i])}
        for i in best
    ]  # fmt: skip


def _earlier_calls(gaps: Gaps, call_of: Column, which: Any) -> Column:
    """The call behind the work that ended last before each gap, -1 unknown."""
    rows = gaps.earlier[which]
    if not len(call_of):
        return np.full(len(rows), -1, np.int64)
    return np.where(rows >= 0, call_of[np.maximum(rows, 0)], -1)


def _text(
    why: Attribution, i: int, thread: str, own: tuple[str, ...], calls: tuple[tuple[str, ...], tuple[str, ...]],
    work: list[str],
) -> str:  # fmt: skip
    cause = int(why.cause[i])
    parts = {name: int(values[i]) for name, values in why.parts.items()}
    places = [f"{text} at {frames[-1]}" if frames else text for text, frames in zip(work, calls, strict=True)]
    between = f"between {places[0]} and {places[1]}"
    if cause in (PYTHON, BLOCKED):
        where = f"in {own[-1]}" if own else "outside of Python"
        verb = "ran" if cause == PYTHON else "did not run,"
        samples = "1 sample" if why.samples[i] == 1 else f"{why.samples[i]:,} samples"
        return f"{thread} {verb} {where} ({samples})"
    if cause == SYNC:
        return f"{thread} waited for the device, so nothing was launched ahead; {between}"
    if cause == WAIT:
        return f"the stream waited for an event before {places[1]}"
    if cause == COPYING:
        return f"{thread} was in a copy call; {between}"
    texts = {
        HOST: f"{thread} launched nothing {between}",
        API: f"{thread} was in other calls for {words.duration(parts['api'])}; {between}",
        LAUNCH: f"{words.duration(parts['device'])} from the call to the begin of {places[1]}",
        PROFILER: f"the profiler's own work took {words.duration(parts['profiler'])}",
    }
    return texts.get(cause, f"nothing recorded {between}")


def _work(work: Work, row: int, names: dict[int, str]) -> str:
    if row < 0:
        return "the end of the time looked at"
    kind = KINDS[work.kind[row]]
    return names.get(int(work.name_id[row]), kind) if kind in ("kernel", "communication") else f"a {kind}"


def _stack(issued: Calls, call: int) -> int:
    return int(issued.stack[call]) if call >= 0 else 0


def _stacks(issued: Calls, which: Any) -> list[int]:
    return [_stack(issued, int(call)) for call in which]


def _stack_texts(trace: Trace, ids: list[Any]) -> dict[int, tuple[str, ...]]:
    wanted = {int(i) for i in ids} - {0}
    return trace.stacks(wanted) if wanted else {}


def _joined(frames: tuple[str, ...]) -> str:
    """A stack as one text, innermost frame first."""
    return " ← ".join(frames[::-1])
