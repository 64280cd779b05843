"""Facts that an instruction trace's describing records state about the others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class CutracerHeader:
    """The contents of the describing records: the kernel, its instructions by opcode id, host stacks, completion."""

    kernel: dict[str, Any] = field(default_factory=dict)
    sass: dict[int, str] = field(default_factory=dict)
    stacks: dict[str, str] = field(default_factory=dict)
    completion: dict[str, Any] = field(default_factory=dict)

    def take(self, record: dict[str, Any]) -> None:
        """Note one describing record."""
        kind = record.get("type")
        if kind == "kernel_metadata":
            self.kernel = record
            table = record.get("instructions")
            for key, entry in table.items() if isinstance(table, dict) else ():
                if re.fullmatch("[0-9]{1,9}", key) and isinstance(entry, dict):
                    self.sass[int(key)] = str(entry.get("sass", ""))
        elif kind == "callstack_def" and record.get("frames") and isinstance(record["frames"], list):
            self.stacks[str(record.get("callstack_id"))] = caller(record["frames"], str(record.get("source")))
        elif kind == "capture_completion":
            self.completion = record

    def complete(self, record: dict[str, Any]) -> dict[str, Any]:
        """Complete a record from others: the instruction's text, a launch's caller."""
        if "sass" not in record and (text := self.sass.get(record.get("opcode_id", -1))):
            record["sass"] = text
        if record.get("type") == "kernel_launch" and "caller" not in record:
            if record.get("cpu_callstack") and isinstance(record["cpu_callstack"], list):
                record["caller"] = caller(record["cpu_callstack"], str(record.get("cpu_callstack_source")))
            elif frame := self.stacks.get(str(record.get("callstack_id"))):
                record["caller"] = frame
        return record

    def notes(self) -> list[str]:
        """Losses that the capture itself reports."""
        said = self.completion
        if not said or (said.get("status") == "complete" and not said.get("dropped_records")):
            return []
        return [
            f"the capture says it is {said.get('status')}, {said.get('dropped_records', 0)} records dropped"
        ]

    def warps_per_cta(self) -> int | None:
        """Warps per block of the kernel, or None."""
        block = self.kernel.get("block")
        return -(-_product(block) // 32) if block else None

    def grid_warps(self) -> int | None:
        """Warps of the whole grid, or None."""
        grid, per_cta = self.kernel.get("grid"), self.warps_per_cta()
        return _product(grid) * per_cta if grid and per_cta else None


def _product(values: Sequence[int]) -> int:
    return int(values[0]) * int(values[1]) * int(values[2])


def caller(frames: Sequence[str], source: str) -> str:
    """The innermost frame: Python stacks are written outermost first, stacks of `backtrace` innermost first."""
    return frames[0] if source == "backtrace" else frames[-1]
