"""Idle GPUs: each gap between device work attributed to what the host did while the next work was not yet launched."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.base import words
from warpsight.analysis.base.frames import user_frames
from warpsight.analysis.base.result import Finding
from warpsight.analysis.ranges import open as ranges
from warpsight.analysis.rules.facts import Facts
from warpsight.model import intervals
from warpsight.model.work import COMMUNICATION, summed

Column = npt.NDArray[Any]
#: Gaps up to this are a matter of launching; in longer ones the host did something else (ns).
LAUNCH_GAP = 100_000
#: A finding is made when its cost is this share of the window.
LEAST_SHARE = 0.02
#: nsys's rule of GPU starvation asks for gaps longer than this (ns).
STARVATION = 500_000_000
#: Chunks that the time is divided into, and what counts as little use.
_CHUNKS, _LOW = 30, 0.5
_LOADING = re.compile(
    r"data_?load|dataset|__getitem__|collate|prefetch|load_batch|next_batch|read_|decode|_next_data|zlib|PIL|cv2|imread|fetch",
    re.IGNORECASE,
)
LATENCY, AFTER_WAIT, LAUNCHING, IN_CALL, HOST, UNKNOWN = range(6)


@dataclass(frozen=True)
class Gaps:
    """Idle gaps of the devices in the window, in ns: `begin` to `end`; the next work was issued at `issued` by `thread`.

    `cause` is one of the numbers above; `wait` indexes `Facts.waits` and `call` `Facts.calls`, -1 for none.
    """

    begin: Column
    end: Column
    issued: Column
    process: Column
    thread: Column
    cause: Column
    wait: Column
    call: Column

    def cost(self, cause: int) -> int:
        """Idle time with a cause, ns; gaps of several devices are added, as each device stood idle."""
        chosen = self.cause == cause
        return int((self.end - self.begin)[chosen].sum())


def gaps(facts: Facts) -> Gaps:
    """The idle gaps inside the window, each with its cause.

    The time that counts is from the begin of the gap to the launch of the work that ends it: work that was launched before
    the gap began waited for latency or a dependency, all other gaps are the launching thread's.
    """
    work = facts.work
    parts = []
    for device, index in work.per_device():
        idle = intervals.complement(facts.worked[device], *facts.window)
        starts = work.start[index]
        place = np.searchsorted(starts, idle.end, side="left")
        real = (place < len(index)) & (idle.end < facts.window[1])
        parts.append((idle.start[real], idle.end[real], index[place[real]]))
    if not parts:
        none = np.zeros(0, np.int64)
        return Gaps(none, none, none, none, none, none, none, none)
    begin, end, following = (np.concatenate(c) for c in zip(*parts, strict=True))
    call = facts.call[following]
    known = call >= 0
    safe = np.maximum(call, 0)
    calls = facts.calls
    if not len(calls):
        empty = np.full(len(begin), -1, np.int64)
        return Gaps(
            begin, end, begin, work.process[following], empty, np.full(len(begin), UNKNOWN), empty, empty
        )
    issued = np.where(known, calls.start[safe], begin)
    thread = np.where(known, calls.thread[safe] & 0xFFFFFFFF, -1)
    late = known & (issued > begin)
    process = work.process[following].astype(np.int64)
    wait = _waits_in(facts, begin, issued, process, thread, late)
    longest = _longest_call(facts, begin, issued, safe, late)
    cause = np.full(len(begin), UNKNOWN)
    cause[known & ~late] = LATENCY
    cause[late] = HOST
    cause[late & (end - begin <= LAUNCH_GAP)] = LAUNCHING
    cause[longest >= 0] = IN_CALL
    cause[wait >= 0] = AFTER_WAIT
    return Gaps(begin, end, issued, process, thread, cause, wait, longest)


def _waits_in(
    facts: Facts, begin: Column, issued: Column, process: Column, thread: Column, late: Column
) -> Column:
    """The wait of the launching thread that was going on when the gap began and ended in it, -1 for none."""
    waits = facts.waits
    out = np.full(len(begin), -1, np.int64)
    if not len(waits):
        return out
    for one in np.unique(np.stack([waits.process, waits.thread]), axis=1).T.tolist():
        mine = np.flatnonzero((waits.process == one[0]) & (waits.thread == one[1]))
        rows = np.flatnonzero(late & (process == one[0]) & ((thread == one[1]) | (one[1] == -1)))
        at = np.searchsorted(waits.end[mine], issued[rows], side="right") - 1
        found = mine[np.maximum(at, 0)]
        good = (at >= 0) & (waits.end[found] >= begin[rows]) & (waits.start[found] <= begin[rows])
        out[rows[good]] = found[good]
    return out


def _longest_call(facts: Facts, begin: Column, issued: Column, launch: Column, late: Column) -> Column:
    """The call right before the launch that takes more than half of the time up to it, -1 for none."""
    calls = facts.calls
    before = np.maximum(launch - 1, 0)
    overlap = np.minimum(calls.end[before], issued) - np.maximum(calls.start[before], begin)
    same = (launch > 0) & (calls.thread[before] == calls.thread[launch])
    good = late & same & (overlap * 2 > issued - begin) & (issued - begin > 5_000)
    return np.where(good, before, -1)


def check(facts: Facts) -> Iterator[Finding]:
    """Findings about idle time."""
    found = gaps(facts)
    yield from _after_waits(facts, found)
    yield from _launching(facts, found)
    yield from _in_calls(facts, found)
    yield from _host(facts, found)
    yield from _starved(facts, found)
    yield from _low_chunks(facts)
    yield from _full_queue(facts)


def _worth(facts: Facts, cost: int) -> bool:
    return cost >= LEAST_SHARE * facts.length * max(len(facts.busy), 1)


def _per_device(facts: Facts, cost: int) -> int:
    """Idle time summed over devices, as wall-clock time: the mean over the devices."""
    return cost // max(len(facts.busy), 1)


def _after_waits(facts: Facts, found: Gaps) -> Iterator[Finding]:
    """Rule of nsys of synchronising APIs, with what they really cost."""
    waits = facts.waits
    inside = (waits.end >= facts.window[0]) & (waits.start < facts.window[1])
    for copy in (False, True):
        chosen = np.flatnonzero((found.cause == AFTER_WAIT) & (waits.copy[np.maximum(found.wait, 0)] == copy)
                                ) if len(waits) else np.zeros(0, np.int64)  # fmt: skip
        cost = int((found.end - found.begin)[chosen].sum())
        cost = min(cost, _avoidable(facts) * max(len(facts.busy), 1)) if not copy else cost
        if not len(chosen) or not _worth(facts, cost):
            continue
        used = found.wait[chosen]
        name = _most(waits.function, waits.code[used], (found.end - found.begin)[chosen])
        count = int((inside & (waits.copy == copy)).sum())
        stack = facts.common_stack(waits.stack[used])
        where = facts.stack_text(stack)
        how = f" ({_often(facts, count)})" if facts.steady else ""
        what = (
            f"{name} makes the host wait for the GPU {count:,} times{how}, and the GPU then waits for the host"
            if not copy
            else f"{name} blocks the host until its copy is done, {count:,} times{how}, and the GPU then waits for the host"
        )
        advice = _WAIT_ADVICE[facts.opencl]
        yield Finding(
            "warning", what, {"waits": count, "gaps": len(chosen), "function": name},
            "waits/copy" if copy else "waits/synchronise", _per_device(facts, cost),
            _examples(facts, found, chosen, where), advice,
        )  # fmt: skip


#: By whether the work is OpenCL's.
_WAIT_ADVICE = {
    False: (
        "Remove the wait, or wait only where the result is needed: launch the next step first, use events or non_blocking "
        "copies, and read losses every n steps instead of every one (.item(), .cpu() and print wait too)."
    ),
    True: (
        "Remove the wait, or wait only where the result is needed: enqueue the next step first, read without blocking and wait "
        "for the event later, and map instead of copying."
    ),
}
_LAUNCH_ADVICE = {
    False: (
        "Launch less: capture the loop in a CUDA graph (torch.cuda.graph, torch.compile(mode='reduce-overhead')), fuse "
        "elementwise operators (torch.compile), use foreach or fused optimisers, or give each launch more work (larger batch)."
    ),
    True: "Launch less: fuse kernels, give each more work, or record the loop into a command buffer (cl_khr_command_buffer).",
}


def _avoidable(facts: Facts) -> int:
    """What not waiting could save at most: the loop then takes as long as the busier of host and device."""
    waits = facts.waits
    waiting = intervals.clipped(intervals.union(waits.start, waits.end), *facts.window).total
    busiest = max((b.total for b in facts.busy.values()), default=0)
    return max(facts.length - max(busiest, facts.length - waiting), 0)


def _often(facts: Facts, count: int) -> str:
    turns = sum(int(one.steady.sum()) for one in facts.iterations)
    each = count / max(turns, 1)
    return (
        f"{each:.0f} times per iteration"
        if each >= 1.5
        else "once per iteration"
        if each >= 0.67
        else f"in every {1 / each:.0f}th iteration"
    )


def _launching(facts: Facts, found: Gaps) -> Iterator[Finding]:
    """Kernels that are shorter than what it takes to launch them."""
    chosen = np.flatnonzero(
        (found.cause == LAUNCHING) | ((found.cause == LATENCY) & (found.end - found.begin <= LAUNCH_GAP))
    )
    cost = int((found.end - found.begin)[chosen].sum())
    if not _worth(facts, cost):
        return
    work = facts.work
    kernels = np.flatnonzero(facts.inside & (work.kind <= COMMUNICATION))
    if len(kernels) < 10:
        return
    duration = (work.end - work.start)[kernels]
    usual, gap = float(np.median(duration)), float(np.median((found.end - found.begin)[chosen]))
    called = facts.call[kernels]
    called = called[called >= 0]
    call_time = float(np.median((facts.calls.end - facts.calls.start)[called])) if len(called) else 0.0
    stack = facts.common_stack(work.stack[kernels])
    text = (
        f"launch-bound: {len(kernels):,} kernels of {words.duration(usual)} (median) with {words.duration(gap)} between them; "
        f"launching a kernel takes the host longer than running it"
        if usual <= gap * 2
        else f"{words.duration(gap)} pass between kernels of {words.duration(usual)} (medians): they are launched one by one"
    )
    advice = _LAUNCH_ADVICE[facts.opencl]
    evidence = (
        f"median launch call {words.duration(call_time)} on the host",
        *((f"most kernels are launched by {facts.stack_text(stack)}",) if stack else ()),
    )
    bound = usual <= gap * 2 or cost >= 0.05 * facts.length
    yield Finding(
        "warning" if bound else "note", text, {"kernels": len(kernels), "median": usual, "gap": gap, "gaps": len(chosen)},
        "launches/launch-bound",
        _per_device(facts, cost), evidence, advice,
    )  # fmt: skip


def _in_calls(facts: Facts, found: Gaps) -> Iterator[Finding]:
    """Calls of the API, other than waits, that kept the host from launching: allocation, loading of code."""
    chosen = np.flatnonzero(found.cause == IN_CALL)
    code = facts.calls.function[found.call[chosen]] if len(chosen) else chosen
    for one in np.unique(code).tolist():
        mine = chosen[code == one]
        cost = int((found.end - found.begin)[mine].sum())
        if not _worth(facts, cost):
            continue
        name = facts.calls.functions[int(one)]
        text = f"the GPU waits while the host is in {name} ({len(mine):,} times)"
        advice = _CALL_ADVICE.get(_family(name), "Move the call out of the loop, or to another thread.")
        yield Finding("warning", text, {"function": name, "gaps": len(mine)}, f"calls/{_family(name)}", _per_device(facts, cost),
                      _examples(facts, found, mine, ""), advice)  # fmt: skip


_CALL_ADVICE = {
    "allocation": "Allocate before the loop or from a pool (cudaMallocAsync, a caching allocator): these calls wait for the GPU.",
    "loading": "Load code before the loop: run a warm-up step, or set CUDA_MODULE_LOADING=EAGER.",
    "graph": "Instantiate graphs once and update or replay them.",
    "launch": "The launch itself takes long: its queue is full, or its code is loaded on first use; launch graphs.",
    "copy": "Copies from ordinary memory are staged by the host: use pinned memory.",
}


def _family(name: str) -> str:
    for part, family in (("Malloc", "allocation"), ("MemAlloc", "allocation"), ("Free", "allocation"),
                         ("HostAlloc", "allocation"),
                         ("HostRegister", "allocation"), ("Module", "loading"), ("Library", "loading"), ("Graph", "graph"),
                         ("Launch", "launch"), ("Memcpy", "copy"), ("Memset", "copy")):  # fmt: skip
        if part in name:
            return family
    return "other"


def _host(facts: Facts, found: Gaps) -> Iterator[Finding]:
    """The launching thread's own code kept the GPU waiting: data loading, or other work in Python."""
    chosen = np.flatnonzero(found.cause == HOST)
    cost = int((found.end - found.begin)[chosen].sum())
    if not len(chosen) or not _worth(facts, cost):
        return
    what, evidence, loading = _doing(facts, found, chosen)
    count = len(chosen)
    if loading:
        text = f"data loading: the GPU waits {count:,} times while the thread that launches kernels prepares data{what}"
        advice = (
            "Prepare batches in other processes (DataLoader num_workers, prefetch_factor, persistent_workers), decode on the "
            "GPU, cache decoded data, or store it in a form that needs no decoding."
        )
    else:
        text = f"the GPU waits {count:,} times for the host's own code{what}"
        advice = (
            "Move this work to another thread or process, do it while the GPU is busy, or do it less often."
        )
    text += f": {words.duration(np.median((found.end - found.begin)[chosen]))} each (median)"
    rule = "host/data-loading" if loading else "host/busy"
    yield Finding("warning", text, {"gaps": count}, rule, _per_device(facts, cost),
                  (*evidence, *_examples(facts, found, chosen, "")), advice)  # fmt: skip


