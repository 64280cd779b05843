"""State shared by the packets of one sequence: interned strings, defaults, clocks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import ClockSnapshot, DebugAnnotation, TracePacket

REALTIME, BOOTTIME = 1, 6
#: Clock ids of a sequence's own.
_LOCAL = range(64, 128)
_INTERNED = (
    "event_names", "event_categories", "debug_annotation_names", "debug_annotation_string_values", "gpu_specifications",
    "graphics_contexts",
)  # fmt: skip
_CLEARED = 1


class PacketSequence:
    """State of one packet sequence."""

    def __init__(self) -> None:
        """Nothing is interned yet."""
        self.texts: dict[str, dict[int, Any]] = {kind: {} for kind in _INTERNED}
        self.clock: int | None = None
        self.track = 0
        self.clocks: dict[int, _Clock] = {}

    def take(self, packet: TracePacket) -> None:
        """Apply a packet's settings for later packets."""
        if packet.sequence_flags & _CLEARED or packet.incremental_state_cleared:
            self.texts = {kind: {} for kind in _INTERNED}
            self.clock, self.track = None, 0
        if packet.HasField("interned_data"):
            for kind in _INTERNED:
                for entry in getattr(packet.interned_data, kind):
                    self.texts[kind][entry.iid] = entry
        if packet.HasField("trace_packet_defaults"):
            defaults = packet.trace_packet_defaults
            self.clock = defaults.timestamp_clock_id or None
            self.track = defaults.track_event_defaults.track_uuid

    def text(self, kind: str, iid: int) -> str:
        """An interned name; `?` if it was lost."""
        entry = self.texts[kind].get(iid)
        return "?" if entry is None else entry.name


class _Clock:
    def __init__(self, now: int, unit: int, incremental: bool) -> None:
        self.now, self.unit, self.incremental = now, unit, incremental
        #: ns to add for each clock of the same snapshot
        self.offsets: dict[int, int] = {}


class PacketClocks:
    """Times of all packets on the clock of the trace."""

    def __init__(self) -> None:
        """The trace's clock is CLOCK_BOOTTIME unless a snapshot names another."""
        self.primary = BOOTTIME
        self._global: dict[int, _Clock] = {}
        #: CLOCK_MONOTONIC or primary clock, and the wall clock then.
        self.pairs: list[tuple[int, int]] = []

    def snapshot(self, snapshot: ClockSnapshot, sequence: PacketSequence) -> None:
        """Add readings of several clocks at one moment."""
        if snapshot.primary_trace_clock:
            self.primary = snapshot.primary_trace_clock
        readings = {c.clock_id: c for c in snapshot.clocks}
        moments = {i: c.timestamp * (c.unit_multiplier_ns or 1) for i, c in readings.items()}
        for identity, reading in readings.items():
            clock = _Clock(moments[identity], reading.unit_multiplier_ns or 1, reading.is_incremental)
            clock.offsets = {i: moment - moments[identity] for i, moment in moments.items()}
            (sequence.clocks if identity in _LOCAL else self._global)[identity] = clock
        if REALTIME in moments and self.primary in moments:
            self.pairs.append((moments[self.primary], moments[REALTIME]))

    def time(self, packet: TracePacket, sequence: PacketSequence) -> int | None:
        """The time of a packet's event in ns of the trace's clock; None if its clock is unknown."""
        identity = packet.timestamp_clock_id or sequence.clock or self.primary
        if identity == self.primary:
            return int(packet.timestamp)
        clock = (sequence.clocks if identity in _LOCAL else self._global).get(identity)
        if clock is None:
            return None if identity in _LOCAL else int(packet.timestamp)
        if clock.incremental:
            clock.now += packet.timestamp * clock.unit
            moment = clock.now
        else:
            moment = packet.timestamp * clock.unit
        offset = clock.offsets.get(self.primary)
        return moment if offset is None else moment + offset


def annotation_values(entries: Iterable[DebugAnnotation], sequence: PacketSequence) -> dict[str, Any]:
    """Debug annotations as plain values."""
    return {
        entry.name or sequence.text("debug_annotation_names", entry.name_iid): _value(entry, sequence, 0)
        for entry in entries
    }


def _value(entry: DebugAnnotation, sequence: PacketSequence, depth: int) -> object:
    kind = entry.WhichOneof("value")
    if kind == "string_value_iid":
        interned = sequence.texts["debug_annotation_string_values"].get(entry.string_value_iid)
        return "?" if interned is None else interned.str.decode("utf-8", "replace")
    if kind is not None and kind not in ("nested_value", "proto_value"):
        return getattr(entry, kind)
    if depth > 16:
        return None
    if entry.dict_entries:
        return {
            e.name or sequence.text("debug_annotation_names", e.name_iid): _value(e, sequence, depth + 1)
            for e in entry.dict_entries
        }
    if entry.array_values:
        return [_value(e, sequence, depth + 1) for e in entry.array_values]
    return None
