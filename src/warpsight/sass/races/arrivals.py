"""Arrivals at named barriers without waiting (`bar.arrive`), found in the code because the Sanitizer does not report them."""

from __future__ import annotations

import re
from functools import lru_cache

from warpsight.device_code.disassembly import INSTRUCTION_SIZE
from warpsight.sass.events.trace import EventTrace, TracedInstruction

_ARRIVE = re.compile(r"\bBAR\.ARV\S* (\S+?),")


class Arrivals:
    """The one-way arrivals of a trace's functions."""

    def __init__(self, trace: EventTrace) -> None:
        """Reads code on demand."""
        self._trace = trace
        self._of = lru_cache(maxsize=256)(self._read_arrivals)

    def known(self, module: int, function: str) -> bool:
        """Whether every arrival of a function names its barrier."""
        found = self._of(module, function)
        return bool(found) and all(barrier is not None for barrier in found.values())

    def after(self, place: TracedInstruction, recorded: frozenset[int]) -> frozenset[int]:
        """Barriers at which a warp may arrive after an instruction and before a recorded barrier.

        Args:
            place: the instruction it comes from.
            recorded: numbers of the recorded instructions.
        """
        arrivals, flow = (
            self._of(place.module, place.function),
            self._trace.flow(place.module, place.function),
        )
        found: set[int] = set()
        if not arrivals or flow is None:
            return frozenset()
        waiting = [place.offset // INSTRUCTION_SIZE]
        seen = set(waiting)
        while waiting:
            for following in flow.following(waiting.pop()):
                if following in seen or following in recorded:
                    continue
                seen.add(following)
                waiting.append(following)
                barrier = arrivals.get(following)
                if barrier is not None:
                    found.add(barrier)
        return frozenset(found)

    def _read_arrivals(self, module: int, function: str) -> dict[int, int | None]:
        """Instruction number → barrier of each arrival; None if the barrier number is in a register."""
        found: dict[int, int | None] = {}
        for offset, text in self._trace.instructions(module, function).items():
            match = _ARRIVE.search(text)
            if match:
                said = match.group(1)
                found[offset // INSTRUCTION_SIZE] = int(said, 0) if said[0].isdigit() else None
        return found
