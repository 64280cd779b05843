"""One event of a Kineto trace, typed, so that decoding gives numbers where numbers are.

All arguments of all categories are one structure: decoding an event and its arguments in one go takes less time than
decoding the arguments once more (benchmarks/import_kineto.py). A field that is not listed, or a value of another type, fails
the quick decoder; the piece is then decoded event by event and what is unknown is kept as JSON in `extra`.
"""

from __future__ import annotations

from typing import Any

import msgspec

Raw = msgspec.Raw
NOTHING = Raw(b"")
Triple = tuple[int, int, int]

_NAMES = {
    "external": "External id",
    "record_function": "Record function id",
    "ev_idx": "Ev Idx",
    "concrete": "Concrete Inputs",
    "types": "Input type",
    "strides": "Input Strides",
    "dims": "Input Dims",
    "sequence": "Sequence number",
    "forward_thread": "Fwd thread id",
    "call_stack": "Call stack",
    "module_hierarchy": "Module Hierarchy",
    "backend": "Backend",
    "python_parent": "Python parent id",
    "python_id": "Python id",
    "python_module": "Python module id",
    "python_thread": "Python thread",
    "total_reserved": "Total Reserved",
    "total_allocated": "Total Allocated",
    "memory_bytes": "Bytes",
    "address": "Addr",
    "device_id": "Device Id",
    "device_type": "Device Type",
    "registers": "registers per thread",
    "shared": "shared memory",
    "blocks_per_sm": "blocks per SM",
    "warps_per_sm": "warps per SM",
    "achieved": "est. achieved occupancy %",
    "bandwidth": "memory bandwidth (GB/s)",
    "graph": "graph id",
    "graph_node": "graph node id",
    "sync_kind": "cuda_sync_kind",
    "wait_stream": "wait_on_stream",
    "wait_correlation": "wait_on_cuda_event_record_corr_id",
    "wait_event": "wait_on_cuda_event_id",
    "from_device": "fromDevice",
    "in_device": "inDevice",
    "to_device": "toDevice",
    "from_context": "fromContext",
    "in_context": "inContext",
    "to_context": "toContext",
    "collective": "Collective name",
    "in_elements": "In msg nelems",
    "out_elements": "Out msg nelems",
    "group_size": "Group size",
    "in_split": "In split size",
    "out_split": "Out split size",
    "group_name": "Process Group Name",
    "group_description": "Process Group Description",
    "group_ranks": "Process Group Ranks",
    "source_rank": "Src Rank",
    "destination_rank": "Dst Rank",
    "collective_sequence": "Seq",
    "global_rank_start": "Global rank start",
    "global_rank_stride": "Global rank stride",
    "op_count": "Op count",
}


class Args(msgspec.Struct, gc=False, forbid_unknown_fields=True, rename=_NAMES):
    """Arguments that most events have, of any category, in the order in which Kineto writes them most often."""

    external: int | None = None
    record_function: int | None = None
    # operators
    concrete: Raw = NOTHING
    types: Raw = NOTHING
    strides: Raw = NOTHING
    finished: bool | None = None
    dims: Raw = NOTHING
    forward_thread: int | None = None
    sequence: int | None = None
    ev_idx: int | None = None
    # Python functions
    python_parent: int | None = None
    python_module: int | None = None
    python_id: int | None = None
    # runtime calls
    kernel: str | None = None
    cbid: int | None = None
    cid: int | None = None
    # memory
    total_reserved: int | None = None
    total_allocated: int | None = None
    memory_bytes: int | None = None
    device_id: int | None = None
    device_type: int | None = None
    address: int | None = None
    # device work
    queued: int | None = None
    device: int | None = None
    context: int | None = None
    stream: int | None = None
    correlation: int | None = None
    kind: str | None = None
    bytes: int | str | None = None
    bandwidth: Raw = NOTHING
    registers: int | None = None
    shared: int | None = None
    blocks_per_sm: Raw = NOTHING
    warps_per_sm: Raw = NOTHING
    grid: Triple | None = None
    block: Triple | None = None
    achieved: Raw = NOTHING
    occupancy: Raw = NOTHING
    graph: int | None = None
    graph_node: int | None = None
    op_count: int | None = None
    # names of processes and threads
    name: str | None = None
    labels: str | None = None
    sort_index: int | None = None


