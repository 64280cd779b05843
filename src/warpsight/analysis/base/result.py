"""What every analysis returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from warpsight._display import Shown
from warpsight.analysis.base import words

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Finding:
    """One statement worth the reader's attention.

    Attributes:
        severity: `error` (the program is or will be wrong: a leak, a failed launch), `warning` (costs time or memory),
            `loss` (rows are missing), `note` (good to know).
        text: One sentence that stands alone, with its numbers written for people.
        values: The numbers of the text, in base units (ns, B).
        rule: Name of the rule that found it, `family/name`; None when no rule did.
        kind: Class of the account (`compute`, `host`, …) whose time this is about; None for everything else.
        name: The kernel, call, annotation or function that it is about.
        share_ns: Its part of the account, summed over devices, ns.
        saves_ns: Time that the recorded span would be shorter without it, ns; None when unknown.
        evidence: Short texts or small mappings (a row each) that show it: times, names, stacks; the best first.
        advice: What to do about it, as sentences in the imperative.
        at: Begin and end of the stretch of time that shows it best, ns on the trace's clock.
    """

    severity: str
    text: str
    values: Mapping[str, Any] = field(default_factory=dict)
    rule: str | None = None
    saves_ns: int | None = None
    evidence: tuple[str | Mapping[str, Any], ...] = ()
    advice: str | None = None
    kind: str | None = None
    name: str | None = None
    share_ns: int | None = None
    at: tuple[int, int] | None = None

    @property
    def class_name(self) -> str:
        """Class of the account, otherwise `loss`, `lever` (a change that saves time) or `note`."""
        if self.kind is not None:
            return self.kind
        return "loss" if self.severity == "loss" else "note" if self.saves_ns is None else "lever"

    def to_json(self) -> dict[str, Any]:
        """Plain data, leaving out unknown values."""
        out: dict[str, Any] = {
            "severity": self.severity,
            "class": self.class_name,
            "text": self.text,
            "values": dict(self.values),
        }
        optional = {
            "rule": self.rule,
            "name": self.name,
            "share_ns": self.share_ns,
            "saves_ns": self.saves_ns,
        }
        out |= {key: value for key, value in optional.items() if value is not None}
        if self.evidence:
            out["evidence"] = [e if isinstance(e, str) else dict(e) for e in self.evidence]
        if self.advice is not None:
            out["advice"] = self.advice
        return out


@dataclass(frozen=True)
class Result(Shown):
    """Tables by name and findings. Columns carry their unit in the field's metadata (`unit`: ns, B, B/s, %, …)."""

    tables: Mapping[str, pa.Table]
    findings: tuple[Finding, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data: rows as objects, with the units in a separate key."""
        return {
            "tables": {
                name: {"units": units(table), "rows": table.to_pylist()}
                for name, table in self.tables.items()
            },
            "findings": [finding.to_json() for finding in self.findings],
        }

    def __repr__(self) -> str:
        """The names of the tables; :func:`print` shows their rows."""
        held = ", ".join(f"{name} ({len(table):,})" for name, table in self.tables.items())
        count = len(self.findings)
        return f"<Result: {held or 'no tables'}; {words.counted(count, 'finding')}>"


def units(table: pa.Table) -> dict[str, str]:
    """The unit of every column that has one."""
    found = {f.name: (f.metadata or {}).get(b"unit", b"").decode() for f in table.schema}
    return {name: unit for name, unit in found.items() if unit}


def with_units(table: pa.Table, **unit: str) -> pa.Table:
    """The table with units in the metadata of the named columns; unknown names are ignored."""
    import pyarrow as pa

    fields = [f.with_metadata({"unit": unit[f.name]}) if f.name in unit else f for f in table.schema]
    return table.cast(pa.schema(fields))


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings in the order people should read them.

    Errors and loss come first, then the account's classes by their share, then changes by what they save, then notes; stable.
    """
    order = {"error": 0, "loss": 1}

    def key(finding: Finding) -> tuple[int, int]:
        rank = order.get(finding.severity)
        if rank is not None:
            return rank, 0
        if finding.kind is not None:
            return 2, -(finding.share_ns or 0)
        return 3, -(finding.saves_ns or 0)

    return tuple(sorted(findings, key=key))
