"""Why a dump's kernels do not continue, in sentences: first lanes that wait for no one, then those that wait for them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from warpsight.debug.gpucore.code import Code
from warpsight.debug.gpucore.groups import SourceSite
from warpsight.debug.gpucore.lane_map import LaneMap
from warpsight.debug.gpucore.lane_registers import LaneRegisters
from warpsight.debug.gpucore.lane_words import Subject, block_name, subject
from warpsight.debug.gpucore.layout import Kind
from warpsight.debug.gpucore.waiting.graph import BLOCKED, Edge, WaitGraph
from warpsight.debug.gpucore.waiting.instructions import WarpWait
from warpsight.debug.gpucore.waiting.mbarrier import MbarrierState
from warpsight.debug.gpucore.waiting.polled import Polled, polled_of
from warpsight.device_code.debug_info.inline_chain import Frame
from warpsight.device_code.demangle import short

#: Headers of the toolkit and of CUDA's C++ libraries: the calling line is more informative.
_LIBRARY = re.compile(
    r"/(targets/[^/]+|cuda[^/]*|nvidia/[^/]+)/include/|/(cooperative_groups|cuda/std|cub|thrust)/"
)
_MOST_CALLERS = 3
#: Maximum warps whose polled addresses are read.
_MOST_WARPS = 1024


@dataclass(frozen=True)
class Statement:
    """One sentence about a place.

    Attributes:
        place: its index; text: the sentence, without a full stop.
        why: the reason if it waits for no one, else None; see :data:`~warpsight.debug.gpucore.waiting.graph.REASONS`.
        waits_for: the places it waits for.
    """

    place: int
    text: str
    why: str | None
    waits_for: tuple[Edge, ...]


def statements(lanes: LaneMap, places: Sequence[SourceSite], graph: WaitGraph, code: Code) -> list[Statement]:
    """A sentence for each place, in the order of the graph. Sentences are numbered from 1 and refer to each other by number."""
    return _Writer(lanes, places, graph, code).statements()


class _Writer:
    def __init__(self, lanes: LaneMap, places: Sequence[SourceSite], graph: WaitGraph, code: Code) -> None:
        self.lanes, self.places, self.graph, self.code = lanes, places, graph, code
        self.number = {place: at for at, place in enumerate(graph.order, 1)}
        self.lines = lines(places, code)
        self.several = len({place.grid for place in places}) > 1

    def statements(self) -> list[Statement]:
        found = []
        for place in self.graph.order:
            edges = tuple(edge for edge in self.graph.edges if edge.waiter == place)
            why = self.graph.why.get(place)
            if not self.lanes.at([place]).any():
                text = f"{self.places[place].lanes:,} lanes of no known block {self.lines[place]}"
            else:
                text = self._waiting(place, edges) if edges else self._root(place, why or "passing")
            found.append(Statement(place, text, why, edges))
        return found

    def _subject_at(self, place: int) -> Subject:
        who = subject(self.lanes, self.lanes.at([place]))
        if not self.several:
            return who
        return Subject(f"{who.text} of {short(self.code.grid_name(self.places[place].grid))}", who.plural)

    def _root(self, place: int, why: str) -> str:
        """Explain a place that waits for nobody."""
        who, where, wait = self._subject_at(place), self.lines[place], self.places[place].wait
        what = wait.text if wait else ""
        if why == "runs":
            return f"{who.text} {who.verb('runs', 'run')} {where}"
        if why == "ready":
            return f"{who.text} could run {where}, while {who.verb('its warp runs', 'their warps run')} other lanes"
        if why in ("memory", "shared memory"):
            return f"{who.text} {who.verb('spins', 'spin')} on {what} {where}{self._value(place)}"
        if why == "sleep":
            return f"{who.text} {who.verb('sleeps', 'sleep')} {where} (nanosleep)"
        if why == "passing":
            return f"{who.text} {who.verb('has', 'have')} passed {what} {where}, and {who.verb('is', 'are')} about to go on"
        waits = f"{who.text} {who.verb('waits', 'wait')} {where} for {what}"
        if why == "count":
            nobody = (
                ", which no thread is left to complete"
                if self.graph.counts[place].others != "may wait"
                else ""
            )
            return f"{waits}{nobody}: {self._count(place)}"
        return waits + self._mbarrier(place)

    def _waiting(self, place: int, edges: tuple[Edge, ...]) -> str:
        """A place that waits for others."""
        who, where, wait = self._subject_at(place), self.lines[place], self.places[place].wait
        numbers = sorted(self.number[edge.holder] for edge in edges)
        certain = any(edge.certain for edge in edges)
        alone = numbers == [1] and self.number[place] == 2 and self.graph.why.get(place) is None
        first = self._subject_at(self.graph.order[0])
        holders = first.verb("it", "them") if alone else _list([f"({number})" for number in numbers])
        verb = who.verb("waits", "wait") if certain else "may wait"
        state = self._mbarrier(place) if wait and wait.kind == "mbarrier" else ""
        return f"{who.text} {verb} for {holders} {where}{_needed(wait)}{state}{self._circle(place)}"

    def _circle(self, place: int) -> str:
        """The sentence that closes a cycle, for its last place."""
        for circle in self.graph.circles:
            numbers = sorted(self.number[one] for one in circle)
            if self.number[place] == numbers[-1] and place in circle:
                return f"; {_list([f'({number})' for number in numbers])} wait for each other"
        return ""

    def _value(self, place: int) -> str:
        """What a polling loop reads: the address and the value of one lane, or where the warps read if these differ."""
        found = polled_at(self.lanes, self.places[place])
        if found is None or found.address is None:
            return ""
        several = _polled_by_warps(self.lanes, place, self.code)
        if len(several) > 1:
            named = ", ".join(
                f"{address:#x} ({block})" for address, block in list(several.items())[:_MOST_CALLERS]
            )
            more = f" and {len(several) - _MOST_CALLERS} more" if len(several) > _MOST_CALLERS else ""
            value = "" if found.value is None else f"; the first lane last read {found.value:#x}"
            return f"; they read {len(several):,} addresses: {named}{more}{value}"
        first = "it" if self.places[place].lanes == 1 else "its first lane"
        if found.value is None:
            return f"; {first} reads {found.address:#x}"
        return f"; {first} last read {found.value:#x} from {found.address:#x}"

    def _count(self, place: int) -> str:
        count = self.graph.counts[place]
        if count.needed > -(-count.threads // 32) * 32:
            return f"it counts {count.needed} threads, and the block has {count.threads}"
        parts = [f"{count.arrived} of {count.needed} threads wait there"]
        if count.silent:
            parts.append("others may have arrived without waiting")
        if count.exited:
            exited = "thread has" if count.exited == 1 else "threads have"
            parts.append(f"{count.exited} of the block's {count.threads} {exited} exited")
        if count.others:
            parts.append(
                f"the {'others' if count.exited else 'other threads of the block'} {count.others} for these"
            )
        return ", ".join(parts)

    def _mbarrier(self, place: int) -> str:
        state = self.graph.mbarriers.get(place)
        busy = self._others_that_run(place)
        waits = "" if busy else ", and every thread of the block waits"
        if state is None:
            return waits
        blocks = self.lanes.block[self.lanes.at([place])]
        of = f" in {block_name(self.lanes, int(blocks[0]))}" if len(set(blocks.tolist())) > 1 else ""
        return f", of which{of} {missing(state)}{waits}"

    def _others_that_run(self, place: int) -> bool:
        """Whether a thread of the same cluster is doing something other than waiting for other threads."""
        clusters = self.lanes.cluster[self.lanes.block]
        near = self.lanes.sharing(clusters, self.lanes.at([place]))
        numbers = set(self.lanes.place[near].tolist())
        waits = [self.places[number].wait for number in numbers]
        return any(wait is None or wait.kind not in BLOCKED for wait in waits)


def missing(state: MbarrierState) -> str:
    """The arrivals still missing from a phase of an mbarrier."""
    parts = []
    if state.pending:
        parts.append(f"{state.pending:,} of {state.expected:,} arrivals")
    if state.missing_bytes > 0:
        parts.append(f"{state.missing_bytes:,} bytes of asynchronous copies")
    several = state.pending > 1 or state.missing_bytes > 1 or len(parts) > 1
    text = f"{' and '.join(parts)} {'are' if several else 'is'} missing" if parts else "nothing is missing"
    if state.missing_bytes < 0:
        text += f"; {-state.missing_bytes:,} bytes more than announced have arrived"
    return text


def polled_at(lanes: LaneMap, place: SourceSite) -> Polled | None:
    """The memory polled by the first lane of a place."""
    if place.wait is None or place.wait.poll is None or place.wait.kind != "memory":
        return None
    example = place.groups[0].example
    at = lanes.row.searchsorted(example)
    if at >= len(lanes.row) or lanes.row[at] != example:
        return None
    return polled_of(lanes.core, place.wait.poll, LaneRegisters(lanes.core, example, int(lanes.warp[at])))


def _polled_by_warps(lanes: LaneMap, place: int, code: Code) -> dict[int, str]:
    """The addresses that the first lanes of a place's warps poll, and the block that reads each; for the first few warps only."""
    mine = np.flatnonzero(lanes.at([place]))
    _, first = np.unique(lanes.warp[mine], return_index=True)
    found: dict[int, str] = {}
    for at in mine[np.sort(first)][:_MOST_WARPS].tolist():
        row = int(lanes.row[at])
        polling = code.polling(int(lanes.core.table(Kind.LANES).rows["pc"][row]))
        registers = LaneRegisters(lanes.core, row, int(lanes.warp[at]))
        one = polled_of(lanes.core, polling.poll if polling else None, registers)
        if one is not None and one.address is not None:
            found.setdefault(one.address, block_name(lanes, int(lanes.block[at])))
    return found


