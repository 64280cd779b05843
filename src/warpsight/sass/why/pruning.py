"""Prunes an instruction's possible dependencies to those it can have waited for.

GPA prunes by the class of the producer, by barrier indices, and by paths whose issue cycles cover the producer's latency. Here
the scheduling fields decide first: a stalled instruction waits only for scoreboard barriers in its own wait mask and for the
stall counts before it. The following rules apply in order; a rule that would leave nothing is skipped:

1. **barrier**: for a scoreboard stall, the setters of barriers in the wait mask, as far back as the last wait for the same
   barrier. An index that another instruction has taken over in between is therefore never blamed;
2. **class**: of those, the memory or unit that the reason refers to (long: global, local, texture, mbarriers; short: the
   rest);
3. **need**: those that share a register with the stalled instruction, before those that only share the barrier's counter;
4. **path**: those whose latency exceeds the issue cycles of the shortest path;
5. **last**: of loads from one memory in one block that release one barrier, the last: the others were issued before it.

For a fixed wait, a producer stays if its result would not be ready without the stall of the preceding instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from warpsight.device_code.decoded import Decoded
from warpsight.device_code.flow.flow_graph import FlowGraph
from warpsight.device_code.latencies import fixed_latency, longest_latency
from warpsight.sass.why.dependencies import Dependencies, Producer

_LONG = frozenset(
    {"global", "generic", "local", "texture", "surface", "global to shared", "bulk", "shared to global"}
)
_LONG_OPERATIONS = frozenset({"SYNCS", "LDGDEPBAR", "UTMACMDFLUSH", "CCTL", "MEMBAR", "FENCE"})


def _is_long(one: Decoded) -> bool:
    """Whether waiting for an instruction is a long scoreboard stall."""
    return one.kind.space in _LONG or one.operation in _LONG_OPERATIONS


def all_dependencies(dependencies: Dependencies, index: int) -> list[Producer]:
    """Before pruning: every writer of a register that it reads, and every setter of a barrier that it waits for."""
    found = {one.index: one for one in dependencies.producers(index)}
    found.update({one.index: one for one in dependencies.setters(index)})
    return list(found.values())


def scoreboard_causes(dependencies: Dependencies, index: int, long: bool) -> list[Producer]:
    """The causes of a long or short scoreboard stall at an instruction."""
    graph = dependencies.graph
    found = dependencies.setters(index)
    found = _kept(found, lambda one: _is_long(graph.instructions[one.index]) == long)
    found = _kept(found, lambda one: bool(one.registers))
    found = _kept(found, lambda one: one.cycles < longest_latency(graph.instructions[one.index]))
    return _last_of_each_block(graph, found)


def fixed_causes(dependencies: Dependencies, index: int) -> list[Producer]:
    """The instructions whose latency a stall count covers; empty if it only spaces two issues."""
    graph = dependencies.graph
    waiting = graph.instructions[index]
    found = []
    for one in dependencies.producers(index):
        producer = graph.instructions[one.index]
        if producer.scheduling.write_barrier is not None:
            continue
        held = graph.instructions[index - 1].scheduling.stall if index else 1
        if one.cycles - max(held - 1, 0) < fixed_latency(producer, waiting, one.registers):
            found.append(one)
    nearest = min((one.cycles for one in found), default=0)
    return _kept(found, lambda one: one.cycles == nearest) if len(found) > 1 else found


def _kept(found: list[Producer], wanted: Callable[[Producer], bool]) -> list[Producer]:
    return [one for one in found if wanted(one)] or found


def _last_of_each_block(graph: FlowGraph, found: Sequence[Producer]) -> list[Producer]:
    """Drop loads that are followed in the same block by a later one of the same memory and barrier."""
    last: dict[tuple[int, str, int], Producer] = {}
    for one in found:
        instruction = graph.instructions[one.index]
        key = (graph.block_of[one.index], instruction.kind.space or instruction.operation, one.barriers)
        if key not in last or one.cycles < last[key].cycles:
            last[key] = one
    return sorted(last.values(), key=lambda one: one.cycles)
