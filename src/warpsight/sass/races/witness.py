"""A race for display: two accesses of two threads, with their instructions and source lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from warpsight.device_code.debug_info.inline_chain import Frame
from warpsight.formats.events.records import Events
from warpsight.sass.events.trace import EventTrace, TracedInstruction, TracedLaunch
from warpsight.sass.races.accesses import Accesses


@dataclass(frozen=True)
class Side:
    """One of the two accesses of a race.

    Attributes:
        block: block of the grid, x fastest; thread: thread of the block; operation: load, store or atomic; where, sass: the
            instruction.
        frames: its source chain, innermost first; event: row of the launch's events; place: the instruction.
        launch: the launch in the trace.
    """

    block: int
    thread: int
    operation: str
    where: str
    sass: str
    frames: tuple[Frame, ...]
    event: int
    place: TracedInstruction
    launch: int

    def to_json(self) -> dict[str, Any]:
        """As an object."""
        return {
            "block": self.block, "thread": self.thread, "operation": self.operation, "where": self.where, "sass": self.sass,
            "frames": [{"function": f.function, "file": f.file, "line": f.line} for f in self.frames],
        }  # fmt: skip


@dataclass(frozen=True)
class Race:
    """A pair of instructions that race, with one witness.

    Attributes:
        kernel, launch: kernel and launch; space: global or shared; address: address of the witness; count: number of racing pairs
            of accesses by these instructions.
        reason: what would have ordered them; first, second: the accesses, in recorded order.
    """

    kernel: str
    launch: int
    space: str
    address: int
    count: int
    reason: str
    first: Side
    second: Side

    def to_json(self) -> dict[str, Any]:
        """As an object."""
        return {
            "kernel": self.kernel, "launch": self.launch, "space": self.space, "address": self.address, "count": self.count,
            "reason": self.reason, "first": self.first.to_json(), "second": self.second.to_json(),
        }  # fmt: skip


def operation_of(sass: str, writes: bool) -> str:
    """An instruction's operation at its address: load, store or atomic."""
    name = next((word for word in sass.split() if not word.startswith("@")), "")
    return "atomic" if name.startswith(("ATOM", "RED")) else "store" if writes else "load"


def side(trace: EventTrace, launch: TracedLaunch, events: Events, own: Accesses, row: int) -> Side:
    """An access as one side of a race."""
    event = int(own.instruction[row])
    place: TracedInstruction = trace.places(launch, events.pc[event : event + 1])[0]
    operation = "atomic" if own.atomic[row] else "store" if own.write[row] else "load"
    return Side(
        int(own.block[row]),
        int(own.thread[row]),
        operation,
        trace.describe(place),
        trace.sass(place),
        trace.chain(place),
        event,
        place,
        launch.number,
    )
