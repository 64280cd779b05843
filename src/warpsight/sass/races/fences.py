"""Fences between two recorded instructions, found in the code because the Sanitizer does not report them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.device_code.disassembly import INSTRUCTION_SIZE
from warpsight.device_code.operations import operation
from warpsight.formats.events.records import Events
from warpsight.sass.events.trace import EventTrace, TracedInstruction, TracedLaunch
from warpsight.sass.races.accesses import BLOCK, DEVICE, scope_of
from warpsight.sass.races.order import following

Array = npt.NDArray[Any]
#: A fence, and what follows an acquire whose scope is wider than a block: the cache is emptied.
_MEMBAR, _CACHE, _EMPTIED = "MEMBAR", "CCTL", "IVALL"
_PROXY_FENCE = "FENCE"


class Fences:
    """The fences of a trace's functions; `between` is :meth:`_between` with a memory."""

    def __init__(self, trace: EventTrace, *, proxy: bool = False) -> None:
        """Reads code on demand; `proxy` selects fences of the async proxy, which have no scope, instead of all others."""
        self._trace, self._proxy = trace, proxy
        self._of = lru_cache(maxsize=256)(self._read_fences)
        self.between = lru_cache(maxsize=1 << 16)(self._between)

    def any(self, module: int) -> bool:
        """Whether a module has fences at all."""
        cubin = self._trace.cubin(module)
        return cubin is not None and any(self._of(module, name) for name in cubin.sections.values())

    def _read_fences(self, module: int, function: str) -> dict[int, int]:
        """Instruction number → scope of each fence of a function."""
        found = self._trace.section(module, function)
        if found is None:
            return {}
        code = found[0].instructions(found[1])
        starts = range(0, len(code) - INSTRUCTION_SIZE + 1, INSTRUCTION_SIZE)
        operations = {start: operation(code[start : start + INSTRUCTION_SIZE]) for start in starts}
        if self._proxy:
            return {
                start // INSTRUCTION_SIZE: BLOCK for start, name in operations.items() if name == _PROXY_FENCE
            }
        fences = [start for start, name in operations.items() if name in (_MEMBAR, _CACHE)]
        texts = self._trace.instructions(module, function) if fences else {}
        return {
            start // INSTRUCTION_SIZE: scope_of(texts.get(start, ""), False, False) or DEVICE
            for start in fences
            if operations[start] == _MEMBAR or _EMPTIED in texts.get(start, "")
        }

    def _between(self, earlier: TracedInstruction, later: TracedInstruction, recorded: frozenset[int]) -> int:
        """Scope of a fence on some path from one recorded instruction to the next, 0 for none.

        Args:
            earlier: where the way begins.
            later: where it ends.
            recorded: numbers of the instructions that were recorded: no way passes one of them.
        """
        fences = self._of(later.module, later.function)
        flow = self._trace.flow(later.module, later.function)
        if not fences or flow is None or earlier.function != later.function:
            return 0
        target = later.offset // INSTRUCTION_SIZE
        best = 0
        waiting = [(earlier.offset // INSTRUCTION_SIZE, 0)]
        seen = set(waiting)
        while waiting:
            here, scope = waiting.pop()
            for behind in flow.following(here):
                passed = max(scope, fences.get(behind, 0))
                if behind == target:
                    best = max(best, passed)
                elif behind not in recorded and (behind, passed) not in seen:
                    seen.add((behind, passed))
                    waiting.append((behind, passed))
        return best

    def before(self, launch: TracedLaunch, events: Events, warp_of: Array) -> Array:
        """For each event of a launch, the scope of the fence that its warp passed since its previous event."""
        distinct, inverse = np.unique(events.pc, return_inverse=True)
        places = self._trace.places(launch, distinct)
        recorded: dict[str, frozenset[int]] = {}
        for name in {place.function for place in places}:
            recorded[name] = frozenset(p.offset // INSTRUCTION_SIZE for p in places if p.function == name)
        after = following(warp_of)
        earlier = np.flatnonzero(after >= 0)
        pairs, which = np.unique(
            inverse[earlier] * len(places) + inverse[after[earlier]], return_inverse=True
        )
        scopes = []
        for pair in pairs.tolist():
            begin, end = places[pair // len(places)], places[pair % len(places)]
            others = recorded[end.function] - {end.offset // INSTRUCTION_SIZE}
            scopes.append(self.between(begin, end, others))
        found = np.zeros(len(events), np.int64)
        found[after[earlier]] = np.array(scopes, np.int64)[which]
        return found


def proxy_fenced(
    trace: EventTrace, launch: TracedLaunch, events: Events, first: Array, second: Array
) -> Array:
    """Whether the warp of a store, or of the paired read, passed a proxy fence between them."""
    warp = events.block.astype(np.int64) * launch.warps + events.warp
    fenced = np.flatnonzero(Fences(trace, proxy=True).before(launch, events, warp))
    span = len(events) + 1
    keys = np.sort(warp[fenced] * span + fenced)

    def passed(who: Array) -> Array:
        begin, end = (np.searchsorted(keys, who * span + event, "right") for event in (first, second))
        return np.asarray(end > begin)

    return passed(warp[first]) | passed(warp[second])
