"""The state of an mbarrier, from the shared memory in a dump.

An mbarrier is one word of 64 bits. PTX calls it opaque. Its fields are inferred from the code that `mbarrier.init` and
`mbarrier.pending_count` compile to, and from words read back on Hopper and Blackwell. Counts are stored negated:

    bit 0       0 in this layout
    bits 1-20   arrivals that a phase expects
    bits 21-41  bytes of asynchronous copies that were announced but have not arrived (signed)
    bit 42      0 in a valid word
    bits 43-62  arrivals still missing in this phase
    bit 63      parity of this phase

While a kernel runs, the hardware may hold the current word elsewhere; when a dump is taken, it is back in shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from warpsight.debug.gpucore.layout import Kind
from warpsight.debug.gpucore.reader import GpuCore

_SIZE = 8
_COUNT, _BYTES = 20, 21


@dataclass(frozen=True)
class MbarrierState:
    """The state encoded in an mbarrier's word.

    Attributes:
        parity: parity of the phase that is not complete yet.
        expected: arrivals that each phase needs.
        pending: arrivals that this phase still lacks.
        missing_bytes: bytes of asynchronous copies that this phase still lacks; negative if more arrived than announced.
    """

    parity: int
    expected: int
    pending: int
    missing_bytes: int


def decode(word: int) -> MbarrierState | None:
    """The fields of an mbarrier's word; None if it is not initialized."""
    expected = -(word >> 1) % (1 << _COUNT)
    if not expected or word & 1 or word >> 42 & 1:
        return None
    copies = -(word >> 21) % (1 << _BYTES)
    signed = copies - (1 << _BYTES) if copies >> (_BYTES - 1) else copies
    return MbarrierState(word >> 63 & 1, expected, -(word >> 43) % (1 << _COUNT), signed)


def state_of(core: GpuCore, block: int, address: int) -> MbarrierState | None:
    """The state of an mbarrier of a block.

    Args:
        core: the dump.
        block: row of the block table.
        address: in the block's shared memory, in bytes.

    Returns:
        The state; None if the dump lacks the block's shared memory, or there is no initialized mbarrier.
    """
    found = core.data_of(Kind.SHARED, block)
    if found is None:
        return None
    data, begin = found
    at = address - (begin & 0xFFFFFF)
    if not 0 <= at <= len(data) - _SIZE:
        return None
    return decode(int.from_bytes(data[at : at + _SIZE], "little"))