def _needed(wait: WarpWait | None) -> str:
    """What lanes that wait for others are waiting for, to follow their place in the sentence."""
    if wait is None:
        return ""
    if wait.kind in ("warp", "reconvergence"):
        return ", at a barrier of the warp" if wait.kind == "warp" else ", to reconverge"
    return f", polling {wait.text}" if wait.kind == "memory" else f", at {wait.text}"


def _list(words: list[str]) -> str:
    if len(words) > _MOST_CALLERS + 1:
        return f"{', '.join(words[:_MOST_CALLERS])} and {len(words) - _MOST_CALLERS} more"
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def lines(places: Sequence[SourceSite], code: Code) -> list[str]:
    """The line of each place, `at f.cu:12`, with callers if other places share the line."""
    chains = [_own_frames(place) for place in places]
    found = []
    for place, chain in zip(places, chains, strict=True):
        if not chain:
            found.append(f"at {_without_lines(place, code)}")
            continue
        depth = 1
        alike = [other for other in chains if other is not chain and _places(other, 1) == _places(chain, 1)]
        while depth < min(len(chain), _MOST_CALLERS) and any(
            other != chain and _places(other, depth) == _places(chain, depth) for other in alike
        ):
            depth += 1
        found.append(f"at {', called at '.join(_places(chain, depth))}")
    return found


def _places(chain: Sequence[Frame], depth: int) -> list[str]:
    return [f"{os.path.basename(frame.file)}:{frame.line}" for frame in chain[:depth]]


def _own_frames(place: SourceSite) -> tuple[Frame, ...]:
    """The frames of a place without the innermost ones from the toolkit's headers."""
    frames = place.chain.frames if place.chain else ()
    for at, frame in enumerate(frames):
        if not _LIBRARY.search(frame.file):
            return frames[at:]
    return frames


def _without_lines(place: SourceSite, code: Code) -> str:
    location = code.locate(place.address)
    return f"{short(location.function)} + {location.offset:#x}" if location else f"{place.address:#x}"
