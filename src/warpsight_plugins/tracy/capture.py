"""Tracy captures: recognized by their magic, refused by name and version; see :mod:`warpsight_plugins.tracy`."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

from warpsight.formats.registry import Coverage, Options

if TYPE_CHECKING:
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target

COVERAGE = Coverage(
    kept=("nothing: captures are refused, with the command that converts them to CSV (format tracy-csv)",),
    lost=(),
    tested=("a real capture of 0.8.4; headers of 0.7 to 0.14",),
)
_MAGIC = {b"tr\xfdP": "0.10 or newer", b"tZst": "0.7 to 0.9", b"tlZ\x04": "0.9 or older"}


def sniff(source: Source) -> bool:
    """Whether the file begins as Tracy's captures do."""
    return source.head[:4] in _MAGIC


def read(source: Source, target: Target, options: Options) -> None:
    """Refuse the capture.

    Raises:
        FormatError: always; the message says what to do.
    """
    kind = _MAGIC.get(source.head[:4])
    if kind is None:
        raise source.error("is not a Tracy capture: it begins with none of Tracy's magic numbers", offset=0)
    version = _version_of(source.head)
    raise source.error(
        f"is a capture of Tracy {version or kind}, whose layout only Tracy of that version reads: run its "
        "`tracy-csvexport -u FILE > zones.csv` (or -g for GPU zones, -m for messages) and import that"
    )


def _version_of(head: bytes) -> str:
    """The version in the first block's own header; empty when it cannot be seen.

    The first block says `tracy` and three numbers. With zstd it is unpacked, with LZ4 these bytes are literals.
    """
    found = re.search(rb"tracy(.)(.)(.)", head[:256], re.DOTALL)
    if found is None and len(head) > 10:
        import zstandard

        for at in (6, 5, 4):  # magic [compression [streams]], then the block's size
            try:
                size = struct.unpack_from("<I", head, at)[0]
                data = zstandard.ZstdDecompressor().decompressobj().decompress(head[at + 4 : at + 4 + size])
            except (zstandard.ZstdError, struct.error):
                continue
            found = re.match(rb"tracy(.)(.)(.)", data, re.DOTALL)
            if found is not None:
                break
    return "" if found is None else ".".join(str(number[0]) for number in found.groups())
