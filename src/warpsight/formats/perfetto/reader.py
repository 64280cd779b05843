"""Reading Perfetto's protobuf, packet by packet."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from warpsight.formats.chrome.rows import RowBuilder
from warpsight.formats.perfetto import framing
from warpsight.formats.perfetto.sequences import PacketClocks, PacketSequence, annotation_values
from warpsight.formats.perfetto.tracks import Slice, TrackDescriptors
from warpsight.formats.registry import Coverage, Options
from warpsight.formats.source import Source
from warpsight.formats.target import Target

if TYPE_CHECKING:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket, TrackEvent

COVERAGE = Coverage(
    kept=(
        "track events with annotations; all clocks; threads and tracks; GPU render stages as kernels; "
        "rocprofv3's dispatches, copies and calls",
    ),
    lost=(
        "ftrace, heap profiles, GPU counters, Android and Chrome packets: counted in `loss`",
        "flows, legacy events, call stacks of events",
    ),
    tested=("warpsight's export; every kind of time and name, written with Perfetto's message definitions",),
)
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
_ROWS = 20_000
#: A trace that expands to more packets than this, and to this many per byte of the file, was crafted to exhaust its reader: real
#: packets take several bytes each, even compressed.
MOST_PACKETS, MOST_PACKETS_A_BYTE = 200_000, 4
#: Packets unrelated to the program.
_SILENT = frozenset((
    "timestamp", "timestamp_clock_id", "trusted_uid", "trusted_packet_sequence_id", "trusted_pid", "interned_data",
    "sequence_flags", "incremental_state_cleared", "trace_packet_defaults", "previous_packet_dropped", "machine_id",
    "first_packet_on_sequence", "clock_snapshot", "track_descriptor", "track_event", "trace_uuid", "trace_config", "trace_stats",
    "service_event", "synchronization_marker", "trace_provenance", "trace_attributes", "extension_descriptor",
    "process_descriptor", "thread_descriptor", "gpu_render_stage_event", "compressed_packets", "gpu_info",
))  # fmt: skip


def sniff(source: Source) -> bool:
    """Whether the head is TracePackets: field 1 repeated, with fields that packets have."""
    head = source.head
    if head[:1] != b"\x0a":
        return False
    known = 0
    place = 0
    try:
        while known < 4 and (found := framing.next_field(head, place)) is not None:
            start, place, is_packet = found
            if not is_packet:
                return False
            fields = _fields(head[start:place])
            if not fields & {8, 10, 11, 60, 33, 6} or 0 in fields:
                return False
            known += bool(fields & {10, 11, 60, 33})
    except ValueError:
        return False
    return known > 0


def _fields(packet: bytes) -> set[int]:
    """Field numbers of a message whose wire types match a TracePacket's; other fields get 0."""
    numbers: set[int] = set()
    place = 0
    varints = {3, 8, 10, 13, 41, 42, 58, 79, 87, 98}
    while place < len(packet):
        tag = framing.varint(packet, place)
        if tag is None:
            return numbers | {0}
        field, wire_type = tag[0] >> 3, tag[0] & 7
        value = framing.varint(packet, tag[1]) if wire_type in (0, 2) else None
        if value is None or (wire_type == 0) != (field in varints):
            return numbers | {0}
        numbers.add(field)
        place = value[1] + (value[0] if wire_type == 2 else 0)
    return numbers


def read(source: Source, target: Target, options: Options) -> None:
    """Read one file."""
    from google.protobuf.message import DecodeError
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

    reading = _Reading(source, target)
    packets = framing.Packets(source)
    most = left = MOST_PACKETS + MOST_PACKETS_A_BYTE * source.size
    for offset, data in packets:
        left -= 1
        try:
            packet = pb.TracePacket.FromString(data)
            reading.packet(packet)
            for inner in framing.unfold(packet):
                left -= 1
                if left <= 0:
                    break
                reading.packet(pb.TracePacket.FromString(inner))
        except (DecodeError, ValueError) as error:
            reading.damaged.append((offset, str(error)))
        if left <= 0:
            source.ended_early(
                f"{source.size:,} bytes unfold to more than {most:,} packets, which no recorder writes: the rest is not read"
            )
            break
    if not packets.count or len(reading.damaged) == packets.count:
        raise source.error("holds no packets of a Perfetto trace")
    reading.close()


