"""An XSpace plane by plane, each plane line by line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from warpsight.formats.reading.json_pieces import mapped
from warpsight_plugins.xplane.messages import messages

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from warpsight.formats.source import Source
    from warpsight.formats.target import Target

_DEVICE = re.compile(r"^/device:(?P<kind>[A-Za-z_]+):(?P<index>\d+)")
_PLANES, _ERRORS, _WARNINGS, _HOSTS = 1, 2, 3, 4


def read_space(source: Source, target: Target) -> None:
    """Read a file; of a truncated file, the complete planes.

    Raises:
        FormatError: when nothing in it is a plane.
    """
    from google.protobuf.message import DecodeError

    from warpsight_plugins.xplane.device_plane import read_device
    from warpsight_plugins.xplane.host_plane import read_host

    planes, hosts, notes = 0, [], []
    with mapped(source) as data:
        found = list(_fields(source, data))
        for number, first, last in found:
            if number == _HOSTS:
                hosts.append(bytes(data[first:last]).decode("utf-8", "replace"))
            elif number in (_ERRORS, _WARNINGS):
                notes.append(bytes(data[first:last]).decode("utf-8", "replace"))
        host = hosts[0] if hosts else source.path.name.removesuffix(".xplane.pb")
        process = target.process(f"{target.scope}/{host}", host=host, command="")
        for number, first, last in found:
            if number != _PLANES:
                continue
            try:
                plane = Plane(messages().plane.FromString(bytes(data[first:last])), source)
                device = _DEVICE.match(plane.name)
                if device is not None:
                    read_device(plane, device["kind"], int(device["index"]), process, host, target)
                else:
                    read_host(plane, process, target)
            except DecodeError as error:
                raise source.error(f"a plane cannot be decoded: {error}", offset=first) from None
            planes += 1
    if not planes:
        raise source.error("has no plane: it is not an XSpace")
    for note in notes:
        target.note(f"XLA: {note}")
    if not hosts:
        # An XSpace has no end marker; since 2021 its last field is the host names.
        target.note(
            f"{source.name} does not end with the host's name, as complete profiles do: later planes may be missing"
        )
    target.source.update(tool="XLA profiler", clock="ns since 1970")


def _fields(source: Source, data: memoryview) -> Iterator[tuple[int, int, int]]:
    """(number, first byte, end) of the length-delimited fields of a message; stops, with a note, where it ends early."""
    place, size = 0, len(data)
    while place < size:
        begin = place
        key, place = _varint(data, place)
        length, place = _varint(data, place) if key & 7 == 2 else (-1, place)
        if key < 0 or length < 0 or not key >> 3:
            if begin == 0 or (place < size and key >= 0):
                raise source.error("is not protobuf of planes", offset=begin)
            source.ended_early(f"the file ends inside a field at byte {begin:,}")
            return
        if place + length > size:
            source.ended_early(f"the plane at byte {begin:,} is incomplete")
            return
        yield key >> 3, place, place + length
        place += length


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    """A number and its end; -1 if the data ends inside it or it is too long."""
    value = shift = 0
    while place < len(data) and shift < 70:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
    return -1, place


class Plane:
    """A plane with its metadata looked up by id."""

    def __init__(self, message: Message, source: Source) -> None:
        self.name: str = message.name
        self.source = source
        self._lines = message.lines
        self._stats = {entry.key: entry.value.name for entry in message.stat_metadata}
        self._events = {entry.key: entry.value for entry in message.event_metadata}
        self.stats = self.values(message.stats)

    def lines(self) -> Iterator[Any]:
        """The lines, parsed one at a time."""
        for data in self._lines:
            yield messages().line.FromString(data)

    def event_name(self, number: int) -> str:
        """An event's name by its metadata's id."""
        found = self._events.get(number)
        return f"event {number}" if found is None else found.name or found.display_name or f"event {number}"

    def shared_stats(self, number: int) -> dict[str, Any]:
        """Stats that all events of one metadata have."""
        found = self._events.get(number)
        return {} if found is None or not found.stats else self.values(found.stats)

    def values(self, stats: Iterable[Any]) -> dict[str, Any]:
        """Stats by name; a reference becomes the name of the metadata it refers to."""
        found: dict[str, Any] = {}
        for stat in stats:
            which = stat.WhichOneof("value")
            if which is None:
                continue
            value = getattr(stat, which)
            if which == "ref_value":
                value = self._stats.get(value, "")
            elif which == "bytes_value":
                value = f"{len(value)} bytes"
            found[self._stats.get(stat.metadata_id, f"stat {stat.metadata_id}")] = value
        return found
