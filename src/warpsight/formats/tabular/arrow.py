"""Tables as Arrow IPC files (Feather 2); see :mod:`warpsight.formats.tabular`."""

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
    """Arrow IPC files (Feather 2)."""

    def arrow(out: IO[bytes], schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        import pyarrow as pa

        with pa.ipc.new_file(out, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)

    return archive(trace, file, selection, ".arrow", arrow)
