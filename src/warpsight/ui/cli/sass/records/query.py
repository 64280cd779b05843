"""`warpsight sass query`."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from warpsight.errors import UsageError, WarpsightError
from warpsight.ui.cli import options, output

FORMATS = ("table", "json", "csv", "ndjson")


def command(
    trace: options.RecordsPath,
    conditions: Annotated[
        list[str] | None,
        typer.Option(
            "-f",
            "--filter",
            help="FIELD=VALUE, with = != < <= > >= ~regex !~regex, low..high, a|b; `;` means and, ` or ` "
            "means or; repeatable.",
        ),
    ] = None,
    head: Annotated[int, typer.Option("-n", "--head", help="The first N records (per group).", min=0)] = 10,
    tail: Annotated[int | None, typer.Option("-t", "--tail", help="The last N records.", min=0)] = None,
    everything: Annotated[bool, typer.Option("-a", "--all-lines", "--all", help="All records.")] = False,
    fields: Annotated[str | None, typer.Option(help="Fields, separated by commas; `*` for all.")] = None,
    group_by: Annotated[str | None, typer.Option("-g", "--group-by", help="Group by this field.")] = None,
    count: Annotated[bool, typer.Option("--count", help="Only the number of records per group.")] = False,
    top: Annotated[int | None, typer.Option(help="The N largest groups.", min=1)] = None,
    form: Annotated[
        str | None,
        typer.Option("--format", help="table, json, csv or ndjson; by default the suffix of -o decides."),
    ] = None,
    no_header: Annotated[bool, typer.Option("--no-header", help="Omit the line of field names.")] = False,
    describing: Annotated[
        bool, typer.Option("--describing", help="Include records that describe the file.")
    ] = False,
    out: options.Out = None,
    compress: Annotated[bool, typer.Option("--compress", help="Compress the output file with zstd.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Show records of an instruction trace that match conditions: first, last or all, grouped or counted.

    Field `sass` is the instruction's text, `caller` the launching frame.
    """
    written = output.form_of(form, out, FORMATS)
    if (count and not group_by) or (top and not count):
        raise UsageError("--count needs --group-by, --top needs --count")
    compress = compress or (out is not None and out.suffix == ".zst")
    if compress and out is None:
        raise UsageError("--compress needs --output")
    from warpsight.sass.records import filters
    from warpsight.ui.render import terminal
    from warpsight.ui.render.sass import records

    chosen = filters.parse(conditions or [])
    with _stream(out, compress, force) as stream:
        if count and group_by:
            from warpsight.sass.records.counting import counts

            totals, notes = counts(trace, chosen, group_by, top)
            records.write_counts(group_by, totals, written, not no_header, stream)
            doubtful = _doubtful(chosen.fields, group_by, {key for key, _ in totals})
        else:
            from warpsight.sass.records.selection import RecordSelection, select

            limit = None if everything or tail is not None else head
            selection = RecordSelection(chosen, limit, None if everything else tail, group_by, describing)
            found = select(trace, selection)
            notes = found.notes
            names = None if fields in (None, "*", "all") else [f.strip() for f in str(fields).split(",")]
            records.write_records(found.groups, names, group_by, written, not no_header, stream)
            doubtful = _doubtful(
                chosen.fields, group_by, {key for key, listed in found.groups.items() if listed}
            )
            listed = [record for group in found.groups.values() for record in group]
            doubtful += [
                name for name in names or () if listed and not any(name in record for record in listed)
            ]
    if doubtful:
        from warpsight.sass.records.field_names import unknown

        notes = [*notes, *unknown(doubtful)]
    terminal.warning(*notes)


def _doubtful(conditions: Sequence[str], group_by: str | None, keys: Collection[Any]) -> list[str]:
    """Possibly misspelled fields of a question: those of conditions that never match, and a group field that no record has."""
    if not keys:
        return [*conditions, *([group_by] if group_by else [])]
    return [group_by] if group_by and set(keys) == {None} else []


def _stream(out: Path | None, compress: bool, force: bool) -> AbstractContextManager[IO[str]]:
    """The output stream, compressed on request."""
    import io
    from contextlib import contextmanager

    if out is not None and os.path.lexists(out) and not force:
        raise WarpsightError(f"{out} exists already; --force replaces it")  # -f is --filter here
    if not compress:
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
        return output.text(out, force, csv=True)

    @contextmanager
    def compressed() -> Iterator[IO[str]]:
        import zstandard

        assert out is not None
        out.parent.mkdir(parents=True, exist_ok=True)
        with (
            output.binary(out, force) as raw,
            zstandard.ZstdCompressor().stream_writer(raw, closefd=False) as packed,
        ):
            text = io.TextIOWrapper(packed, encoding="utf-8", write_through=True)
            yield text
            text.flush()
            text.detach()

    return compressed()
