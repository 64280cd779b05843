"""Losses in the trace, as reported by the recorders and the conversion, summed by cause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from warpsight.capture import columns
from warpsight.model.schema import TABLES

Row = dict[str, Any]
#: Arena, number of a counter in it, ring, and where the count began.
ReportKey = tuple[str, int, int, int]


class LossLog:
    """Loss rows of one process of the trace (or of the recording as a whole)."""

    def __init__(self, rows: list[Row], process: int | None = None) -> None:
        """`rows` is the trace's list, which this log appends to."""
        self._rows = rows
        self._counted = {_key(row): row for row in rows if row.get("counted") and row["process"] == process}
        self._reported = {tuple(row["report"]): row for row in rows if row.get("report")}
        self.process = process

    def add(
        self,
        source: str,
        cause: str,
        count: int,
        *,
        kind: str | None = None,
        severity: str = "lost",
        time: int | None = None,
        start: int | None = None,
        end: int | None = None,
        report: ReportKey | None = None,
    ) -> None:
        """Add a report; it replaces an earlier one with the same `report`, from a drainer that was killed right afterwards."""
        earlier = self._reported.get(report) if report else None
        if earlier is not None:
            earlier |= {"count": max(earlier["count"], count), "end": end}
            return
        self._rows.append(
            {
                "time": time,
                "source": source,
                "cause": cause,
                "count": count,
                "kind": kind,
                "severity": severity,
                "start": start,
                "end": end,
                "process": self.process,
            }
        )
        if report:
            self._rows[-1]["report"] = report
            self._reported[report] = self._rows[-1]

    def count(
        self,
        source: str,
        cause: str,
        count: int,
        kind: str | None,
        severity: str,
        *,
        start: int | None = None,
        end: int | None = None,
        worst: int = 0,
    ) -> None:
        """Add to the row with this cause, whose text includes the largest value, `worst` nanoseconds."""
        if not count:
            return
        row = self._counted.get((source, cause, kind, severity))
        if row is None:
            self.add(source, cause, 0, kind=kind, severity=severity, start=start, end=end)
            row = self._counted[source, cause, kind, severity] = self._rows[-1]
            row["counted"] = True
        row["count"] += count
        row["worst"] = max(row.get("worst", 0), worst)
        row["start"] = min((t for t in (row["start"], start) if t is not None), default=None)
        row["end"] = max((t for t in (row["end"], end) if t is not None), default=None)


def _key(row: Row) -> tuple[str, str, str | None, str]:
    return row["source"], row["cause"], row["kind"], row["severity"]


def table(rows: Iterable[Row]) -> pa.Table:
    """Loss rows as the table of the trace."""
    model = TABLES["loss"]
    plain = []
    for row in rows:
        worst = f" (by up to {row['worst']:,} ns)" if row.get("worst") else ""
        plain.append({c.name: row.get(c.name) for c in model.columns} | {"cause": row["cause"] + worst})
    return columns.table(model, plain)[0]


def given(row: Mapping[str, Any]) -> Row:
    """A loss row from the launcher's report, with defaults for missing fields."""
    known = {c.name for c in TABLES["loss"].columns}
    return {
        "source": "launcher",
        "cause": "unknown",
        "count": 1,
        "severity": "lost",
        **dict.fromkeys(("time", "kind", "start", "end", "process")),
        **{name: value for name, value in row.items() if name in known},
    }


def summary(data: pa.Table) -> list[Row]:
    """One entry per severity, source and cause, for the manifest and the summary at the end."""
    if not len(data):
        return []
    grouped = data.group_by(["severity", "source", "cause"]).aggregate([("count", "sum")]).to_pylist()
    return [
        {"severity": g["severity"], "source": g["source"], "cause": g["cause"], "count": g["count_sum"]}
        for g in grouped
    ]