def _doing(facts: Facts, found: Gaps, chosen: Column) -> tuple[str, tuple[str, ...], bool]:
    """What the host did in gaps: by its samples, else by its ranges; text, evidence, and whether it was data loading."""
    stacks, counts = _sampled(facts, found, chosen)
    if len(stacks):
        frames = facts.trace.stacks(stacks.tolist())
        total = int(counts.sum())
        loading = sum(n for s, n in zip(stacks.tolist(), counts.tolist(), strict=True)
                      if any(_LOADING.search(f) for f in frames.get(s, ()) ))  # fmt: skip
        by_frame: dict[str, int] = {}
        for s, n in zip(stacks.tolist(), counts.tolist(), strict=True):
            text = user_frames(frames.get(s, ()), 1) or "no Python frame"
            by_frame[text] = by_frame.get(text, 0) + n
        ranked = sorted(by_frame.items(), key=lambda item: -item[1])
        evidence = tuple(f"{n / total:.0%} of {total} samples in {text}" for text, n in ranked[:3])
        return f", mostly in {ranked[0][0]}", evidence, loading * 2 >= total
    names = _announced(facts, found, chosen)
    if names:
        return f", mostly in {names[0]!r}", (), any(_LOADING.search(name) for name in names[:2])
    return "", (), False


