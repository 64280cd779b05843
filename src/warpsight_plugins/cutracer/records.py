"""The records of an instruction trace in CUTracer's NDJSON (versions 0.1 to 0.4), each type defined once.

From these types come the columns a chunk is read into, the validation of a record and the published JSON Schema. Fields that only
some versions have are optional; a field that no version has is an error.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

#: Hexadecimal text. The pattern is in the schema only: checking it while decoding takes longer than decoding, so
#: :data:`HEX_FIELDS` are checked once per distinct text instead.
HEX = r"^(0x)?[0-9a-fA-F]+$"
_Hex = Annotated[str, msgspec.Meta(extra_json_schema={"pattern": HEX})]
HEX_FIELDS = ("ctx", "pc", "active_mask")
Natural = Annotated[int, msgspec.Meta(ge=0)]
_Triple = Annotated[list[int], msgspec.Meta(min_length=3, max_length=3)]
Lanes = Annotated[list[Natural], msgspec.Meta(min_length=32, max_length=32)]
_LaneValues = Annotated[list[list[Natural]], msgspec.Meta(min_length=32, max_length=32)]


class _Record(
    msgspec.Struct, tag_field="type", forbid_unknown_fields=True, kw_only=True, frozen=True, gc=False
):
    """A line of a trace."""


class InstructionRecord(_Record, kw_only=True, frozen=True, gc=False):
    """The fields of every record of an instruction."""

    trace_index: Natural
    cta: _Triple
    warp: Natural
    pc: _Hex
    sass: str | None = None
    ipoint: str | None = None
    active_mask: _Hex | None = None


class ExecutedRecord(InstructionRecord, kw_only=True, frozen=True, gc=False):
    """The fields of every record of an executed instruction."""

    ctx: _Hex
    timestamp: Natural
    grid_launch_id: Natural
    opcode_id: Natural


class OpcodeOnly(InstructionRecord, tag="opcode_only", kw_only=True, frozen=True, gc=False):
    """An executed instruction, or a warp seen by cuda-gdb; only executed ones have the fields in :data:`TRACED`."""

    ctx: _Hex | None = None
    timestamp: Natural | None = None
    grid_launch_id: Natural | None = None
    opcode_id: Natural | None = None
    cuda_warp_slot: int | None = None
    first_active_threadidx: _Triple | None = None
    pc_runtime: _Hex | None = None
    pc_address_space: Literal["kernel_offset", "absolute"] | None = None
    observed_pc: _Hex | None = None
    observed_pc_runtime: _Hex | None = None
    observed_sass: str | None = None
    source_type: Literal["gdb_trace", "gdb_direct", "gdb_inferred"] | None = None
    pc_semantics: str | None = None
    cuda_focus_status: str | None = None
    sass_context: Any = None
    operand_capture_lane: Natural | None = None
    registers: dict[str, int] | None = None
    read_errors: list[str] | None = None
    memory_addresses: list[dict[str, Any]] | None = None


class RegTrace(ExecutedRecord, tag="reg_trace", kw_only=True, frozen=True, gc=False):
    """Registers of all lanes: `regs[register][lane]`; register numbers are in `regs_indices`, which version 0.1 did not write."""

    regs: list[Lanes]
    regs_indices: list[Natural] | None = None
    uregs: list[Natural] | None = None
    uregs_indices: list[Natural] | None = None


class MemTrace(ExecutedRecord, tag="mem_trace", kw_only=True, frozen=True, gc=False):
    """Addresses of one memory access, one per lane, as early versions wrote them."""

    addrs: Lanes


class MemAddrTrace(ExecutedRecord, tag="mem_addr_trace", kw_only=True, frozen=True, gc=False):
    """Addresses of one memory access, one per lane."""

    addrs: Lanes
    static_memory_space: str | int | None = None
    cluster_shared_mask: _Hex | int | None = None
    issuer_cluster_rank: int | None = None
    target_cluster_ranks: list[int] | None = None
    cluster_attribution: Any = None


class MemValueTrace(ExecutedRecord, tag="mem_value_trace", kw_only=True, frozen=True, gc=False):
    """Addresses and 32-bit values of one memory access: `values[lane][word]`."""

    mem_space: int
    is_load: bool
    access_size: Natural
    addrs: Lanes
    values: _LaneValues


class TmaTrace(ExecutedRecord, tag="tma_trace", kw_only=True, frozen=True, gc=False):
    """A bulk or tensor copy, with the decoded descriptor."""

    tma_param_size: int | None = None
    desc_addr: _Hex | None = None
    tma_transfer_info: dict[str, Any] | None = None
    desc_raw: list[int] | None = None


class KernelMetadata(_Record, tag="kernel_metadata", kw_only=True, frozen=True, gc=False):
    """The kernel of the file: the first line since 0.2."""

    mangled_name: str
    unmangled_name: str
    kernel_checksum: _Hex
    func_addr: _Hex
    nregs: Natural
    shmem_static: Natural
    shmem_dynamic: Natural
    grid: _Triple
    block: _Triple
    cubin_path: str | None = None
    cpu_callstack: list[str] | None = None
    cpu_callstack_source: str | None = None
    instructions: dict[str, dict[str, Any]] | None = None
    sm_family: Any = None
    cluster_dim: Any = None
    cluster_size: Any = None
    cluster_dim_source: Any = None
    instrument_modes: Any = None
    instrument_ipoints: Any = None
    instr_categories: Any = None
    cubin_sha256: str | None = None
    capture_config: Any = None


class CaptureCompletion(_Record, tag="capture_completion", kw_only=True, frozen=True, gc=False):
    """The last line since 0.4: whether everything of the launch is in the file."""

    version: int
    grid_launch_id: Natural
    status: Literal["complete", "incomplete"]
    kernel_completed: bool
    channel_drained: bool
    trace_records_written: Natural
    dropped_records: Natural
    errors: list[str] | None = None


class KernelLaunch(_Record, tag="kernel_launch", kw_only=True, frozen=True, gc=False):
    """A launch, in a file of kernel events."""

    kernel_launch_id: Natural
    kernel_name: str
    kernel_checksum: str
    grid: _Triple
    block: _Triple
    nregs: Natural
    shmem: Natural
    stream_id: int
    callstack_id: str | None = None
    cpu_callstack: list[str] | None = None
    cpu_callstack_source: str | None = None
    correlation_id: int | None = None
    pid: int | None = None


class CallstackDef(_Record, tag="callstack_def", kw_only=True, frozen=True, gc=False):
    """A host stack, before its first use by a launch."""

    callstack_id: str
    frames: list[str]
    source: str


Record = (
    OpcodeOnly
    | RegTrace
    | MemTrace
    | MemAddrTrace
    | MemValueTrace
    | TmaTrace
    | KernelMetadata
    | CaptureCompletion
    | KernelLaunch
    | CallstackDef
)
#: Records that describe the file rather than something that happened.
DESCRIBING = frozenset({"kernel_metadata", "capture_completion", "callstack_def"})
#: Fields with one type in every record that has them.
FIELDS: dict[str, Any] = {
    "type": str, "ctx": str, "trace_index": int, "timestamp": int, "grid_launch_id": int, "cta": list[int], "warp": int,
    "opcode_id": int, "pc": str, "sass": str, "ipoint": str, "active_mask": str, "mem_space": int, "is_load": bool,
    "access_size": int, "kernel_launch_id": int, "kernel_name": str, "kernel_checksum": str, "grid": list[int],
    "block": list[int], "nregs": int, "shmem": int, "stream_id": int, "callstack_id": str, "cluster_dim": list[int],
    "correlation_id": int,
}  # fmt: skip
EVENTS = ("opcode_only", "reg_trace", "mem_trace", "mem_addr_trace", "mem_value_trace", "tma_trace")
#: Fields of an executed instruction that a sample of cuda-gdb lacks.
TRACED = ("ctx", "timestamp", "grid_launch_id", "opcode_id")


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of one line."""
    schema = msgspec.json.schema(Record)
    traced = [{"required": [name]} for name in TRACED]
    schema["$defs"]["OpcodeOnly"]["oneOf"] = [
        {"required": list(TRACED)},
        {"required": ["sass"], "not": {"anyOf": traced}},
    ]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
