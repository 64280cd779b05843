"""The input and output of an optimizer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from warpsight.device_code.decoded import Decoded
from warpsight.sass.code import KernelCode
from warpsight.sass.why.advice import estimates
from warpsight.sass.why.advice.block_lengths import BlockLengths, block_lengths
from warpsight.sass.why.advice.pipes import busiest
from warpsight.sass.why.advice.traffic import Traffic, samples_in
from warpsight.sass.why.blame import Blame, Blamed
from warpsight.sass.why.dependencies import Dependencies
from warpsight.sass.why.lane_addresses import LaneAddresses
from warpsight.sass.why.samples import Sample, StallSamples

_MOST_PLACES = 5
_RARELY = 0.5


@dataclass(frozen=True)
class LaunchConfiguration:
    """How the kernel was launched; 0 or empty if unknown.

    Attributes:
        blocks: blocks of the grid; threads: threads of a block; registers: registers of a thread; shared: bytes of shared memory
            of a block. capability: compute capability, such as `9.0`; multiprocessors: multiprocessors of the device.
        busy: share of the multiprocessors that had warps while the kernel ran; None if unknown.
        width: threads of a block in x.
        bytes_per_cycle: bytes that memory can move per cycle and multiprocessor.
        cycles: duration of the kernel in cycles.
    """

    blocks: int = 0
    threads: int = 0
    registers: int = 0
    shared: int = 0
    capability: str = ""
    multiprocessors: int = 0
    busy: float | None = None
    width: int = 0
    bytes_per_cycle: float = 0.0
    cycles: float = 0.0


@dataclass(frozen=True)
class AdvicePlace:
    """One place of an advice: the instruction to change, where warps stall because of it, and the number of samples."""

    cause: int
    stalled: int
    samples: float


@dataclass(frozen=True)
class Advice:
    """A suggested change.

    Attributes:
        name: name of the optimizer, such as `unroll`; title: what to do, as a sentence; why: the evidence, as a sentence.
        samples: matched samples; speedup: estimated speedup of this kernel; places: places, most samples first. kept: number of
            further places.
    """

    name: str
    title: str
    why: str
    samples: float
    speedup: float
    places: tuple[AdvicePlace, ...] = field(default=())
    kept: int = 0

    @property
    def saved(self) -> float:
        """The share of the kernel's time that would be saved."""
        return 1 - 1 / self.speedup


