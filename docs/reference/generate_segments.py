"""Writes the field tables of segments.md from layout.py; --check only says whether they are up to date."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from warpsight.capture.segments import layout
from warpsight_plugins.backends import BACKENDS

PAGE = Path(__file__).with_name("segments.md")
BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"


def _rows(struct: layout.Struct) -> Iterator[str]:
    """One table line for each field, with its offset."""
    offset = 0
    for field in struct.fields:
        kind = f"{field.type}[{field.count}]" if field.count > 1 else field.type
        yield f"| {offset} | {kind} | `{field.name}` | {field.meaning} |"
        offset += layout.TYPES[field.type] * field.count


def _table(title: str, struct: layout.Struct) -> str:
    return "\n".join(
        [f"### {title}", "", "| offset | type | field | meaning |", "|---|---|---|---|", *_rows(struct), ""]
    )


def generated() -> str:
    """The generated part of the page."""
    parts = ["## Field tables", ""]
    headers = (layout.ARENA_HEADER, layout.RING_DESCRIPTOR, layout.BLOCK_HEADER)
    parts.extend(_table(f"{struct.name}: {struct.size} bytes", struct) for struct in headers)
    parts += ["## Record kinds", ""]
    for record in layout.RECORDS:
        size = f"{record.size} bytes and text" if record.variable else f"{record.size} bytes"
        group = "definition" if record.definition else "event"
        parts.append(
            _table(
                f"{record.kind} {record.name}: {size}, {group}, {record.ring_blocks} blocks a ring", record
            )
        )
    names = [
        name
        for name in layout.CONSTANTS
        if name.startswith(("CONTROL_", "STATE_", "FRAME_", "STACK_", "API_", "BACKEND_"))
    ]
    parts += [
        "## Constants",
        "",
        "| name | value |",
        "|---|---|",
        *(f"| `{n}` | {layout.CONSTANTS[n]} |" for n in names),
        "",
        "Numbers of other backends come from their packages' tables:",
        "",
        "| backend | of its devices and contexts | of its functions |",
        "|---|---|---|",
        *(
            f"| `{one.name}` | {one.platform} | {', '.join(f'{f.domain} ({f.name})' for f in one.functions)} |"
            for one in BACKENDS
            if one.in_process
        ),
        "",
    ]
    return "\n".join(parts)


def page() -> str:
    """The whole page with its generated part renewed."""
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return f"{head}{BEGIN}\n{generated()}{END}{rest.partition(END)[2]}"


def main() -> int:
    """Renew the page, or with --check say whether it is up to date."""
    if "--check" in sys.argv[1:]:
        return int(page() != PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
