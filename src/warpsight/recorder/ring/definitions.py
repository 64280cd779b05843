"""Definition segments of a ring, merged: they outlive the events that refer to them but must not grow without bound.

Most blocks in a definition file were written again later, with more rows, while they were open; only the longest version of each
counts. Texts of events that occurred once (ids from :data:`ONCE` on, see native/ring/intern.cpp) are dropped once no event of the
window can refer to them. Everything else is kept, and bounded by the program's kernels, functions, lines and threads.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from warpsight.capture.segments import layout
from warpsight.capture.segments.segment import HEADER, Block, open_segment

#: String ids from here on were written for one event each and are not known to the process any more.
ONCE = layout.FIRST_ONCE_STRING
_STRING = layout.BY_NAME["String"]
_FIXED = struct.Struct("<2I")


def groups(files: list[Path], old: float, bucket: float, now: float) -> Iterator[tuple[list[Path], bool]]:
    """Which files to merge, and whether once-texts are dropped: all from before `old`, and young ones by `bucket` seconds.

    Times are those of time.time(). Young files are merged only with their neighbors, because a file is as old as its youngest
    part and must become old eventually.
    """
    ages = {path: path.stat().st_mtime for path in files}
    done = [path for path in files if ages[path] < old]
    if len(done) > 1:
        yield done, True
    young: dict[int, list[Path]] = {}
    for path in files:
        if ages[path] >= old:
            young.setdefault(int(ages[path] / bucket), []).append(path)
    for number, some in young.items():
        if len(some) > 1 and (number + 1) * bucket < now:
            yield some, False


def merge(files: list[Path], *, drop_once: bool) -> None:
    """Replace closed definition files by one with the same blocks, under the first one's name.

    Raises:
        OSError: when the new file cannot be written; the old ones stay unchanged.
    """
    newest: dict[tuple[int, int], tuple[bytes, Block]] = {}
    for path in files:
        segment = open_segment(path)
        for block in segment.blocks():
            key = (block.writer, block.sequence)
            known = newest.get(key)
            if known is None or len(block.payload) >= len(known[1].payload):
                start = block.slot * layout.BLOCK_BYTES
                newest[key] = segment.data[start : start + layout.BLOCK_HEADER_BYTES].tobytes(), block
    target, youngest = files[0], files[-1].stat().st_mtime
    temporary = target.with_name(f".{target.name}")
    with temporary.open("wb") as out:
        for header, block in newest.values():
            payload = block.payload.tobytes()
            if drop_once and block.sealed and block.kind == _STRING.kind:
                payload = _without_once(payload)
            if payload:
                out.write(_block(header, payload))
    os.utime(temporary, (youngest, youngest))
    temporary.replace(target)
    for path in files[1:]:
        path.unlink()


def _without_once(payload: bytes) -> bytes:
    """Rows of kind String, without those written for a single event."""
    out, offset = bytearray(), 0
    while offset + _STRING.size <= len(payload):
        number, length = _FIXED.unpack_from(payload, offset)
        end = offset + _STRING.size + length + -length % 8
        if end > len(payload):
            break
        if number < ONCE:
            out += payload[offset:end]
        offset = end
    return bytes(out)


def _block(header: bytes, payload: bytes) -> bytes:
    """A whole block of a segment file."""
    fields = np.frombuffer(header, HEADER).copy()
    fields["committed"] = len(payload)
    fields["crc"] = 0
    raw = fields.tobytes()
    crc = zlib.crc32(payload, zlib.crc32(raw[:-4]))
    fields["crc"] = crc
    out: bytes = fields.tobytes() + payload + bytes(layout.BLOCK_PAYLOAD_BYTES - len(payload))
    return out
