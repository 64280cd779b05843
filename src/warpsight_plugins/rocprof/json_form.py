"""rocprofv3's JSON: one document with every buffer of a run."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa

from warpsight.formats.reading.json_pieces import decode, mapped, records
from warpsight_plugins.rocprof.recording import RocprofRecording, blocks, family, kernel_name

if TYPE_CHECKING:
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target


class _Handle(msgspec.Struct, frozen=True, gc=False):
    """An opaque id of the SDK."""

    handle: int = 0


class _Correlation(msgspec.Struct, frozen=True, gc=False):
    """`internal` joins a call with the work it caused."""

    internal: int = 0


class _Dim(msgspec.Struct, gc=False):
    """Three sizes."""

    x: int = 0
    y: int = 0
    z: int = 0


class _DispatchInfo(msgspec.Struct, gc=False):
    """What was dispatched where; grid_size counts work-items."""

    agent_id: _Handle
    queue_id: _Handle
    kernel_id: int
    workgroup_size: _Dim
    grid_size: _Dim
    private_segment_size: int = 0
    group_segment_size: int = 0


class _Record(msgspec.Struct, gc=False):
    """A record of any buffer; each buffer fills other fields."""

    start_timestamp: int = 0
    end_timestamp: int = 0
    thread_id: int = 0
    kind: int = 0
    operation: int = 0
    correlation_id: _Correlation = _Correlation()
    stream_id: _Handle | None = None
    dispatch_info: _DispatchInfo | None = None
    dst_agent_id: _Handle | None = None
    src_agent_id: _Handle | None = None
    agent_id: _Handle | None = None
    bytes: int | None = None
    address: Any = None
    allocation_size: int | None = None


class _Kind(msgspec.Struct):
    """Names of a buffer's operations."""

    kind: str = ""
    operations: list[str] = []


class _Message(msgspec.Struct):
    """A ROCTx message by correlation id."""

    key: int
    value: str


class _Strings(msgspec.Struct):
    """Names."""

    buffer_records: list[_Kind] = []
    callback_records: list[_Kind] = []
    marker_api: list[_Message] = []


class _Symbol(msgspec.Struct):
    """A kernel of a code object."""

    kernel_id: int = 0
    kernel_name: str = ""
    formatted_kernel_name: str = ""
    arch_vgpr_count: int = 0
    accum_vgpr_count: int = 0
    group_segment_size: int = 0


class _CounterInfo(msgspec.Struct):
    """A hardware counter."""

    id: _Handle = _Handle()
    name: str = ""


class _Node(msgspec.Struct, frozen=True):
    """The machine."""

    hostname: str = ""


class _Metadata(msgspec.Struct):
    """The run."""

    pid: int = 0
    init_time: int = 0
    fini_time: int = 0
    command: list[str] = []
    node: _Node = _Node()


