"""How to compress an output, by its suffix: `.zst` or `.clp`."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

_BUFFER = 1 << 20


@contextmanager
def packed(name: str, raw: IO[bytes]) -> Iterator[IO[bytes]]:
    """A stream that writes to `raw` compressed with zstd, as a CLP archive of JSON lines, or uncompressed.

    Raises:
        WarpsightError: for an archive without `clp-s`.
    """
    if name.endswith((".zst", ".zstd")):
        import zstandard

        stream: Any = zstandard.ZstdCompressor(level=9).stream_writer(raw, closefd=False)
        with io.BufferedWriter(stream, _BUFFER) as file:
            yield file
    elif name.endswith(".clp"):
        from warpsight.formats.writing import clp

        with tempfile.TemporaryDirectory(prefix="warpsight-") as folder:
            lines, archive = Path(folder) / "lines.ndjson", Path(folder) / "archive"
            with lines.open("wb") as kept:
                yield kept
            clp.pack(lines, archive, name)
            raw.write(archive.read_bytes())
    else:
        yield raw