def _sampled(facts: Facts, found: Gaps, chosen: Column) -> tuple[Column, Column]:
    """Stacks that the launching threads were sampled in during gaps, and how often."""
    none = np.zeros(0, np.int64)
    if not facts.trace.count("sample"):
        return none, none
    begin, end = facts.window
    rows = facts.trace.sql(
        f"""SELECT time, thread, coalesce(stack, 0) AS stack, process FROM sample WHERE time BETWEEN {begin} AND {end}
            ORDER BY time""").fetchnumpy()  # fmt: skip
    time, thread, stack, process = (np.ma.getdata(rows[n]) for n in ("time", "thread", "stack", "process"))
    order = chosen[np.argsort(found.begin[chosen], kind="stable")]
    at = np.searchsorted(found.begin[order], time, side="right") - 1
    gap = order[np.maximum(at, 0)]
    good = (
        (at >= 0)
        & (time < found.issued[gap])
        & (thread == found.thread[gap])
        & (process == found.process[gap])
    )
    values, counts = np.unique(stack[good], return_counts=True)
    return values, counts


def _announced(facts: Facts, found: Gaps, chosen: Column) -> list[str]:
    """Names of the innermost ranges or operators open in the middle of the gaps, the most frequent first."""
    middle = (found.begin[chosen] + found.issued[chosen]) // 2
    for source in ("marker", "op"):
        if not facts.trace.count(source):
            continue
        known = ranges.load(facts.trace, source)
        at = known.at(found.process[chosen], found.thread[chosen], middle)
        ids, counts = np.unique(known.name_id[at[at >= 0]], return_counts=True)
        if len(ids) and counts.sum() * 2 >= len(chosen):
            names = dict(facts.trace.sql("SELECT id, name FROM name").fetchall())
            return [names.get(int(i), "?") for i in ids[np.argsort(-counts, kind="stable")][:3]]
    return []


