"""The layout of a CUDA core dump: section types, rows of its tables and the meaning of their codes.

Based on NVIDIA's public description of the format, `cudacoredump.h`, and `cudadebugger.h` for the codes (both BSD-licensed,
shipped with the toolkit's debugger). A dump is an ELF file of type ET_CORE for machine 190; everything is in sections.
Tables form a tree: `sh_link` is the section of the parent's table, `sh_info` the row in it. Rows grow with drivers: the
stride is `sh_entsize`, fields that an older driver lacks read as zero, and unknown fields are skipped.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np

_USER = 0x80000000


class Kind(enum.IntEnum):
    """Contents of a section: `sh_type` without SHT_LOUSER."""

    MANAGED = 1
    GLOBAL = 2
    LOCAL = 3
    SHARED = 4
    REGISTERS = 5
    IMAGE = 6
    RELOCATED_IMAGE = 7
    BACKTRACE = 8
    DEVICES = 9
    CONTEXTS = 10
    SMS = 11
    GRIDS = 12
    BLOCKS = 13
    WARPS = 14
    LANES = 15
    MODULES = 16
    PREDICATES = 17
    PARAMETERS = 18
    UNIFORM_REGISTERS = 19
    UNIFORM_PREDICATES = 20
    CONSTANT_BANKS = 21
    METADATA = 22
    CONVERGENCE_BARRIERS = 23

    @property
    def section_type(self) -> int:
        """The value of `sh_type`."""
        return _USER + self.value


def _row(text: str) -> np.dtype[np.void]:
    """A dtype of consecutive fields: `name`, `name:8` for eight bytes, `name*3` for an array of three."""
    fields: list[tuple[str, str] | tuple[str, str, tuple[int, ...]]] = []
    for word in text.split():
        name, _, size = word.partition(":")
        name, _, length = name.partition("*")
        kind = "<u8" if size == "8" else "<u4"
        fields.append((name, kind, (int(length),)) if length else (name, kind))
    return np.dtype(fields)


@dataclass(frozen=True)
class _TableLayout:
    """One table: its row, and the table whose rows own its sections (None: the file)."""

    kind: Kind
    parent: Kind | None
    row: np.dtype[np.void]


TABLES: dict[Kind, _TableLayout] = {
    table.kind: table
    for table in (
        _TableLayout(Kind.METADATA, None, _row(
            "generator:8 driver_major driver_minor cuda_major cuda_minor flags timestamp")),
        _TableLayout(Kind.DEVICES, None, _row(
            "name:8 type:8 sm_type:8 id pci_bus pci_device sms warps_per_sm lanes_per_warp registers_per_lane "
            "predicates_per_lane sm_major sm_minor instruction_size status "
            "uniform_registers uniform_predicates convergence_barriers pad0")),
        _TableLayout(Kind.CONTEXTS, Kind.DEVICES, _row(
            "id:8 shared_window:8 local_window:8 global_window:8 device tid")),
        _TableLayout(Kind.MODULES, Kind.CONTEXTS, _row("handle:8")),
        _TableLayout(Kind.GRIDS, Kind.DEVICES, _row(
            "id:8 context:8 function:8 entry:8 module:8 parent:8 parameters_offset:8 kernel_type origin status registers "
            "grid*3 block*3 blocking host_tid cluster*3 pad0 preferred_cluster*3 pad1")),
        _TableLayout(Kind.CONSTANT_BANKS, Kind.GRIDS, _row("address:8 size bank")),
        _TableLayout(Kind.SMS, Kind.DEVICES, _row(
            "id pad0 exception error_pc_valid error_pc:8 target_valid target*3 message:8")),
        _TableLayout(Kind.BLOCKS, Kind.SMS, _row(
            "grid_id:8 index*3 pad0 cluster*3 pad1 cluster_size*3 pad2")),
        _TableLayout(Kind.WARPS, Kind.BLOCKS, _row(
            "error_pc:8 id valid active broken error_pc_valid pad0 registers pad1 shared_size pad2 "
            "in_syscall cbu_active cbu_exited cbu_collective barrier_scope pad3 barrier_info:8")),
        _TableLayout(Kind.LANES, Kind.WARPS, _row(
            "pc:8 offset:8 lane thread*3 exception call_depth syscall_depth cc state pad0 rpc_low rpc_high")),
        _TableLayout(Kind.BACKTRACE, Kind.LANES, _row("offset:8 address:8 level pad0")),
    )
}  # fmt: skip

#: The parent of a section without rows: the table whose row is its `sh_info`.
OWNERS: dict[Kind, Kind] = {
    Kind.IMAGE: Kind.MODULES,
    Kind.RELOCATED_IMAGE: Kind.MODULES,
    Kind.PARAMETERS: Kind.GRIDS,
    Kind.SHARED: Kind.BLOCKS,
    Kind.UNIFORM_REGISTERS: Kind.WARPS,
    Kind.UNIFORM_PREDICATES: Kind.WARPS,
    Kind.CONVERGENCE_BARRIERS: Kind.WARPS,
    Kind.REGISTERS: Kind.LANES,
    Kind.PREDICATES: Kind.LANES,
    Kind.LOCAL: Kind.LANES,
}

#: CUDBGException_t in the debugger's words. 11, 13, 15 and 16 are not reported since CUDA 13.1.
_EXCEPTIONS: dict[int, str] = {
    1: "Lane Illegal Address",
    2: "Lane User Stack Overflow",
    3: "Device Hardware Stack Overflow",
    4: "Warp Illegal Instruction",
    5: "Warp Out-of-range Address",
    6: "Warp Misaligned Address",
    7: "Warp Invalid Address Space",
    8: "Warp Invalid PC",
    9: "Warp Hardware Stack Overflow",
    10: "Device Illegal Address",
    11: "Lane Misaligned Address",
    12: "Warp Assert",
    13: "Lane Syscall Error",
    14: "Warp Illegal Address",
    15: "Lane Non-migratable Atomic",
    16: "Lane Invalid Atomic",
    17: "Cluster Out-of-range Address",
    18: "Cluster Block Not Present",
    19: "Warp Stack Canary",
    20: "Warp Tensor Memory Access Check",
    21: "Warp Tensor Memory Leak",
    22: "Warp Call Requires Newer Driver",
    23: "Warp Misaligned PC",
    24: "Warp PC Overflow",
    25: "Warp Misaligned Register",
    26: "Warp Illegal Instruction Encoding",
    27: "Warp Illegal Instruction Parameter",
    28: "Warp Out-of-range Register",
    29: "Warp Invalid Constant Address",
    30: "Warp MMU Fault",
    31: "Warp Barrier Arrival Mismatch",
    32: "Cluster Shared Memory Issue",
    33: "Warp API Stack Error",
    34: "Warp Block Not Present",
    35: "Warp User Stack Overflow",
    36: "TMA Syscall Error",
}

#: CUDBGGridStatus.
GRID_STATUS = ("invalid", "pending", "active", "sleeping", "terminated", "undetermined")

#: CUDBGBarrierScope (driver 590 and later).
BARRIER_SCOPES = ("", "warp", "warp group", "block", "cluster", "kernel")

#: CUDBGCbuThreadState (driver 575 and later); from 9 on a lane is blocked at convergence barrier B0, B1, …
_LANE_STATES = (
    "exited", "ready", "yielded", "sleeping", "sleeping, yielded", "ready at next", "blocked", "blocked on all",
    "blocked in a collective",
)  # fmt: skip

#: CUDBGCoredumpGenerationFlags, bit by bit.
FLAGS = (
    "skip_nonrelocated_elf_images", "skip_global_memory", "skip_shared_memory", "skip_local_memory", "skip_abort",
    "skip_constbank_memory", "gzip_compress", "faulted_contexts_only",
)  # fmt: skip


def exception_name(code: int) -> str:
    """The debugger's name of an exception, or its number if unknown."""
    return _EXCEPTIONS.get(code, f"Unknown Exception {code}")


def lane_state(code: int) -> str:
    """The state of a lane in the convergence unit."""
    if code < len(_LANE_STATES):
        return _LANE_STATES[code]
    return f"blocked at convergence barrier B{code - 9}" if code <= 24 else f"state {code}"
