"""Instruction data from the NVBit tool: text, and the registers recorded for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.formats.events import blocks

Array = npt.NDArray[Any]


class Operands:
    """Instructions by function.

    Numbers of registers are those of :mod:`warpsight.formats.events.registers`.
    """

    def __init__(self, file: blocks.EventFile) -> None:
        self._of = {
            (int(said["module"]), int(said["pc"])): {
                int(offset): (str(text), [int(r) for r in registers])
                for offset, text, registers in said["instructions"]
            }
            for said in file.operands
        }

    def of(self, launch: dict[str, Any]) -> dict[int, tuple[str, list[int]]]:
        """Offset → text and registers, for the kernel of a launch."""
        return self._of.get((int(launch["module"]), int(launch["pc"])), {})

    def texts(self, launch: dict[str, Any]) -> dict[int, str]:
        """Offset from the kernel's start → text, for all functions of a launch's module."""
        module, begin = int(launch["module"]), int(launch["pc"])
        return {
            at + offset - begin: text
            for (own, at), listed in self._of.items()
            if own == module
            for offset, (text, _) in listed.items()
        }

    def registers(self, launch: dict[str, Any], pc: Array, place: Array) -> Array:
        """The register at an index of the list for the instruction at an offset from the kernel's start; -1 if not described."""
        module, begin = int(launch["module"]), int(launch["pc"])
        table = {
            at + offset - begin: registers
            for (own, at), listed in self._of.items()
            if own == module
            for offset, (_, registers) in listed.items()
        }
        most = max((len(listed) for listed in table.values()), default=0)
        offsets = np.array(sorted(table), np.int64)
        if not len(offsets) or not most:
            return np.full(len(pc), -1, np.int64)
        listed = np.array([table[at] + [-1] * (most - len(table[at])) for at in offsets.tolist()], np.int64)
        row = np.minimum(np.searchsorted(offsets, pc), len(offsets) - 1)
        inside = (offsets[row] == pc) & (place < most)
        return np.where(inside, listed[row, np.minimum(place, most - 1)], -1)
