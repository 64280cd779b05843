"""The capacity of one multiprocessor of an NVIDIA GPU, by compute capability, and how many blocks of a kernel fit.

Limits are those of the CUDA C++ Programming Guide, appendix "Compute Capabilities", table of technical specifications per compute
capability; allocation granularity and the rules for registers are those of `cuda_occupancy.h` of CUDA 13.0. A limit in the
trace's device row takes precedence over the table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

_KIB = 1024


@dataclass(frozen=True)
class OccupancyLimits:
    """Limits per multiprocessor, and the units in which it allocates resources."""

    threads: int
    blocks: int
    registers: int
    shared: int
    #: Bytes of shared memory that the driver reserves in every block.
    reserved: int
    shared_unit: int
    #: Number of register partitions of the multiprocessor; a warp stays in one.
    partitions: int = 4
    register_unit: int = 256
    warp: int = 32
    threads_per_block: int = 1024
    registers_per_block: int = 65536


#: (major, minor) → threads, blocks, registers, shared memory in KiB.
_TABLE: dict[tuple[int, int], tuple[int, int, int, int]] = {
    (5, 0): (2048, 32, 65536, 64), (5, 2): (2048, 32, 65536, 96), (5, 3): (2048, 32, 65536, 64),
    (6, 0): (2048, 32, 65536, 64), (6, 1): (2048, 32, 65536, 96), (6, 2): (2048, 32, 65536, 64),
    (7, 0): (2048, 32, 65536, 96), (7, 2): (2048, 32, 65536, 96), (7, 5): (1024, 16, 65536, 64),
    (8, 0): (2048, 32, 65536, 164), (8, 6): (1536, 16, 65536, 100), (8, 7): (1536, 16, 65536, 164),
    (8, 9): (1536, 24, 65536, 100), (9, 0): (2048, 32, 65536, 228), (10, 0): (2048, 32, 65536, 228),
    (10, 3): (2048, 32, 65536, 228), (11, 0): (1536, 24, 65536, 228), (12, 0): (1536, 24, 65536, 100),
    (12, 1): (1536, 24, 65536, 100),
}  # fmt: skip


def limits(
    capability: str | None, *, threads: int | None = None, blocks: int | None = None, registers: int | None = None,
    shared: int | None = None,
) -> OccupancyLimits | None:  # fmt: skip
    """The limits of a compute capability such as "9.0", with the device's own values where known; None for an unknown one.

    A capability newer than the table is treated as the newest one of its major version, whose code such devices run.
    """
    try:
        major, minor = (int(part) for part in (capability or "").split("."))
    except ValueError:
        return None
    known = [key for key in _TABLE if key[0] == major and key[1] <= minor]
    if not known:
        return None
    row = _TABLE[max(known)]
    found = OccupancyLimits(
        threads=row[0], blocks=row[1], registers=row[2], shared=row[3] * _KIB, reserved=_KIB if major >= 8 else 0,
        shared_unit=128 if major >= 8 else 256, partitions=2 if (major, minor) == (6, 0) else 4,
    )  # fmt: skip
    reported = {"threads": threads, "blocks": blocks, "registers": registers, "shared": shared}
    return replace(found, **{name: value for name, value in reported.items() if value})


def blocks_per_multiprocessor(
    of: OccupancyLimits, block: int, registers: int, shared: int, configured: int = 0
) -> tuple[int, str]:
    """How many blocks run at once on a multiprocessor, and what limits them (`+` between equal limits).

    Args:
        of: The limits.
        block: Threads of a block.
        registers: Registers of a thread.
        shared: Bytes of static and dynamic shared memory of a block.
        configured: Shared memory that the driver gave the multiprocessor for the kernel; 0: unknown, so all of it counts.

    Returns:
        Blocks (0 when not even one fits), and which of `warps`, `registers`, `shared` and `blocks` limit them.
    """
    if block <= 0 or block > of.threads_per_block:
        return 0, "block size"
    warps = -(-block // of.warp)
    found = {
        "warps": of.threads // of.warp // warps,
        "registers": _by_registers(of, warps, registers),
        "shared": _by_shared(of, shared, configured),
        "blocks": of.blocks,
    }
    least = min(found.values())
    return least, "+".join(name for name, count in found.items() if count == least)


def _by_registers(of: OccupancyLimits, warps: int, registers: int) -> int:
    """Blocks limited by registers, which are allocated to warps in units; a warp's are in one partition of the multiprocessor."""
    per_warp = -(-registers * of.warp // of.register_unit) * of.register_unit
    if not per_warp:
        return of.blocks
    assumed = per_warp * -(-warps // of.partitions) * of.partitions
    if assumed > of.registers_per_block or registers > 256:
        return 0
    return of.registers // of.partitions // per_warp * of.partitions // warps


def _by_shared(of: OccupancyLimits, shared: int, configured: int) -> int:
    taken = -(-(shared + of.reserved) // of.shared_unit) * of.shared_unit
    if not taken:
        return of.blocks
    room = of.shared if configured < taken else min(configured, of.shared)
    return room // taken
