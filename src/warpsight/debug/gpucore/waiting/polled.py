"""The address that a polling loop reads and its last value, from the registers of one lane."""

from __future__ import annotations

from dataclasses import dataclass

from warpsight.debug.gpucore.lane_registers import LaneRegisters
from warpsight.debug.gpucore.reader import GpuCore
from warpsight.device_code.flow.polling import Poll

_SIZES = (4, 8)


@dataclass(frozen=True)
class Polled:
    """One lane's polling.

    Attributes:
        address: the address it reads; None if its registers no longer hold it.
        value: the last value read; None if unknown.
        in_memory: the value in the dump's memory; None if the dump lacks it.
    """

    address: int | None
    value: int | None
    in_memory: int | None


def polled_of(core: GpuCore, poll: Poll | None, lane: LaneRegisters) -> Polled | None:
    """The address that a lane's polling loop reads, or None."""
    if poll is None:
        return None
    address = None
    if poll.wide and not poll.overwritten:
        low, high = lane.register(poll.register), lane.register(poll.register + 1)
        if low is not None and high is not None:
            address = (low | high << 32) + poll.offset & (1 << 64) - 1
    value = None
    if poll.value is not None and poll.size in _SIZES:
        words = [lane.register(poll.value + part) for part in range(poll.size // 4)]
        value = sum(w << 32 * n for n, w in enumerate(words) if w is not None) if None not in words else None
    data = core.memory(address, poll.size) if address is not None else None
    return Polled(address, value, int.from_bytes(data, "little") if data is not None else None)
