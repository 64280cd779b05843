"""Samples of one function: warps by instruction, and why they did not issue."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from warpsight.device_code.disassembly import INSTRUCTION_SIZE
from warpsight.sass.why.reasons import NO_STALL, plain


@dataclass(frozen=True, slots=True)
class Sample:
    """Samples at one instruction for one reason.

    Attributes:
        index: the instruction, counted in its section; reason: stall reason without prefix, such as `long_scoreboard`.
        samples: all of them; not_issued: those in cycles in which the scheduler issued nothing.
    """

    index: int
    reason: str
    samples: int
    not_issued: int

    @property
    def stalled(self) -> bool:
        """Whether the warp did not issue."""
        return self.reason not in NO_STALL


@dataclass(frozen=True)
class StallSamples:
    """The samples of one section of code, summed over windows, launches and processes."""

    rows: tuple[Sample, ...]

    @property
    def total(self) -> int:
        """All samples."""
        return sum(row.samples for row in self.rows)

    @property
    def stalled(self) -> int:
        """Samples of warps that did not issue."""
        return sum(row.samples for row in self.rows if row.stalled)

    @property
    def issued(self) -> int:
        """Samples of warps that issued."""
        return self.total - self.stalled

    def at(self) -> dict[int, dict[str, int]]:
        """Samples by instruction and reason."""
        found: dict[int, dict[str, int]] = {}
        for row in self.rows:
            at = found.setdefault(row.index, {})
            at[row.reason] = at.get(row.reason, 0) + row.samples
        return found


def add_up(rows: Iterable[tuple[int, str, int, int]]) -> StallSamples:
    """Samples from rows of (offset in the section in bytes, reason, samples, not issued)."""
    sums: dict[tuple[int, str], list[int]] = {}
    for offset, reason, samples, not_issued in rows:
        one = sums.setdefault((offset // INSTRUCTION_SIZE, plain(reason)), [0, 0])
        one[0] += samples
        one[1] += not_issued
    return StallSamples(
        tuple(Sample(index, reason, *counts) for (index, reason), counts in sorted(sums.items()))
    )