class _Process(msgspec.Struct):
    """One process; buffers stay undecoded."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    agents: list[dict[str, Any]] = []
    counters: list[_CounterInfo] = []
    strings: _Strings = msgspec.field(default_factory=_Strings)
    kernel_symbols: list[_Symbol] = []
    buffer_records: dict[str, msgspec.Raw] = {}
    callback_records: dict[str, msgspec.Raw] = {}


class _Document(msgspec.Struct, rename={"runs": "rocprofiler-sdk-tool"}):
    """The file."""

    runs: list[_Process]


class _DispatchData(msgspec.Struct, gc=False):
    """The dispatch that counters belong to."""

    start_timestamp: int = 0
    dispatch_info: _DispatchInfo | None = None


class _CounterValue(msgspec.Struct, gc=False):
    """One value."""

    counter_id: _Handle = _Handle()
    value: float = 0.0


class _Counted(msgspec.Struct, gc=False):
    """Counters of one dispatch."""

    dispatch_data: _DispatchData
    records: list[_CounterValue] = []


#: Buffers of API calls; their names are in the strings.
_CALLS = (
    "hip_api",
    "hsa_api",
    "rccl_api",
    "rocdecode_api",
    "rocjpeg_api",
    "ompt",
    "hip_runtime_api",
    "hip_compiler_api",
)
_HANDLED = {*_CALLS, "kernel_dispatch", "memory_copy", "marker_api", "memory_allocation", "scratch_memory"}
_GPU = 2


def read_document(source: Source, target: Target) -> None:
    """Read a document.

    Raises:
        FormatError: when it is damaged or not rocprofv3's JSON.
    """
    with mapped(source) as data:
        document = decode(source, data, _Document)
        for run in document.runs:
            _Reader(source, target, run).read()
        del document


class _Reader:
    def __init__(self, source: Source, target: Target, run: _Process) -> None:
        self._source = source
        self._recording = RocprofRecording(target)
        self._target = target
        self._run = run
        about = run.metadata
        self._process = target.process(
            about.pid, host=about.node.hostname, command=shlex.join(about.command),
            start=about.init_time or None, end=about.fini_time or None,
        )  # fmt: skip
        self._agents = {
            agent["id"]["handle"]: self._device(agent)
            for agent in run.agents
            if isinstance(agent.get("id"), dict) and "handle" in agent["id"]
        }
        self._symbols = {symbol.kernel_id: symbol for symbol in run.kernel_symbols}

    def _device(self, agent: dict[str, Any]) -> int | None:
        """Device id of an agent; None for a CPU."""
        if agent.get("type") != _GPU:
            return None
        uuid = (agent.get("uuid") or {}).get("bytes") or {}
        text = bytes(int(byte) & 0xFF for byte in uuid.values()).hex() if isinstance(uuid, dict) else ""
        place = int(agent.get("location_id") or 0)
        banks = [bank.get("size_in_bytes") or 0 for bank in agent.get("mem_banks") or []]
        return self._recording.agent(
            text if text.strip("0") else (self._target.scope, "agent", agent["id"]["handle"]),
            uuid=text,
            index=agent.get("gpu_index", agent.get("logical_node_type_id", 0)),
            name=f"{agent.get('product_name') or ''} ({agent.get('name') or ''})",
            host=self._run.metadata.node.hostname,
            pci=f"{agent.get('domain') or 0:04x}:{place >> 8:02x}:{place >> 3 & 31:02x}.{place & 7:x}",
            multiprocessors=agent.get("cu_count"),
            warp_size=agent.get("wave_front_size"),
            memory_bytes=sum(banks) or None,
            clock_khz=(agent.get("max_engine_clk_fcompute") or 0) * 1000 or None,
            shared_per_multiprocessor=(agent.get("lds_size_in_kb") or 0) * 1024 or None,
        )

    def read(self) -> None:
        """All buffers."""
        buffers = self._run.buffer_records
        self._target.source.update(
            tool="rocprofv3", clock="ns of rocprofiler_get_timestamp", command=self._run.metadata.command
        )
        for piece in records(self._source, buffers.get("kernel_dispatch"), _Record):
            self._kernels(piece)
        for piece in records(self._source, buffers.get("memory_copy"), _Record):
            self._copies(piece)
        for name in _CALLS:
            for piece in records(self._source, buffers.get(name), _Record):
                self._calls(piece)
        for piece in records(self._source, buffers.get("marker_api"), _Record):
            self._ranges(piece)
        for name in ("memory_allocation", "scratch_memory"):
            for piece in records(self._source, buffers.get(name), _Record):
                self._memory(piece, name)
        for counted in records(self._source, self._run.callback_records.get("counter_collection"), _Counted):
            self._counters(counted)
        rest = {
            name: len(decode(self._source, raw, list[msgspec.Raw]))
            for name, raw in buffers.items()
            if name not in _HANDLED
        }
        if named := [f"{name} ({count:,} records)" for name, count in rest.items() if count]:
            self._target.note(f"buffers that were not imported: {', '.join(named)}")

    def _function(self, record: _Record) -> str:
        kinds = self._run.strings.buffer_records
        if record.kind < len(kinds) and record.operation < len(kinds[record.kind].operations):
            return kinds[record.kind].operations[record.operation]
        return f"kind {record.kind} operation {record.operation}"

    def _places(self, piece: list[_Record], agents: list[int | None], queues: list[int]) -> dict[str, Any]:
        streams = [
            queue if record.stream_id is None else record.stream_id.handle
            for record, queue in zip(piece, queues, strict=True)
        ]
        return self._recording.places(np.full(len(piece), self._process), agents, np.array(streams, np.int64))

    def _kernels(self, piece: list[_Record]) -> None:
        if any(record.dispatch_info is None for record in piece):
            raise self._source.error("a record of kernel_dispatch has no dispatch_info")
        infos = [record.dispatch_info for record in piece if record.dispatch_info is not None]
        symbols = [self._symbols.get(info.kernel_id) for info in infos]
        names = [
            kernel_name(symbol.kernel_name) if symbol else f"kernel {info.kernel_id}"
            for symbol, info in zip(symbols, infos, strict=True)
        ]
        group = np.array(
            [[i.workgroup_size.x, i.workgroup_size.y, i.workgroup_size.z] for i in infos], np.int64
        )
        grid = blocks(
            np.array([[i.grid_size.x, i.grid_size.y, i.grid_size.z] for i in infos], np.int64), group
        )
        static = np.array([s.group_segment_size if s else 0 for s in symbols], np.int64)
        total = np.array([i.group_segment_size for i in infos], np.int64)
        shapes = self._recording.shapes(
            {
                **{f"grid_{axis}": grid[:, number] for number, axis in enumerate("xyz")},
                **{f"block_{axis}": group[:, number] for number, axis in enumerate("xyz")},
                "registers": np.array([s.arch_vgpr_count + s.accum_vgpr_count if s else 0 for s in symbols]),
                "shared_static": np.minimum(static, total),
                "shared_dynamic": np.maximum(total - static, 0),
                "local_per_thread": np.array([i.private_segment_size for i in infos], np.int64),
            }
        )
        agents = [self._agents.get(info.agent_id.handle) for info in infos]
        self._recording.add_kernels(
            *_times(piece), self._recording.names(names), shapes,
            self._places(piece, agents, [info.queue_id.handle for info in infos]), _correlations(piece),
        )  # fmt: skip

    def _copies(self, piece: list[_Record]) -> None:
        agents = []
        for record in piece:
            sides = (record.dst_agent_id, record.src_agent_id)
            found = [self._agents.get(side.handle) for side in sides if side is not None]
            agents.append(next((one for one in found if one is not None), None))
        peers = {
            f"{name}_device": pa.array([self._agents.get(s.handle) if s else None for s in side], pa.int16())
            for name, side in (
                ("source", [r.src_agent_id for r in piece]),
                ("destination", [r.dst_agent_id for r in piece]),
            )
        }
        size = np.array([record.bytes or 0 for record in piece], np.int64)
        self._recording.add_copies(
            *_times(piece), size, [self._function(record) for record in piece],
            self._places(piece, agents, [0] * len(piece)), _correlations(piece), **peers,
        )  # fmt: skip

    def _threads_and_process(self, piece: list[_Record]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        threads = np.array([record.thread_id for record in piece], np.int64)
        known = {tid: self._target.thread(self._process, tid) for tid in set(threads.tolist())}
        return np.array([known[tid] for tid in threads.tolist()], np.int64), np.full(
            len(piece), self._process
        )

    def _calls(self, piece: list[_Record]) -> None:
        functions = [self._function(record) for record in piece]
        self._recording.add_calls(
            *_times(piece), functions, *self._threads_and_process(piece), _correlations(piece)
        )

    def _ranges(self, piece: list[_Record]) -> None:
        messages = {one.key: one.value for one in self._run.strings.marker_api}
        functions = [self._function(record) for record in piece]
        texts = [
            messages.get(record.correlation_id.internal, name)
            for record, name in zip(piece, functions, strict=True)
        ]
        self._recording.add_ranges(*_times(piece), functions, texts, *self._threads_and_process(piece))

    def _memory(self, piece: list[_Record], buffer: str) -> None:
        threads, _ = self._threads_and_process(piece)
        self._recording.add_memory(
            [
                {
                    "time": record.start_timestamp,
                    "operation": "free"
                    if "FREE" in name.upper() or "RECLAIM" in name.upper()
                    else "allocate",
                    "address": _address(record.address),
                    "bytes": record.allocation_size,
                    "kind": "scratch" if buffer == "scratch_memory" else "device",
                    "device": self._agents.get(record.agent_id.handle) if record.agent_id else None,
                    "correlation": record.correlation_id.internal or None,
                    "allocator": family(f"{buffer} {name}"),
                    "thread": thread,
                    "process": self._process,
                }
                for record, thread in zip(piece, threads.tolist(), strict=True)
                for name in (self._function(record),)
            ]
        )

    def _counters(self, piece: list[_Counted]) -> None:
        names = {counter.id.handle: counter.name for counter in self._run.counters}
        rows = [
            (
                one.dispatch_data.start_timestamp,
                names.get(value.counter_id.handle, f"counter {value.counter_id.handle}"),
                value.value,
                self._agents.get(info.agent_id.handle) if (info := one.dispatch_data.dispatch_info) else None,
            )
            for one in piece
            for value in one.records
        ]
        if rows:
            time, texts, values, agents = zip(*rows, strict=True)
            self._recording.add_counters(
                np.array(time, np.int64), texts, values, list(agents), np.full(len(rows), self._process)
            )


def _times(piece: list[_Record]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return (
        np.array([record.start_timestamp for record in piece], np.int64),
        np.array([record.end_timestamp for record in piece], np.int64),
    )


def _correlations(piece: list[_Record]) -> pa.Array:
    ids = np.array([record.correlation_id.internal for record in piece], np.int64)
    return pa.array(ids, mask=ids == 0)


def _address(value: Any) -> int:
    """An address: a number, or an object with its handle or value."""
    if isinstance(value, dict):
        value = value.get("handle", value.get("value", 0))
    if isinstance(value, str):
        value = int(value, 0) if value.removeprefix("0x").isalnum() else 0
    return int(value or 0) & 0xFFFFFFFFFFFFFFFF