#: Annotations of rocprofv3's traces, by the names that other dialects have for them.
_ROCPROF = {"corr_id": "correlation", "agent": "device", "stream_ID": "stream", "stream_id": "stream"}


def _renamed(arguments: dict[str, Any]) -> dict[str, Any]:
    """Annotations under the names that rows use; those for times that the event has itself are left out."""
    if "corr_id" not in arguments:
        return arguments
    return {
        _ROCPROF.get(key, key): value
        for key, value in arguments.items()
        if key not in ("begin_ns", "end_ns", "delta_ns")
    }


def _unfolded(arguments: dict[str, Any]) -> dict[str, Any]:
    """Annotations, expanding those that our own export writes as one JSON object."""
    text = arguments.get("attributes")
    if not isinstance(text, str) or text[:1] != "{":
        return arguments
    try:
        members = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        return arguments
    return {**{key: value for key, value in arguments.items() if key != "attributes"}, **members}


class _Reading:
    def __init__(self, source: Source, target: Target) -> None:
        self.source = source
        self.target = target
        self.tracks = TrackDescriptors(target)
        self.rows = RowBuilder(target, self.tracks)
        self.clocks = PacketClocks()
        self.damaged: list[tuple[int, str]] = []
        self._sequences: dict[int, PacketSequence] = {}
        self._begun: dict[int, list[tuple[Slice, int]]] = {}
        self._lost: Counter[str] = Counter()
        self._counters: dict[str, list[Any]] = {c: [] for c in ("time", "name", "value", "unit", "process")}
        self._kernels: list[dict[str, Any]] = []
        self._waiting = 0

    def packet(self, packet: TracePacket) -> None:
        sequence = self._sequences.setdefault(packet.trusted_packet_sequence_id, PacketSequence())
        sequence.take(packet)
        if packet.HasField("clock_snapshot"):
            self.clocks.snapshot(packet.clock_snapshot, sequence)
        elif packet.HasField("track_event"):
            self._event(packet, sequence)
        elif packet.HasField("track_descriptor"):
            self.tracks.learn(packet.track_descriptor)
        elif packet.HasField("gpu_render_stage_event"):
            self._stage(packet, sequence)
        else:
            for field, _ in packet.ListFields():
                if field.name not in _SILENT:
                    self._lost[f"packets of kind {field.name}"] += 1
        if packet.previous_packet_dropped:
            self._lost["packets that the recorder dropped (at least one each)"] += 1
        if self._waiting >= _ROWS:
            self._flush()

    def _event(self, packet: TracePacket, sequence: PacketSequence) -> None:
        event = packet.track_event
        time = self.clocks.time(packet, sequence)
        if time is None or time >= 1 << 62:
            self._lost["events whose clock is not known"] += 1
            return
        track = event.track_uuid if event.HasField("track_uuid") else sequence.track
        self._waiting += 1
        if event.type == _BEGIN:
            self._begun.setdefault(track, []).append((self._slice(event, track, sequence), time))
        elif event.type == _END:
            begun = self._begun.get(track)
            if begun:
                opened, start = begun.pop()
                self.rows.complete(opened, start, max(time - start, 0))
            else:
                self._lost["ends of ranges that never began"] += 1
        elif event.type == _INSTANT:
            self.rows.instant(self._slice(event, track, sequence), time)
        elif event.type == _COUNTER:
            value = (
                event.double_counter_value if event.HasField("double_counter_value") else event.counter_value
            )
            self._counter(track, time, float(value))
        else:
            self._lost["legacy events"] += 1

    def _slice(self, event: TrackEvent, track: int, sequence: PacketSequence) -> Slice:
        name = event.name or sequence.text("event_names", event.name_iid)
        categories = [*event.categories, *(sequence.text("event_categories", i) for i in event.category_iids)]
        arguments = _renamed(_unfolded(annotation_values(event.debug_annotations, sequence)))
        if (event.flow_ids or event.terminating_flow_ids) and "correlation" not in arguments:
            self._lost["flows"] += len(event.flow_ids) + len(event.terminating_flow_ids)
        return Slice(track, name, ",".join(categories), arguments)

    def _counter(self, track: int, time: int, value: float) -> None:
        name, unit = self.tracks.counter(track)
        columns = self._counters
        columns["time"].append(time)
        columns["name"].append(name)
        columns["value"].append(value)
        columns["unit"].append(unit)
        columns["process"].append(self.tracks.process_of(track))

    def _stage(self, packet: TracePacket, sequence: PacketSequence) -> None:
        """A render stage of a GPU driver: a kernel of its hardware queue."""
        event = packet.gpu_render_stage_event
        time = self.clocks.time(packet, sequence)
        if not event.HasField("duration"):
            return  # a description only
        if time is None or time >= 1 << 62:
            self._lost["events whose clock is not known"] += 1
            return
        named = sequence.texts["gpu_specifications"]
        stage = named.get(event.stage_iid)
        queue = named.get(event.hw_queue_iid)
        context = sequence.texts["graphics_contexts"].get(event.context)
        process = self.target.process(
            context.pid if context is not None and context.pid else "unknown process"
        )
        device = self.target.device((self.target.scope, str(event.gpu_id)), index=event.gpu_id & 0x7FFFFFFF)
        where = self.target.context(process, event.context, device=device, api="graphics")
        key = queue.name if queue is not None else event.hw_queue_id
        name = event.name or (stage.name if stage is not None else "") or f"stage {event.stage_id}"
        self._waiting += 1
        self._kernels.append({
            "start": time, "duration": min(event.duration, 1 << 62), "name_id": self.target.name(name), "process": process,
            "device": device, "context": where, "stream": self.target.stream(process, where, key, device=device),
            "correlation": event.submission_id or None, "graph_level": False,
        })  # fmt: skip

    def _flush(self) -> None:
        self._waiting = 0
        self.rows.flush()
        if self._counters["time"]:
            rows = len(self._counters["time"])
            self.target.add("counter", {**self._counters, "source": ["perfetto"] * rows})
            self._counters = {name: [] for name in self._counters}
        if self._kernels:
            self.target.add("kernel", self._kernels)
            self._kernels = []

    def close(self) -> None:
        """Leave unclosed ranges open, and note everything that was not kept."""
        for begun in self._begun.values():
            for opened, start in begun:
                self.rows.complete(opened, start, None)
        self._flush()
        for cause, count in self._lost.items():
            self.target.lost(count, f"{cause} are not kept", "event")
        for offset, problem in self.damaged[:20]:
            self.target.lost(
                1, f"a packet at byte {offset:,} of {self.source.name} is damaged: {problem}", "packet"
            )
        if len(self.damaged) > 20:
            self.target.lost(len(self.damaged) - 20, f"more damaged packets in {self.source.name}", "packet")
        pairs = [{"monotonic": a, "realtime": b} for a, b in self.clocks.pairs if max(a, b) < 1 << 62]
        if pairs:
            self.target.add("clock", pairs)
        names = {1: "CLOCK_REALTIME", 3: "CLOCK_MONOTONIC", 6: "CLOCK_BOOTTIME"}
        self.target.source.update({
            "tool": "Perfetto", "clock": names.get(self.clocks.primary, f"clock {self.clocks.primary}"),
        })  # fmt: skip