def _starved(facts: Facts, found: Gaps) -> Iterator[Finding]:
    """Rule of nsys of GPU starvation: single gaps of more than 500 ms. Their causes are findings of their own."""
    long = np.flatnonzero(found.end - found.begin > STARVATION)
    if len(long):
        longest = int((found.end - found.begin)[long].max())
        text = f"the GPU was idle for more than 500 ms at a stretch {len(long):,} times, {words.duration(longest)} at most"
        yield Finding("note", text, {"gaps": len(long), "longest": longest}, "idle/starvation", None,
                      _examples(facts, found, long, ""))  # fmt: skip


def _low_chunks(facts: Facts) -> Iterator[Finding]:
    """Rule of nsys: chunks of the time in which a GPU was used for less than half; of 30 chunks, as there."""
    edges = intervals.windows(*facts.window, _CHUNKS)
    for device, busy in facts.busy.items() if len(edges) > 1 else ():
        used = np.diff(intervals.measure(busy, edges)) / np.maximum(np.diff(edges), 1)
        low = np.flatnonzero(used < _LOW)
        if not 0 < len(low) <= _CHUNKS // 2:  # a GPU that is idle throughout has a finding with a cause
            continue
        worst = int(low[np.argmin(used[low])])
        at = words.duration(int(edges[worst]) - facts.origin)
        text = (
            f"GPU {device} is used for less than half of the time in {len(low)} of {len(used)} stretches of "
            f"{words.duration(int(edges[1] - edges[0]))}, least in the one from {at} on ({used[worst]:.0%})"
        )
        values = {"device": device, "chunks": len(low), "least": float(used[worst])}
        yield Finding("note", text, values, "idle/low-chunks")


