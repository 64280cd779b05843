"""Answers about event traces as sections with a table and a picture each, for a terminal or for a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

from warpsight.device_code.demangle import short
from warpsight.sass.events.dataflow import DISTANCES, Dataflow
from warpsight.sass.events.memory import MemoryAccess
from warpsight.sass.events.reuse import LINE, MemoryUse
from warpsight.sass.events.value_patterns import ValuePatterns
from warpsight.sass.matrix_products import MatrixProducts
from warpsight.ui.render import numbers, pages
from warpsight.ui.render.sass import event_pictures


@dataclass(frozen=True)
class Section:
    """One section of an answer.

    Attributes:
        title: its title; picture: an SVG, or empty.
        columns, rows: a table, with numbers as numbers; left: indices of text columns.
        more: number of rows left out; empty: text to show without rows; notes: sentences below.
    """

    title: str
    picture: str = ""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str | int]] = ()
    left: frozenset[int] = frozenset()
    more: int = 0
    empty: str = ""
    notes: Sequence[str] = ()


def write(sections: Sequence[Section], stream: IO[str]) -> None:
    """Write sections to a terminal or a pipe."""
    stream.write("\n".join(_lines(section, stream) for section in sections))


def _lines(section: Section, stream: IO[str]) -> str:
    if not section.rows:
        return (section.empty or "nothing") + "\n"
    cells = [
        section.columns,
        *(
            [cell if isinstance(cell, str) else numbers.count(cell, stream) for cell in row]
            for row in section.rows
        ),
    ]
    widths = [max(len(row[at]) for row in cells) for at in range(len(section.columns))]
    lines = [
        "  ".join(
            cell.ljust(width) if at in section.left else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    more = [f"… {section.more:,} more (--top 0)"] if section.more else []
    return "\n".join([section.title, *lines, *more, *section.notes]) + "\n"


def page(title: str, sections: Sequence[Section], notes: Sequence[str]) -> str:
    """The sections as a self-contained page."""
    from markupsafe import Markup

    return pages.page(
        "events.html.j2", css=("theme.css", "events.css"), js=("format.js",), data={}, title=title, notes=notes,
        sections=[(one, Markup(one.picture)) for one in sections],
    )  # fmt: skip


def top_rows(rows: Sequence[Sequence[str | int]], top: int) -> tuple[Sequence[Sequence[str | int]], int]:
    """The first rows, all for 0, and the number of others."""
    shown = rows[:top] if top else rows
    return shown, len(rows) - len(shown)


def costs(rows: Sequence[MemoryAccess], top: int) -> Section:
    """Sectors and passes of each instruction."""
    listed = [
        (
            f"{row.per_request:.1f} {'sectors' if row.space in ('global', 'local') else 'passes'}",
            f"{row.ideal / row.requests:.1f}", row.requests, row.excess,
            f"{row.space} {row.operation} of {row.bytes} B", row.where, row.sass,
        )
        for row in rows
    ]  # fmt: skip
    shown, more = top_rows(listed, top)
    columns = ("per request", "ideal", "requests", "excess", "access", "where", "instruction")
    return Section("Cost of each instruction", "", columns, shown, frozenset({4, 5, 6}), more, "no accesses")


def use(rows: Sequence[MemoryUse], top: int) -> Section:
    """Working sets and needless accesses of each launch."""
    listed = [
        (
            short(row.kernel), f"{row.launch}", row.space, shown_bytes(row.working_set), shown_bytes(row.of_block),
            _share(row.reloaded, row.loaded), _share(row.overwritten, row.stored),
            "–" if row.silent is None else _share(row.silent, row.stored), row.falsely_shared,
        )
        for row in rows
    ]  # fmt: skip
    shown, more = top_rows(listed, top)
    columns = (
        "kernel", "launch", "memory", "working set", "of a block", "loaded again", "overwritten", "silent", "falsely shared",
    )  # fmt: skip
    notes = (
        "loaded again: by a thread that already had the data; overwritten: before any load; silent: with the value "
        "already there; "
        f"falsely shared: lines of {LINE} bytes of which blocks write and access different bytes",
    )
    return Section("Use of memory", "", columns, shown, frozenset({0, 2}), more, "no accesses", notes)


def shown_bytes(count: float) -> str:
    """A number of bytes with its unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return ""


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "–"


