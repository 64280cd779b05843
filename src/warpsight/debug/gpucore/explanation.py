"""Why a dump's kernels do not go on, in sentences: what waits for nobody first, then what waits for it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from warpsight.debug.gpucore.code import Code
from warpsight.debug.gpucore.groups import Place
from warpsight.debug.gpucore.lane_map import LaneMap
from warpsight.debug.gpucore.lane_registers import LaneRegisters
from warpsight.debug.gpucore.lane_words import Subject, subject
from warpsight.debug.gpucore.layout import Kind
from warpsight.debug.gpucore.mbarrier import MbarrierState
from warpsight.debug.gpucore.polled import Polled, polled
from warpsight.debug.gpucore.wait_graph import BLOCKED, Edge, WaitGraph
from warpsight.debug.gpucore.waits import Wait
from warpsight.device_code.demangle import short
from warpsight.device_code.inline_chain import Frame

#: Headers of the toolkit and of CUDA's C++ libraries: the line that called them says more.
_LIBRARY = re.compile(
    r"/(targets/[^/]+|cuda[^/]*|nvidia/[^/]+)/include/|/(cooperative_groups|cuda/std|cub|thrust)/"
)
_MOST_CALLERS = 3


@dataclass(frozen=True)
class Statement:
    """One sentence about a place.

    Attributes:
        place: its index; text: the sentence, without a full stop.
        why: the reason when it waits for nobody, else None; see :data:`~warpsight.debug.gpucore.wait_graph.REASONS`.
        waits_for: the places it waits for.
    """

    place: int
    text: str
    why: str | None
    waits_for: tuple[Edge, ...]


def statements(lanes: LaneMap, places: Sequence[Place], graph: WaitGraph, code: Code) -> list[Statement]:
    """A sentence for each place, in the order of the graph. Sentences are numbered from 1 and name each other by number."""
    return _Writer(lanes, places, graph, code).statements()


class _Writer:
    def __init__(self, lanes: LaneMap, places: Sequence[Place], graph: WaitGraph, code: Code) -> None:
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

    def _who(self, place: int) -> Subject:
        who = subject(self.lanes, self.lanes.at([place]))
        if not self.several:
            return who
        return Subject(f"{who.text} of {short(self.code.grid_name(self.places[place].grid))}", who.plural)

    def _root(self, place: int, why: str) -> str:
        """A place that waits for nobody."""
        who, where, wait = self._who(place), self.lines[place], self.places[place].wait
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
            return f"{waits}, which nobody is left to complete: {self._count(place)}"
        return waits + self._mbarrier(place)

    def _waiting(self, place: int, edges: tuple[Edge, ...]) -> str:
        """A place that waits for others."""
        who, where, wait = self._who(place), self.lines[place], self.places[place].wait
        numbers = sorted(self.number[edge.holder] for edge in edges)
        certain = any(edge.certain for edge in edges)
        alone = numbers == [1] and self.number[place] == 2 and self.graph.why.get(place) is None
        first = self._who(self.graph.order[0])
        holders = first.verb("it", "them") if alone else _list([f"({number})" for number in numbers])
        verb = who.verb("waits", "wait") if certain else "may wait"
        state = self._mbarrier(place) if wait and wait.kind == "mbarrier" else ""
        return f"{who.text} {verb} for {holders} {where}{_needed(wait)}{state}{self._circle(place)}"

    def _circle(self, place: int) -> str:
        """Behind the last place of a circle: that it is one."""
        for circle in self.graph.circles:
            numbers = sorted(self.number[one] for one in circle)
            if self.number[place] == numbers[-1] and place in circle:
                return f"; {_list([f'({number})' for number in numbers])} wait for each other"
        return ""

    def _value(self, place: int) -> str:
        """What a polling loop reads: the address and the value of one lane."""
        found = polled_at(self.lanes, self.places[place])
        if found is None or found.address is None:
            return ""
        first = "it" if self.places[place].lanes == 1 else "its first lane"
        if found.value is None:
            return f"; {first} reads {found.address:#x}"
        return f"; {first} last read {found.value:#x} from {found.address:#x}"

    def _count(self, place: int) -> str:
        count = self.graph.counts[place]
        if count.needed > -(-count.threads // 32) * 32:
            return f"it counts {count.needed} threads, and the block has {count.threads}"
        exited = f"{count.exited} of the block's {count.threads} threads have exited" if count.exited else (
            f"the block's other threads cannot make up {count.needed}")  # fmt: skip
        return f"{count.arrived} of {count.needed} threads are there, and {exited}"

    def _mbarrier(self, place: int) -> str:
        state = self.graph.mbarriers.get(place)
        busy = self._others_that_run(place)
        waits = "" if busy else ", and every thread of the block waits"
        if state is None:
            return waits
        block = (
            self.lanes.core.table(Kind.BLOCKS)
            .rows["index"][self.lanes.block[self.lanes.at([place])][0]]
            .tolist()
        )
        several = len(set(self.lanes.block[self.lanes.at([place])].tolist())) > 1
        of = f" in block ({','.join(map(str, block))})" if several else ""
        return f", of which{of} {missing(state)}{waits}"

    def _others_that_run(self, place: int) -> bool:
        """Whether a thread of the same cluster stands at something else than a wait for other threads."""
        clusters = self.lanes.cluster[self.lanes.block]
        near = self.lanes.sharing(clusters, self.lanes.at([place]))
        numbers = set(self.lanes.place[near].tolist())
        waits = [self.places[number].wait for number in numbers]
        return any(wait is None or wait.kind not in BLOCKED for wait in waits)


def missing(state: MbarrierState) -> str:
    """What a phase of an mbarrier still lacks."""
    parts = []
    if state.pending:
        parts.append(f"{state.pending:,} of {state.expected:,} arrivals")
    if state.missing_bytes > 0:
        parts.append(f"{state.missing_bytes:,} bytes of asynchronous copies")
    several = state.pending > 1 or state.missing_bytes > 1 or len(parts) > 1
    text = f"{' and '.join(parts)} {'are' if several else 'is'} missing" if parts else "nothing is missing"
    if state.missing_bytes < 0:
        text += f"; {-state.missing_bytes:,} bytes more than announced have landed"
    return text


def polled_at(lanes: LaneMap, place: Place) -> Polled | None:
    """What the first lane of a place polls."""
    if place.wait is None or place.wait.poll is None or place.wait.kind != "memory":
        return None
    example = place.groups[0].example
    at = lanes.row.searchsorted(example)
    if at >= len(lanes.row) or lanes.row[at] != example:
        return None
    return polled(lanes.core, place, LaneRegisters(lanes.core, example, int(lanes.warp[at])))


def _needed(wait: Wait | None) -> str:
    """What holds lanes that wait for others, behind where they are."""
    if wait is None:
        return ""
    if wait.kind in ("warp", "reconvergence"):
        return ", at a barrier of the warp" if wait.kind == "warp" else ", to reconverge"
    return f", polling {wait.text}" if wait.kind == "memory" else f", at {wait.text}"


def _list(words: list[str]) -> str:
    if len(words) > _MOST_CALLERS + 1:
        return f"{', '.join(words[:_MOST_CALLERS])} and {len(words) - _MOST_CALLERS} more"
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def lines(places: Sequence[Place], code: Code) -> list[str]:
    """Where each place is: `at f.cu:12`; with its callers where other places stand on the same line."""
    chains = [_own_frames(place) for place in places]
    found = []
    for place, chain in zip(places, chains, strict=True):
        if not chain:
            found.append(f"at {_without_lines(place, code)}")
            continue
        depth = 1
        alike = [other for other in chains if other is not chain and _named(other, 1) == _named(chain, 1)]
        while depth < min(len(chain), _MOST_CALLERS) and any(
            other != chain and _named(other, depth) == _named(chain, depth) for other in alike
        ):
            depth += 1
        found.append(f"at {', called at '.join(_named(chain, depth))}")
    return found


def _named(chain: Sequence[Frame], depth: int) -> list[str]:
    return [f"{os.path.basename(frame.file)}:{frame.line}" for frame in chain[:depth]]


def _own_frames(place: Place) -> tuple[Frame, ...]:
    """The frames of a place without those of the toolkit's headers that are innermost."""
    frames = place.chain.frames if place.chain else ()
    for at, frame in enumerate(frames):
        if not _LIBRARY.search(frame.file):
            return frames[at:]
    return frames


def _without_lines(place: Place, code: Code) -> str:
    location = code.locate(place.address)
    return f"{short(location.function)} + {location.offset:#x}" if location else f"{place.address:#x}"
