"""Tables as JSON lines; see :mod:`warpsight.formats.tabular`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

from warpsight.formats.selection import Selection
from warpsight.formats.tabular.archive import WRITTEN as WRITTEN
from warpsight.formats.tabular.archive import archive

if TYPE_CHECKING:
    import pyarrow as pa

    from warpsight.model import StoredTrace


def write(trace: StoredTrace, file: IO[bytes], selection: Selection) -> dict[str, int]:
    """JSON lines: one object per row, with nulls."""

    def jsonl(out: IO[bytes], schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        for batch in batches:
            out.write("".join(f"{line}\n" for line in batch.column(0).to_pylist()).encode())

    return archive(trace, file, selection, ".jsonl", jsonl, as_json=True)