class MoreArgs(Args, gc=False, forbid_unknown_fields=True, rename=_NAMES):
    """All arguments: decoding is slower by half, so it begins with the first piece that needs it."""

    hsa_queue: int | None = None
    priority: int | None = None
    channel: int | None = None
    channel_type: int | None = None
    src: str | None = None
    dst: str | None = None
    ptr: str | None = None
    # synchronisation
    sync_kind: str | None = None
    wait_stream: int | None = None
    wait_correlation: int | None = None
    wait_event: int | None = None
    event_id: int | None = None
    # peer copies
    from_device: int | None = None
    in_device: int | None = None
    to_device: int | None = None
    from_context: int | None = None
    in_context: int | None = None
    to_context: int | None = None
    # collectives
    collective: str | None = None
    dtype: str | None = None
    in_elements: int | None = None
    out_elements: int | None = None
    group_size: int | None = None
    in_split: Raw = NOTHING
    out_split: Raw = NOTHING
    group_name: Raw = NOTHING
    group_description: Raw = NOTHING
    group_ranks: Raw = NOTHING
    source_rank: Raw = NOTHING
    destination_rank: Raw = NOTHING
    collective_sequence: Raw = NOTHING
    global_rank_start: Raw = NOTHING
    global_rank_stride: Raw = NOTHING
    # seldom
    call_stack: str | None = None
    module_hierarchy: Raw = NOTHING
    backend: Raw = NOTHING
    python_thread: int | None = None


class Event(msgspec.Struct, gc=False, forbid_unknown_fields=True, rename={"extra": "(extra)"}):
    """An event as it stands in the file; `extra` holds fields that are not listed, as JSON text."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: Raw = NOTHING
    dur: Raw = NOTHING
    args: Args | None = None
    id: int | str | None = None
    bp: str = ""
    s: str = ""
    extra: dict[str, str] | None = None


class _MoreEvent(Event, gc=False, forbid_unknown_fields=True, rename={"extra": "(extra)"}):
    args: MoreArgs | None = None


NO_ARGS = MoreArgs()
_FEW = msgspec.json.Decoder(list[Event])
_MORE = msgspec.json.Decoder(list[_MoreEvent])
_RAWS = msgspec.json.Decoder(list[Raw])
_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_EVENT = msgspec.json.Decoder(_MoreEvent)
_ARGS = msgspec.json.Decoder(MoreArgs)
_EVENT_KEYS = frozenset(f.encode_name for f in msgspec.structs.fields(_MoreEvent)) - {"(extra)", "args"}
_ARGS_KEYS = frozenset(f.encode_name for f in msgspec.structs.fields(MoreArgs))


class Decoder:
    """Decodes pieces of a file; remembers which arguments occur in it."""

    def __init__(self) -> None:
        self._quick: Any = _FEW

    def __call__(self, data: bytes) -> list[Event]:
        """Events of a JSON array; what is no object is left out.

        Raises:
            msgspec.DecodeError: when it is no array.
        """
        try:
            return self._decode(data)
        except UnicodeDecodeError:
            return self._decode(data.decode("utf-8", "replace").encode())

    def _decode(self, data: bytes) -> list[Event]:
        events: list[Event]
        try:
            events = self._quick.decode(data)
            return events
        except msgspec.ValidationError:
            pass
        try:
            events = list[Event](_MORE.decode(data))
        except msgspec.ValidationError:
            return [event for raw in _RAWS.decode(data) if (event := _one(raw)) is not None]
        self._quick = _MORE
        return events


def _one(raw: Any) -> Event | None:
    """An event that may have fields or types that nobody knows."""
    try:
        event: Event = _EVENT.decode(raw)
        return event
    except msgspec.ValidationError:
        pass
    try:
        fields = _OBJECT.decode(raw)
    except msgspec.ValidationError:
        return None
    extra: dict[str, str] = {}
    args = fields.pop("args", None)
    event = _fitting(_EVENT, fields, _EVENT_KEYS, extra)
    if args is not None:
        try:
            inner = _OBJECT.decode(args)
        except msgspec.ValidationError:
            extra["args"] = bytes(args).decode()
        else:
            event.args = _fitting(_ARGS, inner, _ARGS_KEYS, extra)
    event.extra = extra or None
    return event


def _fitting(decoder: Any, fields: dict[str, Raw], known: frozenset[str], extra: dict[str, str]) -> Any:
    """Decode the fields that are known and have a type that fits; all others go to `extra`."""
    kept: list[bytes] = []
    for key, value in fields.items():
        member = msgspec.json.encode(key) + b":" + bytes(value)
        if key in known:
            try:
                decoder.decode(b"{" + member + b"}")
                kept.append(member)
                continue
            except msgspec.ValidationError:
                pass
        extra[key] = bytes(value).decode("utf-8", "replace")
    return decoder.decode(b"{" + b",".join(kept) + b"}")
