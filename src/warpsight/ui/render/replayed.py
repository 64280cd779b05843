"""The result of a replay for a terminal: verdict, first differences, and a table of times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, Any

import pyarrow as pa

from warpsight.replay import outcome
from warpsight.replay.outcome import MemoryDifference, ReplayOutcome, Version
from warpsight.replay.schedules.validation import OrderCheck
from warpsight.ui.render import tables

_SENTENCES = {
    outcome.EXACT: "bit-exact: every output byte is that of the recording, in each of {runs} runs",
    outcome.REPEATABLE: "repeatable: {runs} runs leave the same bytes; there was no recording to compare them with",
    outcome.DIFFERENT: "different: the outputs differ from the recording, in the same way in each of {runs} runs",
    outcome.VARYING: "non-deterministic: runs leave different bytes",
    outcome.LEFT: "left the capsule: an access went to memory that the capsule does not hold",
}


def show(found: ReplayOutcome, stream: IO[str], top: int | None = 20) -> None:
    """Print the result of a replay; `top`: most operations and differences."""
    if found.device:
        stream.write(f"{found.device}\n")
    if found.failure:
        stream.write(f"failed: {found.failure}\n")
    for version in found.versions:
        _verdict(version, stream, swapped=len(found.versions) > 1, top=top)
    if found.validation is not None:
        _validated(found.validation, stream, top)
    for note in found.notes:
        stream.write(f"note: {note}\n")
    if found.versions and (found.versions[0].totals_ns or found.versions[0].operations):
        stream.write("\n")
        tables.show(_times(found.versions), top=top, stream=stream)
    if found.writes:
        stream.write("\n")
        tables.show(_writes(found), top=top, stream=stream)
    if found.changes:
        stream.write("\n")
        tables.show(_changes(found), top=None, stream=stream)


def _validated(found: OrderCheck, stream: IO[str], top: int | None) -> None:
    wrong = len(found.violations)
    checked = f"{found.ordered:,} pairs of a stream and {found.depending:,} dependencies"
    stream.write(f"order: {f'{wrong:,} violations among' if wrong else 'kept in'} {checked}\n")
    for one in found.violations[:top]:
        stream.write(
            f"  operation {one.operation} began {one.early_ns / 1000:,.1f} µs before operation {one.waited_for} had ended "
            f"({'of its stream' if one.kind == 'order' else 'on which it depends'})\n"
        )


def _verdict(version: Version, stream: IO[str], *, swapped: bool, top: int | None) -> None:
    name = f"{version.name}: " if swapped else ""
    sentence = _SENTENCES[version.verdict].format(runs=version.runs)
    stream.write(
        name + sentence.replace("each of 1 runs", "one run").replace("1 runs leave", "one run leaves") + "\n"
    )
    for what, rows in (
        ("from the recording", version.recorded),
        ("between runs", version.runs_differ),
        ("from the original kernel", version.original if not version.recorded else ()),
    ):
        for row in rows[:top]:
            stream.write(f"  {what}: {difference(row)}\n")
    for variable in version.globals:
        stream.write(f"  from the recording: the variable {variable}\n")


def difference(row: MemoryDifference) -> str:
    """One difference in a sentence: place, size, and writer."""
    far = (
        ""
        if row.largest is None
        else f", {'ulp' if row.dtype.find('float') >= 0 else 'units'} at most {row.largest:,}"
    )
    odd = f", {row.not_numbers:,} with a NaN on one side or both" if row.not_numbers else ""
    by = "" if row.kernel is None else f"; written by {row.kernel} (operation {row.operation})"
    return (
        f"a{row.allocation}, {row.dtype} element {row.element:,} ({row.address:#x}): {row.found:.9g} instead of "
        f"{row.wanted:.9g}; {row.differing:,} of {row.elements:,} elements{far}{odd}{by}"
    )


def _writes(found: ReplayOutcome) -> pa.Table:
    rows = found.writes
    return pa.table(
        {
            "operation": [row.operation for row in rows],
            "kernel": [row.name for row in rows],
            "memory": [f"a{row.allocation}" for row in rows],
            "first byte": [row.begin for row in rows],
            "last byte": [row.end - 1 for row in rows],
        }
    )


def _changes(found: ReplayOutcome) -> pa.Table:
    base = found.versions[0].median_ns or 0.0
    ns = {b"unit": b"ns"}

    def change(value: float | None) -> str:
        return "" if value is None or not base else f"{100 * (value - base) / base:+.1f}%"

    rows: list[tuple[Any, ...]] = [("as recorded", base, "", None, "", found.versions[0].verdict)]
    rows += [
        (c.what, c.median_ns, change(c.median_ns), c.predicted_ns, change(c.predicted_ns), c.verdict)
        for c in found.changes
    ]
    fields = [
        pa.field("schedule", pa.string()), pa.field("measured", pa.float64(), metadata=ns), pa.field("change", pa.string()),
        pa.field("predicted", pa.float64(), metadata=ns), pa.field("predicted change", pa.string()),
        pa.field("outputs", pa.string()),
    ]  # fmt: skip
    columns = zip(*rows, strict=True)
    return pa.table(
        [pa.array(list(c), f.type) for c, f in zip(columns, fields, strict=True)], schema=pa.schema(fields)
    )


def _times(versions: Sequence[Version]) -> pa.Table:
    first, last = versions[0], versions[-1]
    swapped = len(versions) > 1
    ns = {b"unit": b"ns"}
    rows: list[tuple[Any, ...]] = [
        (row.operation, row.name, row.stream, row.recorded_ns, row.median_ns, row.least_ns)
        for row in first.operations
    ]
    others = [row.median_ns for row in last.operations]
    if first.median_ns is not None:  # first, so that it is seen however many there are
        rows.insert(0, (None, "all operations", None, None, first.median_ns, min(first.totals_ns)))
        others.insert(0, last.median_ns or 0.0)
    columns = list(zip(*rows, strict=True))
    fields = [
        pa.field("operation", pa.int64()), pa.field("kernel", pa.string()), pa.field("stream", pa.int64()),
        pa.field("recorded", pa.float64(), metadata=ns), pa.field("median", pa.float64(), metadata=ns),
        pa.field("least", pa.float64(), metadata=ns),
    ]  # fmt: skip
    data = [list(column) for column in columns]
    if swapped:
        data += [
            others,
            [f"{100 * (b - a) / a:+.1f}%" if a else "" for a, b in zip(data[4], others, strict=True)],
        ]
        fields += [pa.field(last.name, pa.float64(), metadata=ns), pa.field("change", pa.string())]
    if all(value is None for value in data[3]):
        del data[3], fields[3]
    return pa.table(
        [pa.array(d, f.type) for d, f in zip(data, fields, strict=True)], schema=pa.schema(fields)
    )
