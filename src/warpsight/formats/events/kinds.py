"""The kinds of events: the Sanitizer's instruction classes, the patch that records each, and its operands.

`native/sanitizer/patches.cu` has the patches; the numbers are those of `Sanitizer_InstructionId`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EventKind:
    """One kind of event.

    Attributes:
        number: its number in records; name: its name in tables and output; patch: the device function that records it.
        a, b: meaning of the operands, or empty.
        space: memory that operand A points into: global, shared, local, remote, or empty.
    """

    number: int
    name: str
    patch: str
    a: str = ""
    b: str = ""
    space: str = ""

    @property
    def visit(self) -> str:
        """The device function for delay plans, which records the instruction or waits before it."""
        return f"ws_visit_{self.number}"

    @property
    def check(self) -> str:
        """The device function that looks for races."""
        return f"ws_check_{self.number}"


#: Classes of `--events` and their kinds.
CLASSES: dict[str, tuple[EventKind, ...]] = {
    "memory": (
        EventKind(3, "global", "ws_global", "address", space="global"),
        EventKind(4, "shared", "ws_shared", "address", space="shared"),
        EventKind(5, "local", "ws_local", "address", space="local"),
        EventKind(17, "remote_shared", "ws_remote", "address", space="remote"),
        EventKind(19, "matrix", "ws_matrix", "address", "matrices", space="shared"),
        EventKind(14, "copy_async", "ws_copy_async", "address", "shared_address", space="global"),
    ),
    "barriers": (
        EventKind(6, "barrier", "ws_barrier", "barrier", "threads"),
        EventKind(29, "barrier_release", "ws_barrier_release", "barrier", "threads"),
        EventKind(7, "syncwarp", "ws_syncwarp", "lanes"),
        EventKind(33, "syncwarp_release", "ws_syncwarp_release", "lanes"),
    ),
    "blocks": (
        EventKind(1, "block_enter", "ws_block_enter"),
        EventKind(2, "block_exit", "ws_block_exit"),
    ),
    "shuffle": (EventKind(8, "shuffle", "ws_shuffle"),),
    "mbarrier": (
        EventKind(13, "mbarrier", "ws_mbarrier", "shared_address", "data"),
        EventKind(39, "mbarrier_attempt", "ws_mbarrier_attempt", "shared_address", "data"),
        EventKind(34, "copy_async_barrier", "ws_copy_async_barrier", "shared_address"),
        EventKind(15, "pipeline_commit", "ws_pipeline_commit"),
        EventKind(16, "pipeline_wait", "ws_pipeline_wait", "groups"),
    ),
    "tma": (
        EventKind(30, "bulk_load", "ws_bulk_load", "address", "shared_address_and_blocks"),
        EventKind(35, "bulk_store", "ws_bulk_store", "address", "shared_address_and_blocks"),
        EventKind(36, "bulk_shared", "ws_bulk_shared", "shared_address", "shared_address_and_blocks"),
        EventKind(37, "bulk_reduce", "ws_bulk_reduce", "address", "shared_address_and_blocks"),
        EventKind(38, "bulk_reduce_shared", "ws_bulk_reduce_shared", "shared_address", "shared_address_and_blocks"),
        EventKind(26, "store_async", "ws_store_async", "shared_address", "barrier"),
        EventKind(27, "reduce_async", "ws_reduce_async", "shared_address", "barrier"),
        EventKind(32, "memset_shared", "ws_memset_shared", "shared_address", "blocks"),
    ),
    "cluster": (
        EventKind(21, "cluster_arrive", "ws_cluster_arrive"),
        EventKind(22, "cluster_wait", "ws_cluster_wait"),
    ),
    "wgmma": (
        EventKind(23, "wgmma", "ws_wgmma", "matrix_a", "matrix_b"),
        EventKind(24, "wgmma_wait", "ws_wgmma_wait", "groups"),
        EventKind(25, "wgmma_fence", "ws_wgmma_fence"),
    ),
    "tcgen05": (EventKind(31, "tensor_barrier", "ws_tensor_barrier", "shared_address"),),
    "calls": (
        EventKind(9, "call", "ws_call", "target"),
        EventKind(10, "return", "ws_return"),
    ),
    "malloc": (
        EventKind(11, "malloc", "ws_malloc", "address", "bytes"),
        EventKind(18, "aligned_malloc", "ws_aligned_malloc", "address", "bytes"),
        EventKind(12, "free", "ws_free", "address"),
    ),
}  # fmt: skip
#: Requested in addition to classes: the values that accesses of class memory load and store.
VALUES = "values"

#: Classes that the NVBit tool records, which can do `memory` as well.
INSTRUCTIONS, REGISTERS, TENSOR_COPIES = "instructions", "registers", "tensor-copies"
EXECUTED = EventKind(66, "instruction", "")
READ_REGISTERS = EventKind(67, "registers", "")
TENSOR_COPY = EventKind(70, "tensor_copy", "")
#: The content of a tensor map, which copies name; no event.
TENSOR_MAP = EventKind(71, "tensor_map", "")

#: The kind of record for a warp's delay; its flags hold the class of the instruction it waited before.
DELAY = EventKind(64, "delay", "", "delay_ns", "occurrence")

#: Records written by race detection on the device: a race, and the accesses it skipped.
RACE = EventKind(68, "race", "", "address", "earlier")
UNWATCHED = EventKind(69, "unwatched", "", "cause", "")
#: Classes that it has patches for: accesses, and what orders them.
CHECKED = (3, 4, 6, 13, 14, 15, 16, 17, 19, 21, 22, 29, 30, 33, 34, 35, 37, 39)

KINDS = {
    kind.number: kind
    for kinds in (
        *CLASSES.values(),
        (DELAY, EXECUTED, READ_REGISTERS, TENSOR_COPY, TENSOR_MAP, RACE, UNWATCHED),
    )
    for kind in kinds
}
#: Kinds whose operand A is an address of an access, lane by lane.
ACCESSES = tuple(kind.number for kind in CLASSES["memory"])
BY_NAME = {kind.name: kind for kind in KINDS.values()}

#: Flags of an access.
READ, WRITE, SYSTEM, PREFETCH = 1, 2, 4, 8
