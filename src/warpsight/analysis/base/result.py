"""What every analysis returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Finding:
    """One thing worth saying.

    Attributes:
        severity: `error` (the program is or will be wrong: a leak, a failed launch), `warning` (costs time or memory),
            `loss` (rows are missing), `note` (good to know).
        text: One sentence that stands alone, with its numbers written for people.
        values: The numbers of the text, in base units (ns, B).
        rule: Name of the rule that found it, `family/name`; None when no rule did.
        cost_ns: Wall-clock time that would be saved at most if this were fixed, in ns; None when it costs no time or
            nobody can tell. Findings are ordered by it, so it must never be a sum over what ran in parallel.
        evidence: Short texts or small mappings (a row each) that show it: times, names, stacks; the best first.
        advice: What to do about it, as sentences in the imperative.
    """

    severity: str
    text: str
    values: Mapping[str, Any] = field(default_factory=dict)
    rule: str | None = None
    cost_ns: int | None = None
    evidence: tuple[str | Mapping[str, Any], ...] = ()
    advice: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data; what is not known is left out."""
        out: dict[str, Any] = {"severity": self.severity, "text": self.text, "values": dict(self.values)}
        if self.rule is not None:
            out["rule"] = self.rule
        if self.cost_ns is not None:
            out["cost_ns"] = self.cost_ns
        if self.evidence:
            out["evidence"] = [e if isinstance(e, str) else dict(e) for e in self.evidence]
        if self.advice is not None:
            out["advice"] = self.advice
        return out


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
            "findings": [finding.to_json() for finding in self.findings],
        }

    def _repr_html_(self) -> str:
        """What a notebook shows; asked for by name, because pages belong to a layer above this one."""
        from importlib import import_module

        return str(import_module("warpsight.ui.jupyter.display").result_html(self))


def units(table: pa.Table) -> dict[str, str]:
    """The unit of every column that has one."""
    found = {f.name: (f.metadata or {}).get(b"unit", b"").decode() for f in table.schema}
    return {name: unit for name, unit in found.items() if unit}


def with_units(table: pa.Table, **unit: str) -> pa.Table:
    """The table with units in the metadata of the named columns; names that are not there are ignored."""
    import pyarrow as pa

    fields = [f.with_metadata({"unit": unit[f.name]}) if f.name in unit else f for f in table.schema]
    return table.cast(pa.schema(fields))


def most_costly_first(findings: tuple[Finding, ...] | list[Finding]) -> tuple[Finding, ...]:
    """Findings in the order people should read them: errors, loss, warnings, notes, each by the time they cost; stable.

    So the first that costs something is the one a verdict's headline names.
    """
    order = {"error": 0, "loss": 1, "warning": 2, "note": 3}

    def key(finding: Finding) -> tuple[int, int]:
        return order.get(finding.severity, 3), -(finding.cost_ns or 0)

    return tuple(sorted(findings, key=key))
