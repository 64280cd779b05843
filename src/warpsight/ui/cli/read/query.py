"""`warpsight query`."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from warpsight.errors import UsageError
from warpsight.ui.cli import options, output

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = ("table", "csv", "json", "ndjson", "parquet", "arrow")
_COMPRESSIONS = ("none", "gzip", "zstd")
#: Rows shown without --head, --tail, --top or --all: a question should not scroll a terminal away.
DEFAULT_ROWS = 100


def command(
    trace: options.TracePath,
    sql: Annotated[
        str | None,
        typer.Argument(help="One reading statement; views are named like the tables.", metavar="[SQL]"),
    ] = None,
    table: Annotated[str, typer.Option(help="Table to read without SQL.")] = "kernel",
    filters: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            help="column=value, with = != < <= > >= ~regex !~regex, or low..high; units as in 10us, 64KiB. "
            "Repeat to combine with and; `|` inside one means or.",
        ),
    ] = None,
    fields: Annotated[str | None, typer.Option(help="Columns, separated by commas.")] = None,
    group_by: Annotated[
        str | None, typer.Option(help="Show count and times grouped by these columns.")
    ] = None,
    count: Annotated[bool, typer.Option("--count", help="Show only the number of rows (per group).")] = False,
    top: Annotated[int | None, typer.Option(help="The N largest groups, or longest rows.", min=1)] = None,
    head: Annotated[int | None, typer.Option(help="The first N rows.", min=1)] = None,
    tail: Annotated[int | None, typer.Option(help="The last N rows.", min=1)] = None,
    everything: Annotated[
        bool,
        typer.Option("--all", help=f"All rows; by default tables on a terminal end after {DEFAULT_ROWS}."),
    ] = False,
    no_header: Annotated[bool, typer.Option("--no-header", help="Omit the line of column names.")] = False,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="table, csv, json, ndjson, parquet or arrow; by default the suffix of -o decides.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    compress: Annotated[
        str | None,
        typer.Option(help="Compression: none, gzip or zstd; by default the suffix of -o decides."),
    ] = None,
    out: options.Out = None,
    force: options.Force = False,
) -> None:
    """Ask a trace with SQL or simple filters.

    SQL is DuckDB's and can read only the trace.
    """
    from warpsight.analysis.base import query
    from warpsight.api.trace import open as open_trace
    from warpsight.ui.render import loss

    written = output.form_of("json" if as_json else form, out, FORMATS)
    named = output.PACKED.get(out.suffix.lower()) if out else None
    packed = compress or named or "none"
    _check(written, packed, out)
    if named not in (None, packed):
        raise UsageError(
            f"{out} is the name of a file packed with {named}, and --compress says {packed}; leave one out"
        )
    limited = any(n is not None for n in (top, head, tail)) or everything
    cut = written == "table" and not limited and out is None
    with open_trace(trace) as opened:
        relation = opened.relation(
            sql, table=table, filters=filters or (), fields=fields or (), group_by=group_by or (), count=count, top=top,
            head=head, tail=tail,
        )  # fmt: skip
        result = query.arrow(opened, relation.limit(DEFAULT_ROWS + 1) if cut else relation)
        _write(result, written, packed, out, force, not no_header, DEFAULT_ROWS if cut else None)
        loss.warn(opened)


def _check(form: str, compress: str, out: Path | None) -> None:
    if compress not in _COMPRESSIONS:
        raise UsageError(f"there is no compression {compress!r}: {', '.join(_COMPRESSIONS)}")
    binary = form in ("parquet", "arrow") or compress != "none"
    if binary and out is None and sys.stdout.isatty():
        raise UsageError("binary output does not belong on a terminal: give -o FILE")


def _write(
    data: pa.Table, form: str, compress: str, out: Path | None, force: bool, header: bool, limit: int | None
) -> None:
    import io

    from warpsight.ui.render import tables, terminal

    if form == "table" and compress == "none":
        more = limit is not None and len(data) > limit
        with output.text(out, force) as stream:
            tables.show(data.slice(0, limit) if more else data, stream=stream, header=header)
        if more:
            terminal.note(f"… more than {limit} rows; --all shows them, --head N the first")
        return
    with output.binary(out, force) as raw, _compressed(raw, compress) as file:
        if form == "parquet":
            import pyarrow.parquet as pq

            pq.write_table(data, file, compression="zstd")
        elif form == "arrow":
            import pyarrow as pa

            with pa.ipc.new_file(file, data.schema) as writer:
                writer.write_table(data)
        else:
            wrapper = io.TextIOWrapper(file, encoding="utf-8", newline="")
            _text(data, form, wrapper, header)
            wrapper.flush()
            wrapper.detach()


def _text(data: pa.Table, form: str, stream: IO[str], header: bool) -> None:
    from warpsight.ui.render import tables

    if form == "table":
        tables.show(data, stream=stream, header=header)
    elif form == "csv":
        tables.write_csv(data, stream, header=header)
    elif form == "ndjson":
        import msgspec

        for batch in data.to_batches(max_chunksize=4096):
            stream.writelines(
                msgspec.json.encode(row, enc_hook=output.plain).decode() + "\n" for row in batch.to_pylist()
            )
    else:
        stream.write(output.json_text({"columns": data.column_names, "rows": data.to_pylist()}))


def _compressed(raw: IO[bytes], how: str) -> AbstractContextManager[Any]:
    from contextlib import nullcontext

    if how == "gzip":
        import gzip

        return gzip.GzipFile(fileobj=raw, mode="wb", mtime=0)
    if how == "zstd":
        import pyarrow as pa

        packed: AbstractContextManager[Any] = pa.CompressedOutputStream(
            pa.PythonFile(_StaysOpen(raw), mode="w"), "zstd"
        )
        return packed
    return nullcontext(raw)


class _StaysOpen:
    """A file that its writer may close without effect: Arrow's streams close their target, even standard output."""

    closed = False

    def __init__(self, file: IO[bytes]) -> None:
        self.write, self.flush = file.write, file.flush

    def close(self) -> None:
        self.flush()
