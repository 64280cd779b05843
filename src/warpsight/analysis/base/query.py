"""Building a query from simple parts, and running SQL with errors that name similar columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from warpsight.analysis.base import filters
from warpsight.errors import UsageError
from warpsight.model.schema import TABLES
from warpsight.model.selection import begin_of

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from warpsight.model import StoredTrace

_MISSING_COLUMN = re.compile(
    r'column "?([A-Za-z_0-9.]+)"? (?:not found|does not exist|cannot be found)', re.IGNORECASE
)


@dataclass(frozen=True)
class Question:
    """A query without SQL: filters, then columns or groups, then which rows."""

    table: str = "kernel"
    filters: Sequence[str] = ()
    fields: Sequence[str] = ()
    group_by: Sequence[str] = ()
    #: Only the number of rows (of each group)
    count: bool = False
    #: This many groups with the largest count, or rows with the longest duration
    top: int | None = None
    head: int | None = None
    tail: int | None = None


def ask(trace: StoredTrace, question: Question) -> duckdb.DuckDBPyRelation:
    """Run a question.

    Raises:
        UsageError: for a table or column that does not exist, or options that exclude each other.
    """
    if question.table not in TABLES:
        near = get_close_matches(question.table, TABLES, n=2)
        hint = f"did you mean {' or '.join(near)}?" if near else f"tables: {', '.join(TABLES)}"
        raise UsageError(f"there is no table {question.table!r}; {hint}")
    if sum(n is not None for n in (question.top, question.head, question.tail)) > 1:
        raise UsageError("use one of --top, --head and --tail")
    relation = trace.table(question.table)
    columns = dict(zip(relation.columns, map(str, relation.types), strict=True))
    where = filters.condition(question.filters, columns, begin_of(trace) if question.filters else 0)
    if question.count or question.group_by:
        return trace.sql(_groups(question, columns, where))
    return trace.sql(_rows(question, columns, where))


def _groups(question: Question, columns: dict[str, str], where: str) -> str:
    if question.fields:
        raise UsageError("--fields cannot be combined with --group-by or --count")
    keys = [filters.column(name, columns) for name in question.group_by]
    chosen = [*keys, 'count(*) AS "count"']
    if "duration" in columns and not question.count:
        chosen += [
            "sum(duration)::BIGINT AS total",
            "avg(duration) AS mean",
            "min(duration) AS min",
            "max(duration) AS max",
        ]
    sql = f'SELECT {", ".join(chosen)} FROM "{question.table}" WHERE {where}'
    if not keys:
        return sql
    order = "total DESC NULLS LAST" if "duration" in columns and not question.count else '"count" DESC'
    limit = question.top if question.top is not None else question.head
    if question.tail is not None:
        raise UsageError("--tail cannot be combined with --group-by")
    return f"{sql} GROUP BY {', '.join(keys)} ORDER BY {order}, {', '.join(keys)}" + (
        "" if limit is None else f" LIMIT {limit}"
    )


def _rows(question: Question, columns: dict[str, str], where: str) -> str:
    chosen = ", ".join(filters.column(name, columns) for name in question.fields) or "*"
    source = f'FROM "{question.table}" WHERE {where}'
    time = TABLES[question.table].sort or ("time" if "time" in columns else None)
    forward = f" ORDER BY {time}" if time else ""
    if question.top is not None:
        measure = next((c for c in ("duration", "bytes", "value") if c in columns), None)
        if measure is None:
            raise UsageError(f"--top needs a duration or a size; table {question.table} has none")
        return f"SELECT {chosen} {source} ORDER BY {measure} DESC NULLS LAST LIMIT {question.top}"
    if question.tail is not None:
        if time is None:
            raise UsageError(f"--tail needs a time; table {question.table} has none")
        return f"SELECT {chosen} FROM (SELECT * {source} ORDER BY {time} DESC LIMIT {question.tail}){forward}"
    return f"SELECT {chosen} {source}{forward}" + ("" if question.head is None else f" LIMIT {question.head}")


def arrow(trace: StoredTrace, relation: duckdb.DuckDBPyRelation) -> pa.Table:
    """The rows of a relation. SQL sums have 128 bits; they become int64 where they fit and float64 otherwise.

    Raises:
        UsageError: when the statement fails, or returns values of an unsupported type.
    """
    kinds = dict(zip(relation.columns, map(str, relation.types), strict=True))
    if len(kinds) < len(relation.columns) or not any(_wide(kind) for kind in kinds.values()):
        return _shown(trace.fetched(relation))
    try:
        return _shown(_narrow(trace.fetched(_projected(relation, kinds, "DECIMAL(38, 0)")), kinds))
    except UsageError as error:
        if "Conversion Error" not in str(error):
            raise
        return _shown(trace.fetched(_projected(relation, kinds, "DOUBLE")))  # 39 digits


def _wide(kind: str) -> bool:
    return kind in ("HUGEINT", "UHUGEINT")


def _projected(
    relation: duckdb.DuckDBPyRelation, kinds: dict[str, str], form: str
) -> duckdb.DuckDBPyRelation:
    quoted = {name: '"' + name.replace('"', '""') + '"' for name in kinds}
    return relation.project(
        ", ".join(
            f"{quoted[n]}::{form} AS {quoted[n]}" if _wide(kind) else quoted[n] for n, kind in kinds.items()
        )
    )


def _narrow(table: pa.Table, kinds: dict[str, str]) -> pa.Table:
    import pyarrow as pa

    for i, name in enumerate(table.column_names):
        if _wide(kinds[name]):
            try:
                column = table.column(i).cast(pa.int64())
            except pa.ArrowInvalid:
                column = table.column(i).cast(pa.float64())
            table = table.set_column(i, name, column)
    return table


def _shown(table: pa.Table) -> pa.Table:
    """The table, if Python can represent its dates and times."""
    import pyarrow as pa

    for field, column in zip(table.schema, table.columns, strict=True):
        if pa.types.is_temporal(field.type) or pa.types.is_nested(field.type):
            try:
                column.to_pylist()
            except (OverflowError, ValueError, pa.ArrowException):
                raise UsageError(
                    f"column {field.name} holds times that are out of range here; cast it to VARCHAR"
                ) from None
    return table


def run(trace: StoredTrace, sql: str) -> duckdb.DuckDBPyRelation:
    """Run SQL; an error about an unknown column names the existing ones.

    Raises:
        UsageError: for an invalid statement, or one that does more than read.
    """
    try:
        return trace.sql(sql)
    except UsageError as error:
        match = _MISSING_COLUMN.search(str(error))
        if match is None or "did you mean" in str(error).lower():
            raise
        known = {c.name: t for t, table in TABLES.items() for c in table.columns}
        known |= dict.fromkeys(("name", "demangled", "short"), "kernel")
        near = get_close_matches(match[1].split(".")[-1], known, n=3)
        if not near:
            raise
        raise UsageError(f"{error}\ndid you mean {' or '.join(near)}?") from None
