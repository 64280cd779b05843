"""Fences between two recorded instructions, found in the code: the Sanitizer has no patch for them."""

from __future__ import annotations

from functools import lru_cache

from warpsight.device_code.disassembly import INSTRUCTION_SIZE
from warpsight.device_code.flow.control_flow import ControlFlow
from warpsight.device_code.operations import operation
from warpsight.sass.events.trace import EventTrace, TracedInstruction
from warpsight.sass.races.accesses import DEVICE, scope_of

#: A fence, and what follows an acquire whose scope is wider than a block: the cache is emptied.
_MEMBAR, _CACHE, _EMPTIED = "MEMBAR", "CCTL", "IVALL"


class Fences:
    """The fences of a trace's functions; `between` is :meth:`_between` with a memory."""

    def __init__(self, trace: EventTrace) -> None:
        """Code is read on demand."""
        self._trace = trace
        self._of = lru_cache(maxsize=256)(self._read_fences)
        self._flow = lru_cache(maxsize=256)(self._read_flow)
        self.between = lru_cache(maxsize=1 << 16)(self._between)

    def any(self, module: int) -> bool:
        """Whether a module has fences at all."""
        cubin = self._trace.cubin(module)
        return cubin is not None and any(self._of(module, name) for name in cubin.sections.values())

    def _read_fences(self, module: int, function: str) -> dict[int, int]:
        """Instruction number → scope of each fence of a function."""
        cubin = self._trace.cubin(module)
        section = cubin.section_of(function) if cubin else None
        if cubin is None or section is None:
            return {}
        code = cubin.instructions(section)
        starts = range(0, len(code) - INSTRUCTION_SIZE + 1, INSTRUCTION_SIZE)
        operations = {start: operation(code[start : start + INSTRUCTION_SIZE]) for start in starts}
        found = [start for start, name in operations.items() if name in (_MEMBAR, _CACHE)]
        texts = self._trace.instructions(module, function) if found else {}
        return {
            start // INSTRUCTION_SIZE: scope_of(texts.get(start, ""), False, False) or DEVICE
            for start in found
            if operations[start] == _MEMBAR or _EMPTIED in texts.get(start, "")
        }

    def _read_flow(self, module: int, function: str) -> ControlFlow | None:
        cubin = self._trace.cubin(module)
        section = cubin.section_of(function) if cubin else None
        if cubin is None or section is None:
            return None
        return ControlFlow(cubin.instructions(section), cubin.architecture)

    def _between(self, earlier: TracedInstruction, later: TracedInstruction, recorded: frozenset[int]) -> int:
        """Scope of a fence on some way from one recorded instruction to the next, 0 for none.

        Args:
            earlier: where the way begins.
            later: where it ends.
            recorded: numbers of the instructions that were recorded: no way passes one of them.
        """
        fences = self._of(later.module, later.function)
        flow = self._flow(later.module, later.function)
        if not fences or flow is None or earlier.function != later.function:
            return 0
        target = later.offset // INSTRUCTION_SIZE
        best = 0
        waiting = [(earlier.offset // INSTRUCTION_SIZE, 0)]
        seen = set(waiting)
        while waiting:
            here, scope = waiting.pop()
            for following in flow.following(here):
                passed = max(scope, fences.get(following, 0))
                if following == target:
                    best = max(best, passed)
                elif following not in recorded and (following, passed) not in seen:
                    seen.add((following, passed))
                    waiting.append((following, passed))
        return best
