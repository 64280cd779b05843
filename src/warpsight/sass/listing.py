"""`sass list`: a kernel's instructions with everything known about each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from warpsight.device_code.debug_info.inline_chain import Frame
from warpsight.device_code.decoded import branch_operand
from warpsight.device_code.registers import names
from warpsight.sass.code import KernelCode
from warpsight.sass.counts.kernels import Counts
from warpsight.sass.why.reasons import NO_STALL
from warpsight.sass.why.samples import StallSamples

#: Operations that name a place in the code; other numbers are barriers, lanes or times.
_WITH_TARGET = ("BRA", "CALL", "BSSY", "JMP")


@dataclass(frozen=True)
class ListingRow:
    """One instruction.

    Attributes:
        index, offset: position in its section; text: as nvdisasm prints it.
        scheduling: stall count, barriers and wait mask, as `B--2---:R-:W3:-:S04`.
        live: registers, predicates and uniform registers that hold a needed value here.
        block: its basic block; depth: number of enclosing loops; leader: whether it is the block's first.
        target: offset that a branch, a call or BSSY names.
        frames: its source lines, innermost first; ptx: line of the PTX, 0 if unknown.
        samples: samples by stall reason.
        counts: exact counts; None if there are none.
    """

    index: int
    offset: int
    text: str
    scheduling: str
    live: tuple[int, int, int]
    block: int
    depth: int
    leader: bool
    target: int | None
    frames: tuple[Frame, ...]
    ptx: int
    samples: Mapping[str, int]
    counts: Counts | None = None

    @property
    def total(self) -> int:
        """All its samples."""
        return sum(self.samples.values())

    @property
    def figures(self) -> tuple[int | None, str, str]:
        """Warps that executed it, their enabled threads, sectors of each; empty if not counted."""
        counts = self.counts
        if counts is None or not counts.executions:
            return None, "", ""
        on = counts.values.get("thread_inst_executed_pred_on")
        lanes = f"{on / counts.executions:.3g}" if on is not None else ""
        return (
            counts.executions,
            lanes,
            f"{counts.sectors / counts.executions:.3g}" if counts.sectors else "",
        )

    @property
    def main_reason(self) -> str:
        """The stall reason with the most samples; empty if it never stalled."""
        stalls = {name: count for name, count in self.samples.items() if name not in NO_STALL}
        return max(stalls, key=lambda name: (stalls[name], name), default="")


@dataclass(frozen=True)
class Listing:
    """A kernel's instructions without padding."""

    code: KernelCode
    rows: tuple[ListingRow, ...]
    samples: StallSamples
    counted: bool = False

    @property
    def most_live(self) -> ListingRow:
        """The instruction with the most live registers of a thread."""
        return max(self.rows, key=lambda row: (row.live[0], -row.index))

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "kernel": self.code.demangled, "name": self.code.name, "checksum": self.code.checksum,
            "architecture": f"sm_{self.code.architecture}", "registers": self.code.registers,
            "most_live_registers": self.most_live.live[0], "samples": self.samples.total,
            "loops": [
                {"head": loop.head, "blocks": sorted(loop.blocks), "parent": loop.parent, "depth": loop.depth}
                for loop in self.code.graph.loops
            ],
            "blocks": [
                {"block": block.number, "first": block.first * 16, "last": block.last * 16,
                 "successors": list(block.successors)}
                for block in self.code.graph.blocks if block.first < len(self.rows)
            ],
            "instructions": [self._row(row) for row in self.rows],
        }  # fmt: skip

    def _row(self, row: ListingRow) -> dict[str, Any]:
        one = self.code.instructions[row.index]
        fields = one.scheduling
        return {
            "offset": row.offset, "instruction": row.text, "operation": one.operation, "block": row.block,
            "loop_depth": row.depth, "target": row.target, "reads": names(one.access.reads), "writes": names(one.access.writes),
            "pipe": one.kind.pipe, "memory": one.kind.space or None, "stall": fields.stall, "yields": fields.yields,
            "write_barrier": fields.write_barrier, "read_barrier": fields.read_barrier,
            "waits": [number for number in range(6) if fields.waits >> number & 1],
            "live_registers": row.live[0], "live_predicates": row.live[1], "live_uniform": row.live[2],
            "lines": [{"function": f.function, "file": f.file, "line": f.line} for f in row.frames],
            "ptx_line": row.ptx or None, "samples": dict(row.samples),
            **({"counts": row.counts.to_json()} if row.counts else {}),
        }  # fmt: skip


def listing(
    code: KernelCode, samples: StallSamples | None = None, counts: Mapping[int, Counts] | None = None
) -> Listing:
    """The instructions of a kernel.

    Raises:
        NotDisassembled: when nvdisasm is missing or cannot read the code.
    """
    sampled = samples or StallSamples(())
    at = sampled.at()
    graph, live = code.graph, code.live
    rows = []
    # Warps that drain are sampled behind the last EXIT.
    end = max(code.length, min(max(at, default=0) + 1, len(code.instructions)))
    for one in code.instructions[:end]:
        block = graph.blocks[graph.block_of[one.index]]
        loop = graph.loop_of[block.number]
        pressure = (live.pressure(one.index), live.pressure(one.index, "P"), live.pressure(one.index, "UR"))
        rows.append(
            ListingRow(
                one.index, one.offset, one.text, str(one.scheduling), pressure, block.number,
                graph.loops[loop].depth if loop is not None else 0, block.first == one.index,
                branch_operand(one) if one.operation in _WITH_TARGET else None, code.frames(one.index),
                (code.cubin.ptx_at(code.section, one.offset) or (0, ""))[0], at.get(one.index, {}),
                counts.get(one.index, Counts()) if counts else None,
            )
        )  # fmt: skip
    return Listing(code, tuple(rows), sampled, bool(counts))
