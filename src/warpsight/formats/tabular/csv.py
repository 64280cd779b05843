"""Tables as CSV; see :mod:`warpsight.formats.tabular`."""

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
    """CSV with a header line; texts quoted, nulls empty; texts that look like a formula begin with an apostrophe."""

    def csv(out: IO[bytes], schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        import pyarrow.csv as pcsv

        with pcsv.CSVWriter(out, schema) as writer:
            for batch in batches:
                writer.write_batch(_without_formulas(batch))

    return archive(trace, file, selection, ".csv", csv)


def _without_formulas(batch: pa.RecordBatch) -> pa.RecordBatch:
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = [
        pc.replace_substring_regex(column, r"^([=+@\t\r-])", r"'\1")
        if pa.types.is_string(column.type)
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
