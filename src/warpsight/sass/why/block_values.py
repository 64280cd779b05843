"""The values that differ between the blocks of a grid, read from the code: how often each block runs a loop, or takes a branch.

The same slices as for lanes are evaluated, for all blocks instead of for the lanes of a warp: the block's number is known, and so
are the sizes of the grid and of the block. Arguments are unknown, and taken to be large.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from warpsight.device_code.registers import bits
from warpsight.sass.why.dependencies import Dependencies
from warpsight.sass.why.lane_addresses import CARRIED, COMPARISONS, LaneAddresses, Lanes

if TYPE_CHECKING:
    from warpsight.device_code.decoded import Decoded

#: Offsets of the sizes of block and grid in the constant bank of sm_70 to sm_90.
_BLOCK, _GRID = 0x0, 0xC
_ONES = (0x4, 0x8, 0x10, 0x14)
_CONSTANT = re.compile(r"^c\[0x0\]\[(0x[0-9a-f]+)\]$")
_PREDICATE = re.compile(r"^(!?)(U?P)(\d|T)$")
_PLAIN = {"UMOV": "MOV", "R2UR": "MOV", "UIADD3": "IADD3", "UIMAD": "IMAD", "ULEA": "LEA", "USHF": "SHF", "ULOP3": "LOP3",
          "USEL": "SEL"}  # fmt: skip
_LOADS = ("LDC", "ULDC")


class BlockValues(LaneAddresses):
    """Values of one section of code, by block.

    Args:
        dependencies: dependencies of the section; blocks: blocks of the grid, in one dimension; threads: threads of a block.
        unknown: what stands for an argument.
    """

    def __init__(self, dependencies: Dependencies, blocks: int, threads: int, unknown: int) -> None:
        super().__init__(dependencies)
        self._count, self._threads, self._unknown = blocks, threads, unknown

    def left(self, branch: int) -> Lanes | None:
        """How far the operands of a branch's comparison are apart when it is first reached; None if data decides."""
        setter = self._setter(branch)
        compared = self._compared(setter) if setter is not None else None
        if compared is None:
            return None if self._varies(branch) else self._all(1)
        return abs(compared[0] - compared[1])

    def jumps(self, branch: int) -> npt.NDArray[np.bool_] | None:
        """The blocks that take a branch when they first reach it; None if data decides."""
        setter = self._setter(branch)
        holds = self._true(setter) if setter is not None else None
        if holds is None:
            return None if self._varies(branch) else np.ones(self._count, bool)
        return ~holds if self._instructions[branch].access.negated else holds

    def _varies(self, index: int) -> bool:
        """Whether loaded data or a block's number goes into what an instruction reads."""
        seen, waiting = {index}, [index]
        while waiting:
            for made in self._dependencies.producers(waiting.pop()):
                one = self._instructions[made.index]
                data = (one.kind.load or one.kind.atomic) and one.kind.space != "constant"
                if data or (one.operation in ("S2R", "S2UR") and "CTAID" in one.text):
                    return True
                if made.index not in seen:
                    seen.add(made.index)
                    waiting.append(made.index)
        return False

    def _setter(self, index: int) -> Decoded | None:
        wanted = self._instructions[index].access.guard
        found = [one.index for one in self._dependencies.producers(index) if one.registers & wanted]
        return self._instructions[found[0]] if found and wanted else None

    def _true(self, setter: Decoded) -> npt.NDArray[np.bool_] | None:
        compared = self._compared(setter)
        return None if compared is None else COMPARISONS[setter.access.modifiers[0]](*compared)

    def _compared(self, setter: Decoded) -> tuple[Lanes, Lanes] | None:
        if setter.operation not in ("ISETP", "UISETP") or not setter.access.modifiers:
            return None
        sources = [
            one for one in setter.access.operands[setter.access.results :] if not _PREDICATE.match(one)
        ]
        if len(sources) != 2 or setter.access.modifiers[0] not in COMPARISONS:
            return None
        first, second = (self._source(setter.index, text) for text in sources)
        if first is None or second is None or first is CARRIED or second is CARRIED:
            return None
        return first, second

    def _value(self, index: int, bit: int) -> Lanes | None:
        producers = [one for one in self._dependencies.producers(index) if one.registers >> bit & 1]
        plain = [one for one in producers if not self._instructions[one.index].access.guard]
        if not producers:
            return self._all(self._unknown)
        chosen: Lanes | None = CARRIED
        for one in plain or producers:
            found = self._result(self._instructions[one.index], bit)
            if found is None:
                return None
            chosen = found if chosen is CARRIED else chosen
        for one in sorted(producers, key=lambda one: -one.cycles) if plain else ():
            instruction = self._instructions[one.index]
            setter = self._setter(one.index) if instruction.access.guard else None
            holds = self._true(setter) if setter is not None else None
            if chosen is None or chosen is CARRIED or holds is None or holds.all() or not holds.any():
                continue  # a guard that is the same for all blocks is an argument's
            found = self._result(instruction, bit)
            if found is not None and found is not CARRIED:
                chosen = np.asarray(
                    np.where(~holds if instruction.access.negated else holds, found, chosen), np.int64
                )
        return chosen

    def _result(self, one: Decoded, bit: int) -> Lanes | None:
        name, operands = one.operation, one.access.operands
        if name in ("S2R", "S2UR"):
            return self._special("".join(operands[one.access.results :]))
        if name in _LOADS:
            return (
                self._source(one.index, operands[-1]) if bit == min(bits(one.access.writes)) else self._all(0)
            )
        if one.kind.load or one.kind.atomic:
            return None  # data
        if name in ("SEL", "USEL", "IMNMX", "VIMNMX"):
            return self._chosen(one)
        if name == "HFMA2" and bit == min(bits(one.access.writes)):
            return self._halves(operands[-2:])
        return super()._result(one, bit)

    def _chosen(self, one: Decoded) -> Lanes | None:
        first, second, by = one.access.operands[one.access.results :][:3]
        left, right = self._source(one.index, first), self._source(one.index, second)
        found = _PREDICATE.match(by)
        if left is None or right is None or found is None:
            return None
        if left is CARRIED or right is CARRIED:
            return right if left is CARRIED else left
        if one.operation in ("IMNMX", "VIMNMX"):
            return np.maximum(left, right) if found[1] else np.minimum(left, right)
        setter = next(
            (self._instructions[p.index] for p in self._dependencies.producers(one.index)
             if "SETP" in self._instructions[p.index].operation), None,
        )  # fmt: skip
        holds = self._true(setter) if setter is not None else None
        if holds is None:
            return left if np.array_equal(left, right) else None
        return np.asarray(np.where(~holds if found[1] else holds, left, right), np.int64)

    def _halves(self, texts: tuple[str, ...]) -> Lanes | None:
        """A constant that HFMA2 makes of two numbers of 16 bits."""
        try:
            high, low = (int(np.float16(text).view(np.uint16)) for text in texts)
        except ValueError:
            return self._all(self._unknown)
        return self._all(high << 16 | low)

    def _source(self, index: int, text: str) -> Lanes | None:
        constant = _CONSTANT.match(text)
        if constant is None:
            return super()._source(index, text)
        offset = int(constant[1], 16)
        known = {_BLOCK: self._threads, _GRID: self._count, **dict.fromkeys(_ONES, 1)}
        return self._all(known.get(offset, self._unknown))

    def _special(self, name: str) -> Lanes:
        if "CTAID.X" in name:
            return np.arange(self._count, dtype=np.int64)
        return self._all(0 if "TID" in name or "LANEID" in name else self._unknown)

    def _named(self, one: Decoded) -> str:
        return _PLAIN.get(one.operation, one.operation)