def _full_queue(facts: Facts) -> Iterator[Finding]:
    """The host was held in launch calls because the launch queue was full: the device is the bottleneck, as it should be."""
    work = facts.work
    rows = np.flatnonzero(facts.inside & (work.kind <= COMMUNICATION))
    called = facts.call[rows]
    launched = np.zeros(len(facts.calls), bool)
    launched[called[called >= 0]] = True  # a graph's kernels share a call
    called = np.flatnonzero(launched)
    if len(called) < 100:
        return
    length = facts.calls.end[called] - facts.calls.start[called]
    usual = float(np.median(length))
    held = length > max(10 * usual, 50_000)
    time = int(length[held].sum())
    if time < 0.1 * facts.length:
        return
    share = time / facts.length
    text = f"the host is held in {int(held.sum()):,} launch calls for {share:.0%} of the time: the launch queue is full"
    yield Finding("note", text, {"calls": int(held.sum()), "time": time}, "launches/queue-full", None, (),
                  "The device is the bottleneck: make kernels faster, not launches.")  # fmt: skip


def _examples(facts: Facts, found: Gaps, chosen: Column, where: str) -> tuple[str, ...]:
    lengths = (found.end - found.begin)[chosen]
    near = np.arange(len(lengths))
    if len(lengths) > 2:  # of a million gaps only the candidates are sorted
        near = np.flatnonzero(lengths >= np.partition(lengths, -2)[-2])
    order = chosen[near[np.argsort(-lengths[near], kind="stable")]]
    out = [f"called by {where}"] if where else []
    origin = facts.origin
    for one in order[:2].tolist():
        length = int(found.end[one] - found.begin[one])
        out.append(f"idle for {words.duration(length)} at {(found.begin[one] - origin) / 1e9:.6f} s")
    return tuple(out)


def _most(names: list[str], code: Column, weight: Column) -> str:
    total = summed(code.astype(np.int64), weight, len(names))
    return names[int(np.argmax(total))]
