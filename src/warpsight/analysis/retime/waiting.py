"""The waits of threads: calls that end with device work, and threads that continue after another thread."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.path import dependencies as path
from warpsight.analysis.path.host import waits_implicitly
from warpsight.analysis.retime import usual
from warpsight.analysis.retime.program import Program
from warpsight.model.work import values_in

Column = npt.NDArray[Any]
#: Defaults if a trace shows none (ns): from the end of the awaited work to the end of the call, and a wait for nothing.
_WAKE, _OWN = 5_000, 2_000
#: A stream waited for another stream's work that ended at most this long before (ns); longer if it was held up.
_RIGHT_AFTER, _TIMES = 10_000, 10
#: A thread's own code may be an unrecorded wait if it is at least this long (ns); the share of it left when the device has
#: finished; how often this must happen, and in what share of the stretches during which the device finished.
_SILENT, _REST, _OFTEN, _NEARLY_ALL = 50_000, 0.25, 3, 0.8
#: Minimum calls that a thread makes while another waits for it: fewer may be a coincidence.
_CALLS = 4


def with_waits(program: Program) -> Program:
    """The program in which waiting calls end with the work they waited for, and threads wait for each other."""
    return _with_handovers(_with_silent_waits(_with_host_waits(_with_stream_waits(program))))


def _with_stream_waits(program: Program) -> Program:
    """Work that began right after work of another stream, and before whose launch its thread made some stream wait.

    For files that do not say which event a stream waits for. What is not explained otherwise (`delay`) is taken back.
    """
    graph = program.graph
    late = after_stream_waits(program)
    if not len(late):
        return program
    work = np.flatnonzero(graph.kind != path.WAIT)
    order = work[np.argsort(graph.end[work], kind="stable")]
    at = np.searchsorted(graph.end[order], graph.start[late], "right") - 1
    source = order[np.maximum(at, 0)]
    after = graph.start[late] - graph.end[source]
    near = np.clip(program.delay[late] // 10, _RIGHT_AFTER, _TIMES * _RIGHT_AFTER)
    good = (at >= 0) & (after <= near) & (graph.queue[source] != graph.queue[late])
    late, source, after = late[good], source[good], after[good]
    delay = program.delay.copy()
    delay[late] = 0
    links = program.links.joined(program.base + source, program.base + late, after, path.EVENT)
    return program.but(delay=delay, links=links)


def after_stream_waits(program: Program) -> Column:
    """Delayed nodes whose thread, between the previous launch and theirs, made some stream wait."""
    graph, thread = program.graph, program.graph.by_thread.thread
    waits = np.array([name.endswith("StreamWaitEvent") for name in graph.calls.functions] + [False], bool)
    function = graph.calls.function[graph.by_thread.call]
    late = np.flatnonzero((program.delay > 0) & (program.place >= 0))
    if not len(late) or not len(function) or not waits[function].any():
        return late[:0]
    count = np.cumsum(np.r_[0, waits[function]])
    launches = np.zeros(len(function), bool)
    launches[program.place[program.place >= 0]] = True
    before = np.r_[0, np.maximum.accumulate(np.where(launches, np.arange(len(function)), 0))[:-1]]
    place = program.place[late]
    since = np.maximum(
        before[place], np.searchsorted(thread, thread[place])
    )  # calls are in the order of their threads
    told: Column = late[count[place] > count[since]]
    return told


def _with_host_waits(program: Program) -> Program:
    graph, base = program.graph, program.base
    source, target, kind = graph.edges
    chosen = np.flatnonzero((kind == path.SYNC) | (kind == path.BLOCKING))
    if not len(chosen):
        return program
    node, point = source[chosen].astype(np.int64), target[chosen].astype(np.int64)
    time = graph.time
    ended, begun, returned = time[node], time[point - 1], time[point]
    function = graph.calls.function[graph.by_thread.call[point >> 1]].astype(np.int64)
    last = _last_of_each(point, ended)
    waited = ended > begun
    wake = usual.by_code(returned - ended, function, last[waited[last]], len(graph.calls.functions), _WAKE)
    gap = np.minimum(wake[function], returned - ended)
    gap[last] = np.where(waited[last], (returned - ended)[last], gap[last])
    lag, after = program.lag.copy(), program.after.copy()
    lag[point[last]] = _own_costs(program, point[last], waited[last], function[last])
    # A call's way of waiting, such as polling the driver, lasts as long as the wait.
    lag[inside(program, _only_waiting(program, point[last][waited[last]]))] = 0
    # Calls such as cudaFree wait first and work then.
    implicit = np.array([waits_implicitly(name) for name in graph.calls.functions], bool)[function[last]]
    late = last[implicit]
    after[point[late]] = returned[late] - np.maximum(begun[late], np.minimum(ended[late], returned[late]))
    lag[point[late]] = np.maximum(begun[late] - time[np.maximum(program.before[point[late]], 0)], 0)
    sequential = np.isin(point, point[late])
    gap[sequential] = np.minimum(0, gap[sequential])
    links = program.links.joined(node, point, gap, path.SYNC)
    kinds = links.kind.copy()
    kinds[len(program.links) :] = kind[chosen]
    links = type(links)(links.source, links.target, links.lag, kinds)
    assert (node >= base).all()
    return program.but(lag=lag, after=after, links=links)


def _with_silent_waits(program: Program) -> Program:
    """Threads of recordings without any wait whose own code, again and again, ends soon after the device has: it waited.

    JAX's recordings have launches and Python functions, but do not show the wait inside `block_until_ready`:

        thread    launch launch ───── own code ──────── launch        the device ended in the last quarter of the own code
        stream           kernel kernel kernel ───|                    in nearly all such stretches
    """
    graph, base = program.graph, program.base
    _, target, kind = graph.edges
    waits = np.isin(kind, (path.SYNC, path.BLOCKING))
    process = graph.calls.process[graph.by_thread.call]
    told = values_in(process[target[waits] >> 1]) if len(process) else process
    begins = np.arange(0, base, 2)
    length = program.lag[begins]
    silent = (length >= _SILENT) & (program.before[begins] >= 0) & ~np.isin(process, told)
    nodes = np.flatnonzero(program.place >= 0)
    if not silent.any() or not len(nodes):
        return program
    nodes = nodes[np.argsort(program.place[nodes], kind="stable")]
    owner = graph.by_thread.thread
    lag = program.lag.copy()
    links = program.links
    for thread in values_in(owner[silent]).tolist():
        mine = nodes[owner[program.place[nodes]] == thread]
        at = np.flatnonzero(silent & (owner == thread))
        if not len(mine):
            continue
        ended = np.maximum.accumulate(graph.end[mine])
        last = np.maximum.accumulate(np.where(graph.end[mine] == ended, np.arange(len(mine)), 0))
        issued = np.searchsorted(program.place[mine], at) - 1  # the last work issued before the stretch
        at, issued = at[issued >= 0], issued[issued >= 0]
        begun = graph.time[2 * at]
        rest = begun - ended[issued]
        drained = (rest >= 0) & (rest < length[at])
        soon = drained & (rest <= _REST * length[at])
        if int(soon.sum()) < _OFTEN or soon.sum() < _NEARLY_ALL * drained.sum():
            continue
        points = 2 * at[soon].astype(np.int64)
        lag[points] = 0
        links = links.joined(base + mine[last[issued[soon]]], points, rest[soon], path.SYNC)
    return program if links is program.links else program.but(lag=lag, links=links)


def inside(program: Program, ends: Column) -> Column:
    """Points inside calls with these ends, from calls that those make themselves (such as system calls)."""
    sequence = program.graph.sequence
    if sequence is None:  # no call is inside another
        return ends[:0]
    rank = np.empty(len(sequence), np.int64)
    rank[sequence] = np.arange(len(sequence))
    depth = np.zeros(len(sequence) + 1, np.int64)
    np.add.at(depth, rank[ends - 1] + 1, 1)
    np.add.at(depth, rank[ends], -1)
    found: Column = sequence[np.cumsum(depth)[:-1] > 0]
    return found


def _only_waiting(program: Program, ends: Column) -> Column:
    """Those of some ends whose calls launch nothing."""
    launched = np.zeros(program.base + 1, np.int64)
    launched[2 * program.place[program.place >= 0].astype(np.int64) + 1] = 1
    sequence = program.graph.sequence
    if sequence is None:
        return ends
    rank = np.empty(len(sequence), np.int64)
    rank[sequence] = np.arange(len(sequence))
    before = np.cumsum(np.r_[0, launched[sequence]])
    only: Column = ends[before[rank[ends]] == before[rank[ends - 1] + 1]]
    return only


def _last_of_each(group: Column, time: Column) -> Column:
    """Indices of the latest of each group."""
    order = np.lexsort((time, group))
    out: Column = order[np.r_[group[order][1:] != group[order][:-1], True]]
    return out


def _own_costs(program: Program, point: Column, waited: Column, function: Column) -> Column:
    """The time that calls ending at these points take besides waiting: all of it if they did not wait."""
    time = program.graph.time
    length = time[point] - time[point - 1]
    free = np.flatnonzero(~waited)
    least = int(min(length.min(initial=_OWN), _OWN))
    own = usual.by_code(length, function, free, int(function.max(initial=0)) + 1, least)
    out: Column = np.where(waited, np.minimum(own[function], program.lag[point]), program.lag[point])
    return out


def _with_handovers(program: Program) -> Program:
    """Threads that continue when another thread lets them; their own code in between is assumed to take no time."""
    source, target, kind = program.graph.edges
    chosen = np.flatnonzero(kind == path.HANDOVER)
    if not len(chosen):
        return program
    one, two = source[chosen].astype(np.int64), target[chosen].astype(np.int64)
    time = program.graph.time
    kept = _working_meanwhile(program, one, two)
    one, two = one[kept], two[kept]
    lag, before = program.lag.copy(), program.before.copy()
    first = before[two] < 0
    before[two[first]] = one[first]  # a thread that begins
    lag[two] = np.where(first, time[two] - time[one], 0)
    one, two = one[~first], two[~first]
    links = program.links.joined(one, two, time[two] - time[one], path.HANDOVER)
    return program.but(lag=lag, before=before, links=links)


def _working_meanwhile(program: Program, source: Column, target: Column) -> Column:
    """Which handovers are more than chance: the two threads take turns.

    The source's thread made some calls while the target's was silent, and was silent before while that one made some:

        target's thread   call call call call ─────────── silent ─────────── target
        source's thread   ──────── silent ─────────  call call call source
    """
    time, owner = program.graph.time, program.graph.by_thread.thread
    before = program.before[target]
    silent = time[np.maximum(before, 0)]
    bounds = np.searchsorted(owner, np.arange(int(owner.max(initial=-1)) + 2))
    begins = time[0 : program.base : 2]
    out = before < 0
    pairs = owner[source >> 1].astype(np.int64) * len(bounds) + owner[target >> 1]
    for pair in values_in(pairs).tolist():
        mine = np.flatnonzero((pairs == pair) & ~out)
        (a, b), (c, d) = (bounds[one : one + 2].tolist() for one in divmod(pair, len(bounds)))
        theirs, own = np.maximum.accumulate(begins[a:b]), np.maximum.accumulate(begins[c:d])
        first = np.searchsorted(theirs, silent[mine])
        meanwhile = (source[mine] >> 1) - a - first + 1
        earlier = np.where(first > 0, theirs[np.maximum(first - 1, 0)], own[0])
        ahead = np.searchsorted(own, silent[mine], "right") - np.searchsorted(own, earlier)
        out[mine] = (meanwhile >= _CALLS) & (ahead >= _CALLS)
    return out