def values(rows: Sequence[ValuePatterns], top: int) -> list[Section]:
    """Patterns of the values of each instruction."""
    listed = [
        (
            "; ".join(row.patterns) or "–",
            f"{row.operation} of {row.type if 'float' in row.type else f'{8 * row.bytes}-bit {row.type}'}",
            row.values, row.distinct, f"{row.zero:.0%}",
            f"{row.most_common:.0%} {row.example}" if row.most_common >= 0.005 else "–",
            row.not_finite if "float" in row.type else "–", short(row.kernel), row.where,
        )
        for row in rows
    ]  # fmt: skip
    shown, more = top_rows(listed, top)
    columns = (
        "pattern",
        "access",
        "values",
        "distinct",
        "zero",
        "most common",
        "not finite",
        "kernel",
        "where",
    )
    empty = "no values; record with: warpsight sass trace --events memory,values -- PROGRAM"
    return [
        Section(
            "Values", event_pictures.shares(rows), columns, shown, frozenset({0, 1, 5, 7, 8}), more, empty
        )
    ]


def flows(found: Dataflow, top: int) -> list[Section]:
    """Who reads what from whom."""
    listed = [
        (
            shown_bytes(row.bytes), shown_bytes(row.distinct), row.pairs if row.distance != DISTANCES[-1] else "–",
            f"{row.space}, {event_pictures.DISTANCES_NAMED[row.distance]}", row.writer, row.reader,
        )
        for row in found.flows
    ]  # fmt: skip
    shown, more = top_rows(listed, top)
    notes = [
        f"{short(kernel)}: {shown_bytes(count)} read that no recorded access had written; "
        f"{shown_bytes(found.unread.get(kernel, 0))} of global memory that it wrote and never read back"
        for kernel, count in found.inputs.items()
    ]
    columns = ("read", "distinct", "pairs", "through", "written by", "read by")
    first = Section(
        "Dataflow", event_pictures.flows(found), columns, shown, frozenset({3, 4, 5}), more,
        "no data goes from one recorded access to another", notes,
    )  # fmt: skip
    if not found.blocks:
        return [first]
    edges = sorted(found.blocks.items(), key=lambda item: (-item[1], item[0]))
    pairs, more = top_rows(
        [(short(kernel), f"{a}", f"{b}", shown_bytes(count)) for (kernel, a, b), count in edges], top
    )
    headings = ("kernel", "writing block", "reading block", "bytes")
    return [first, Section("Between blocks", "", headings, pairs, frozenset({0}), more)]


def products(found: MatrixProducts, top: int) -> list[Section]:
    """Matrix instructions, and those on tensor memory."""
    listed = [
        (
            f"{one.offset:#06x}", "×".join(map(str, one.shape)) if one.shape else "in a descriptor", ", ".join(one.types),
            f"{one.depth}", _cycles(one.executions), _cycles(one.gap), _cycles(one.distance),
            one.waiter, one.text, one.where,
        )
        for one in found.products
    ]  # fmt: skip
    shown, more = top_rows(listed, top)
    notes = [f"{found.operations:,} operations in all"] if found.operations else []
    columns = (
        "offset",
        "shape",
        "types",
        "loops",
        "executed",
        "cycles to next",
        "cycles until needed",
        "by",
        "instruction",
        "line",
    )
    empty = f"{found.kernel} multiplies no matrices"
    sections = [
        Section(
            f"Matrix products of {short(found.kernel)}",
            "",
            columns,
            shown,
            frozenset({0, 1, 2, 7, 8, 9}),
            more,
            empty,
            notes,
        )
    ]
    if found.tensor_memory:
        used = [
            (
                f"{one.offset:#06x}", one.use, _cycles(one.columns), f"{one.freed:#06x}" if one.freed is not None else "–",
                _cycles(one.lifetime), one.text,
            )
            for one in found.tensor_memory
        ]  # fmt: skip
        rows, more = top_rows(used, top)
        headings = ("offset", "use", "columns", "freed at", "cycles until then", "instruction")
        sections.append(Section("Tensor memory", "", headings, rows, frozenset({0, 1, 5}), more))
    return sections


def _cycles(count: int | None) -> str | int:
    return "–" if count is None else count
