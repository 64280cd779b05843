"""The scheduling fields of instructions, by which the compiler controls when the next one issues.

Since Volta every instruction of 128 bits carries them in bits 105-125 (bits 41-61 of its upper half): the cycles until the warp
may issue its next instruction, a hint to yield, the scoreboard barrier that is released when the result is written, the one that
is released when the operands have been read, the barriers to wait for before issue, and which operands stay in the reuse cache.
Layout after HPCToolkit's `AnalyzeInstruction.cpp`, Mesa's NAK and arXiv 1804.06826; equal on sm_70 to sm_121.
"""

from __future__ import annotations

from dataclasses import dataclass

from warpsight.device_code.elf import Array

#: Scoreboard barriers of a warp.
BARRIERS = 6


@dataclass(frozen=True, slots=True)
class Scheduling:
    """The scheduling fields of one instruction.

    Attributes:
        stall: cycles before the warp may issue its next instruction.
        yields: whether the scheduler should prefer another warp next.
        write_barrier: the scoreboard barrier released when the result is available; None if that takes a fixed time.
        read_barrier: the one released when the operands have been read; None if they are read at issue.
        waits: a bit for each scoreboard barrier that must be clear before the instruction issues.
        reuse: a bit for each operand kept in the reuse cache.
    """

    stall: int
    yields: bool
    write_barrier: int | None
    read_barrier: int | None
    waits: int
    reuse: int

    @property
    def sets(self) -> int:
        """A bit for each scoreboard barrier that the instruction sets."""
        return sum(1 << b for b in {self.write_barrier, self.read_barrier} if b is not None)

    def __str__(self) -> str:
        """As CuAssembler prints them: `B0----5:R-:W2:Y:S04`."""
        waited = "".join(str(b) if self.waits >> b & 1 else "-" for b in range(BARRIERS))
        read = "-" if self.read_barrier is None else self.read_barrier
        write = "-" if self.write_barrier is None else self.write_barrier
        return f"B{waited}:R{read}:W{write}:{'Y' if self.yields else '-'}:S{self.stall:02}"


def scheduling(words: Array) -> list[Scheduling]:
    """The scheduling fields of instructions.

    Args:
        words: lower and upper halves, shape (n, 2), uint64.
    """
    return [_decode(int(high)) for high in words[:, 1]]


def _decode(high: int) -> Scheduling:
    def field(bit: int, width: int) -> int:
        return high >> bit & ((1 << width) - 1)

    return Scheduling(
        stall=field(41, 4),
        yields=not field(45, 1),  # the bit is set where the warp should rather go on
        write_barrier=_barrier(field(46, 3)),
        read_barrier=_barrier(field(49, 3)),
        waits=field(52, 6),
        reuse=field(58, 4),
    )


def _barrier(number: int) -> int | None:
    return number if number < BARRIERS else None  # 7 means none
