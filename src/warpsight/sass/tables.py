"""An imported instruction trace: the fields of the records from the tables of a trace, by the names they have in a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from warpsight.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from warpsight.trace import Trace

#: Field of a record → expression over `warp_event` e joined with `instruction` i.
FIELDS = {
    "type": "e.kind", "trace_index": "e.event", "timestamp": "e.time", "grid_launch_id": "e.grid_launch",
    "cta": "[e.cta_x::BIGINT, e.cta_y::BIGINT, e.cta_z::BIGINT]", "warp": "e.warp", "opcode_id": "e.opcode",
    "pc": "'0x' || lower(hex(e.pc))", "sass": "i.sass", "kernel": "e.name",
    "active_mask": "'0x' || lower(hex(e.active_mask))",
}  # fmt: skip
_FROM = "FROM warp_event e"
_JOIN = " LEFT JOIN instruction i ON i.process = e.process AND i.opcode = e.opcode AND i.name_id IS NOT DISTINCT FROM e.name_id"


#: What tells events apart.
KEY = ("e.process", "e.grid_launch", "e.event")
_ORDER = f"ORDER BY {', '.join(KEY)}"


def columns(trace: Trace, fields: Sequence[str], where: str = "", order: str = _ORDER) -> pa.Table:
    """Fields of all events, or of those that `where` chooses, in the order of the launch and of the record.

    Raises:
        UsageError: for a field that the tables do not hold.
    """
    wanted = tuple(dict.fromkeys(("type", *fields)))
    found = trace.sql(f"SELECT {_listed(wanted)} {_source(wanted)} {where} {order}")
    table: pa.Table = (
        found.to_arrow_table() if hasattr(found, "to_arrow_table") else found.fetch_arrow_table()
    )
    return table


def keyed(trace: Trace, fields: Sequence[str]) -> pa.Table:
    """The same, with what tells an event apart as columns `k0`, `k1` and `k2`."""
    wanted = tuple(dict.fromkeys(("type", *fields)))
    keys = ", ".join(f"{name} AS k{place}" for place, name in enumerate(KEY))
    found = trace.sql(f"SELECT {_listed(wanted)}, {keys} {_source(wanted)} {_ORDER}")
    table: pa.Table = (
        found.to_arrow_table() if hasattr(found, "to_arrow_table") else found.fetch_arrow_table()
    )
    return table


def records(table: pa.Table) -> list[dict[str, Any]]:
    """Rows as the records they were, without the fields that are null."""
    return [{name: value for name, value in row.items() if value is not None} for row in table.to_pylist()]


def combinations(trace: Trace, fields: Sequence[str]) -> list[tuple[tuple[Any, ...], int]]:
    """How many events have each combination of values of some fields; lists come as tuples.

    Raises:
        UsageError: for a field that the tables do not hold.
    """
    places = ", ".join(str(place + 1) for place in range(len(fields)))
    rows = trace.sql(f"SELECT {_listed(fields)}, count(*) {_source(fields)} GROUP BY {places}").fetchall()
    return [(tuple(tuple(v) if isinstance(v, list) else v for v in row[:-1]), int(row[-1])) for row in rows]


def _listed(fields: Sequence[str]) -> str:
    for name in fields:
        if name not in FIELDS:
            raise UsageError(
                f"an imported trace has no field {name!r}; fields: {', '.join(FIELDS)}; SQL reaches the rest"
            )
    return ", ".join(f'{FIELDS[name]} AS "{name}"' for name in fields)


def _source(fields: Sequence[str]) -> str:
    return _FROM + (_JOIN if "sass" in fields else "")


def last_instructions(trace: Trace) -> list[tuple[int, str | None]]:
    """Each warp with the text of the last instruction it executed that is no padding."""
    return [
        (int(warp), text)
        for warp, text in trace.sql(
            f"SELECT e.warp, arg_max(i.sass, e.event) {_FROM}{_JOIN} "
            "WHERE i.sass IS NULL OR NOT regexp_matches(i.sass, '^(@\\S+ )?NOP') GROUP BY e.warp"
        ).fetchall()
    ]


def grid_warps(trace: Trace) -> int | None:
    """Warps of the traced grid as the source described its kernel; None where it did not."""
    described = _described(trace)
    grid, block = described.get("grid"), described.get("block")
    if not grid or not block:
        return None
    return int(grid[0] * grid[1] * grid[2]) * -(-int(block[0] * block[1] * block[2]) // 32)


def _described(trace: Trace) -> dict[str, Any]:
    """The first kernel that a source described in the manifest."""
    sources = trace.manifest.get("source") or []
    for source in sources if isinstance(sources, list) else [sources]:
        for kernel in source.get("kernels", []):
            return dict(kernel)
    return {}
