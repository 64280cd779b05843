"""Registers as bits of one integer, so that sets of them are integers and dataflow is `&`, `|` and `~`.

A thread's registers come first (R0 at bit 0), then its predicates, the warp's uniform registers and predicates, and the
registers of convergence barriers. RZ, URZ, PT and UPT hold no value and have no bit.
"""

from __future__ import annotations

from collections.abc import Iterator

#: Prefix of each file of registers, its first bit and how many there are; the longer prefix first where one begins another.
FILES: dict[str, tuple[int, int]] = {
    "UR": (272, 255), "UP": (544, 7), "R": (0, 255), "P": (256, 7), "B": (560, 16),
}  # fmt: skip


def register(file: str, number: int, count: int = 1) -> int:
    """The bits of consecutive registers: `register("R", 4, 2)` is R4 and R5. Nonexistent registers are left out."""
    first, size = FILES[file]
    kept = max(min(count, size - number), 0)
    return ((1 << kept) - 1) << (first + number)


def whole(file: str) -> int:
    """The bits of all registers of a register file."""
    return register(file, 0, FILES[file][1])


def only(registers: int, file: str) -> int:
    """The registers of a set that belong to one register file."""
    return registers & whole(file)


def bits(registers: int) -> Iterator[int]:
    """The bits of a set, ascending."""
    while registers:
        lowest = registers & -registers
        yield lowest.bit_length() - 1
        registers ^= lowest


def name(bit: int) -> str:
    """The register of a bit: `R5`."""
    for file, (first, size) in FILES.items():
        if first <= bit < first + size:
            return f"{file}{bit - first}"
    raise ValueError(f"no register has bit {bit}")


def names(registers: int) -> list[str]:
    """The registers of a set, by name."""
    return [name(bit) for bit in bits(registers)]