@dataclass(frozen=True)
class KernelFacts:
    """The facts about a kernel that optimizers use."""

    code: KernelCode
    samples: StallSamples
    blamed: Blamed
    dependencies: Dependencies
    launch: LaunchConfiguration

    @cached_property
    def _has_issue_cycles(self) -> bool:
        """Whether samples show in which cycles nothing was issued."""
        return any(row.not_issued for row in self.samples.rows if row.stalled)

    @property
    def total(self) -> float:
        """All samples."""
        return float(self.samples.total)

    def cost(self, part: Blame | Sample) -> float:
        """The samples of a stall that cost time: those in cycles without an issue, if the recording has them."""
        return float(part.not_issued if self._has_issue_cycles else part.samples)

    @cached_property
    def waited(self) -> float:
        """Samples of cycles in which the scheduler issued nothing."""
        return sum(self.cost(row) for row in self.samples.rows if row.stalled)

    @property
    def issue_bound(self) -> float:
        """The share of cycles in which an instruction was issued."""
        return 1 - self.waited / self.total if self.total else 0.0

    def time_of(self, indices: Container[int]) -> float:
        """The time of some instructions, in samples: their share of the cycles with an issue, plus the cycles lost at them."""
        rows = [row for row in self.samples.rows if row.index in indices]
        issued = sum(row.samples for row in rows if not row.stalled)
        lost = sum(self.cost(row) for row in rows if row.stalled)
        return issued / max(self.samples.issued, 1) * (self.total - self.waited) + lost

    def issues_in(self, indices: Container[int]) -> float:
        """Samples of warps that issued one of some instructions."""
        return float(
            sum(row.samples for row in self.samples.rows if not row.stalled and row.index in indices)
        )

    def waits_in(self, indices: Container[int]) -> float:
        """Samples of warps that stalled at some instructions, except those that were merely not chosen."""
        return float(
            sum(row.samples for row in self.samples.rows
                if row.stalled and row.reason != "not_selected" and row.index in indices)
        )  # fmt: skip

    def instruction(self, index: int) -> Decoded:
        """The instruction at an index."""
        return self.code.instructions[index]

    def matching(self, wanted: Callable[[Blame], bool]) -> list[Blame]:
        """The blamed stalls that match a condition."""
        return [part for part in self.blamed.blames if wanted(part)]

    def issued_in(self, blocks: Iterable[int]) -> float:
        """Samples of warps that issued an instruction of these blocks."""
        return sum(self._issued[block] for block in blocks)

    @cached_property
    def _issued(self) -> dict[int, float]:
        """Samples of warps that issued, by block."""
        found: dict[int, float] = defaultdict(float)
        for row in self.samples.rows:
            if not row.stalled:
                found[self.code.graph.block_of[row.index]] += row.samples
        return found

    def speedup(self, stalls: float, fewer: float = 0.0, left: Mapping[int, float] | None = None) -> float:
        """The estimated speedup if this many stall samples end and this many issues are saved, but all memory accesses stay.

        Args:
            stalls: stalls that end, in samples.
            fewer: issues that are not needed, in samples.
            left: for some arithmetic instructions, the share that is still executed.
        """
        return min(self.unbounded(stalls, fewer, left), self.traffic.room)

    def unbounded(self, stalls: float, fewer: float, left: Mapping[int, float] | None = None) -> float:
        """The estimated speedup if memory could keep up with any load."""
        estimate = estimates.without(
            self.total, self.samples.issued, self.passed_over, self.waited if self._has_issue_cycles else None, stalls, fewer
        )  # fmt: skip
        return min(estimate, 1 / max(busiest(self, left) if left else self._busiest, 0.01))

    @cached_property
    def _busiest(self) -> float:
        return busiest(self, {})

    @cached_property
    def passed_over(self) -> float:
        """Samples of warps that could have issued while another one did."""
        return float(sum(row.samples for row in self.samples.rows if row.reason == "not_selected"))

    @cached_property
    def traffic(self) -> Traffic:
        """The accesses to memory."""
        return Traffic(self)

    @cached_property
    def lengths(self) -> BlockLengths:
        """How long the blocks of the grid take beside each other."""
        return block_lengths(self)

    @cached_property
    def lanes(self) -> LaneAddresses:
        """The addresses of accesses, lane by lane."""
        return LaneAddresses(self.dependencies, self.launch.width)

    def executions(self, index: int) -> float:
        """How often an instruction was issued, in samples: the average of its block.

        A block in which warps were only seen waiting was issued, too, and counts as half a sample.
        """
        block = self.code.graph.blocks[self.code.graph.block_of[index]]
        seen = block.number in self._sampled_blocks
        return max(self.issued_in([block.number]), _RARELY if seen else 0.0) / len(block)

    @cached_property
    def _sampled_blocks(self) -> frozenset[int]:
        return frozenset(self.code.graph.block_of[row.index] for row in self.samples.rows)

    def ends(self, name: str, title: str, why: str, parts: list[Blame], share: float = 1.0) -> Advice | None:
        """The advice for a change that ends some stalls, or a share of them."""
        return self.advice(name, title, why, parts, self.speedup(samples_in(parts) * share))

    def advice(self, name: str, title: str, why: str, parts: list[Blame], speedup: float) -> Advice | None:
        """Advice about blamed stalls; None without any."""
        if not parts:
            return None
        sums: dict[tuple[int, int], float] = {}
        for part in parts:
            key = (part.cause, part.stalled)
            sums[key] = sums.get(key, 0.0) + part.samples
        ordered = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
        places = tuple(AdvicePlace(*key, samples) for key, samples in ordered[:_MOST_PLACES])
        matched = sum(part.samples for part in parts)
        return Advice(name, title, why, matched, speedup, places, max(len(ordered) - _MOST_PLACES, 0))


def listed(advice: Advice | None) -> list[Advice]:
    """The advice as a list, empty without any."""
    return [advice] if advice else []
