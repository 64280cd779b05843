"""The account as stacked bars, one per device, with a legend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from warpsight.analysis.account.classes import CLASSES, IDLE, MEANING
from warpsight.ui.render import numbers

if TYPE_CHECKING:
    import pyarrow as pa

    from warpsight.analysis.base.result import Result

#: Devices with a bar of their own.
_DEVICES = 16


@dataclass(frozen=True)
class _BarPart:
    """One class: `share` is 0 to 1, `idle` parts are drawn striped."""

    name: str
    idle: bool
    share: float
    percent: str
    time: str
    meaning: str


@dataclass(frozen=True)
class _Bar:
    """One device, or all of them together; `label` is "" where there is only one."""

    label: str
    told: str
    parts: tuple[_BarPart, ...]


@dataclass(frozen=True)
class _StackedBars:
    """The bars, and the classes that any of them has."""

    bars: tuple[_Bar, ...]
    legend: tuple[_BarPart, ...]
    left_out: int


def of(account: Result) -> _StackedBars | None:
    """The account as bars, or None if it has no time."""
    table = account.tables.get("devices")
    rows = [row for row in (table.to_pylist() if table is not None else ()) if row["span"]]
    if not rows:
        return None
    together = {name: sum(row[name] for row in rows) for name in ("span", *CLASSES)}
    legend = _parts(together)
    bars = [_bar("All" if len(rows) > 1 else "", legend)]
    if len(rows) > 1:
        bars += [_bar(_label(row["device"]), _parts(row)) for row in rows[:_DEVICES]]
    return _StackedBars(tuple(bars), legend, max(len(rows) - _DEVICES, 0))


def _label(device: int | None) -> str:
    return "unknown device" if device is None else f"GPU {device}"


def _bar(label: str, parts: tuple[_BarPart, ...]) -> _Bar:
    told = ", ".join(f"{part.name} {part.percent}" for part in parts)
    return _Bar(label, f"{label}: {told}" if label else told, parts)


def _parts(row: dict[str, Any]) -> tuple[_BarPart, ...]:
    """The classes that have time, in the order of their definition: work first, then idle time by cause."""
    return tuple(
        _BarPart(name, kind in IDLE, row[name] / row["span"], percent(row[name] / row["span"]),
             numbers.duration(row[name]), MEANING[name])
        for kind, name in enumerate(CLASSES) if row[name]
    )  # fmt: skip


def percent(share: float) -> str:
    """Format a percentage; only exactly nothing shows as zero."""
    return "<0.1%" if 0 < share < 0.0005 else numbers.cell(100 * share, "%")


def with_percent(account: pa.Table) -> pa.Table:
    """The rows of the account with their share in percent."""
    import pyarrow as pa
    import pyarrow.compute as pc

    field = pa.field("percent", pa.float64(), metadata={"unit": "%"})
    return account.append_column(field, pc.multiply(account["share"], 100.0))
