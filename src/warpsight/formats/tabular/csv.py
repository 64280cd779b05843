"""Tables as CSV; see :mod:`warpsight.formats.tabular`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

from warpsight.formats.selection import Selection
from warpsight.formats.tabular.archive import WRITTEN as WRITTEN
from warpsight.formats.tabular.archive import archive

if TYPE_CHECKING:
    import pyarrow as pa

    from warpsight.model import Trace


def write(trace: Trace, file: IO[bytes], selection: Selection) -> dict[str, int]:
    """CSV with a header line; texts quoted, nulls empty."""

    def csv(out: IO[bytes], schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        import pyarrow.csv as pcsv

        with pcsv.CSVWriter(out, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)

    return archive(trace, file, selection, ".csv", csv)
