"""What every analysis returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Finding:
    """One thing worth saying: `severity` is note, warning or loss; `values` holds the numbers of the text."""

    severity: str
    text: str
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """Tables by name and findings. Columns carry their unit in the field's metadata (`unit`: ns, B, B/s, %, …)."""

    tables: Mapping[str, pa.Table]
    findings: tuple[Finding, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data: rows as objects, units beside them."""
        return {
            "tables": {
                name: {"units": units(table), "rows": table.to_pylist()}
                for name, table in self.tables.items()
            },
            "findings": [
                {"severity": f.severity, "text": f.text, "values": dict(f.values)} for f in self.findings
            ],
        }


def units(table: pa.Table) -> dict[str, str]:
    """The unit of every column that has one."""
    found = {f.name: (f.metadata or {}).get(b"unit", b"").decode() for f in table.schema}
    return {name: unit for name, unit in found.items() if unit}


def with_units(table: pa.Table, **unit: str) -> pa.Table:
    """The table with units in the metadata of the named columns; names that are not there are ignored."""
    import pyarrow as pa

    fields = [f.with_metadata({"unit": unit[f.name]}) if f.name in unit else f for f in table.schema]
    return table.cast(pa.schema(fields))
