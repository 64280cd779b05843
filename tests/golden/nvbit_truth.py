"""What a trace of `tests/gpu/nvbit_truth.cu` with NVBit says, beside what the program says itself."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.formats.events.kinds import EXECUTED, READ_REGISTERS
from warpsight.formats.events.operands import Operands
from warpsight.formats.events.records import Events
from warpsight.sass.events.trace import EventTrace, TracedLaunch

#: How often each warp of kernel `counted` executes an instruction, in each of two blocks: it goes round `warp + 3` times.
COUNTED = {
    (word, warp): count
    for warp in range(3)
    for word, count in (("MEMBAR", 1), ("EXIT", 1), ("STG", warp + 3 + 1), ("STG odd", warp + 3))
}


def launch_of(trace: EventTrace, kernel: str) -> TracedLaunch:
    """The only launch of a kernel."""
    (found,) = (launch for launch in trace.launches.values() if launch.name.startswith(kernel + "("))
    return found


def texts(trace: EventTrace, launch: TracedLaunch, pc: Any) -> list[str]:
    """The text of the instruction at each program counter."""
    listed = {offset: text for offset, (text, _) in Operands(trace.file).of(launch.said).items()}
    return [listed[int(offset)] for offset in pc - np.uint32(launch.said["pc"] & 0xFFFFFFFF)]


def executed(events: Events) -> NDArray[np.bool_]:
    """Rows that say that a warp executed an instruction, each once."""
    first = (events.kind == READ_REGISTERS.number) & (events.flags == 0)
    return np.asarray(first | (events.kind == EXECUTED.number))


def executions(trace: EventTrace) -> dict[tuple[str, int], int]:
    """Of kernel `counted`, by a block and what :data:`COUNTED` names."""
    launch = launch_of(trace, "counted")
    events = trace.of_launch(launch.number)
    events = events.take(executed(events))
    found: Counter[tuple[str, int]] = Counter()
    for text, warp, guard in zip(
        texts(trace, launch, events.pc), events.warp.tolist(), events.guard.tolist(), strict=True
    ):
        for word in ("MEMBAR", "EXIT", "STG"):
            found[word, warp] += word in text
        found["STG odd", warp] += "STG" in text and guard == 0xAAAAAAAA
    assert all(count % 2 == 0 for count in found.values())
    return {key: count // 2 for key, count in found.items()}


def stored(trace: EventTrace, out: int, kernel: str = "logged") -> dict[int, set[int]]:
    """Index in a kernel's buffer of 32-bit words and the values there, as the registers of its stores say."""
    launch = launch_of(trace, kernel)
    events = trace.of_launch(launch.number)
    events = events.take(np.flatnonzero(["STG" in text for text in texts(trace, launch, events.pc)]))
    found = events.registers()
    offset = events.pc[found.record].astype(np.int64) - (int(launch.said["pc"]) & 0xFFFFFFFF)
    numbers = Operands(trace.file).registers(launch.said, offset, found.slot)
    assert numbers.min() >= 0
    values: dict[int, set[int]] = {}
    for record in np.unique(found.record):
        own = found.record == record
        low, high, value = found.value[own][numbers[own] < 256].astype(
            np.uint64
        )  # the address, then what is stored
        for lane in np.flatnonzero(events.guard[record] >> np.arange(32, dtype=np.uint32) & 1):
            address = int(low[lane] | high[lane] << np.uint64(32))
            values.setdefault((address - out) // 4, set()).add(int(value[lane]))
    return values
