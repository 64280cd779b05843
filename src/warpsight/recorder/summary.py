"""A finished recording in about ten lines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class RecordingSummary:
    """Numbers of a finished recording. `finished` is the converter's answer; durations in ns."""

    path: Path
    duration: int
    conversion: int
    finished: dict[str, Any]
    overhead: dict[str, int]
    processes: int

    @property
    def rows(self) -> dict[str, int]:
        """Rows by table."""
        found = self.finished.get("rows", {})
        return {str(k): int(v) for k, v in found.items()} if isinstance(found, dict) else {}

    @property
    def lost(self) -> int:
        """Rows, buffers or bytes that are missing; notes do not count."""
        return sum(int(one.get("count", 0)) for one in self.losses if one.get("severity") != "note")

    @property
    def losses(self) -> list[dict[str, Any]]:
        """The manifest's entries about missing rows."""
        found = self.finished.get("loss", [])
        return list(found) if isinstance(found, list) else []


def amount(count: float, units: tuple[str, ...] = ("", " thousand", " million", " billion")) -> str:
    """A count in words: `1,234`, `12.3 million`."""
    if count < 100_000:
        return f"{count:,.0f}"
    step = 0
    while count >= 1000 and step + 1 < len(units):
        count /= 1000
        step += 1
    return f"{count:.3g}{units[step]}"


def amount_of(count: float, noun: str, plural: str = "") -> str:
    """A count with its noun: `1 kernel`, `12.3 million kernels`."""
    return f"{amount(count)} {noun if count == 1 else plural or noun + 's'}"


def size(count: float) -> str:
    """Bytes with a decimal unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


def seconds(ns: float) -> str:
    """A duration with a fitting unit."""
    if ns < 1e6:
        return f"{ns / 1e3:.1f} µs"
    if ns < 1e9:
        return f"{ns / 1e6:.1f} ms"
    if ns < 600e9:
        return f"{ns / 1e9:.2f} s"
    return f"{ns / 60e9:.1f} min"
