"""Each sampled stall, blamed on the instructions that cause it.

A stall with several possible causes is divided among them: by the time that each still needs when the stalled instruction is
reached (its usual latency minus the issue cycles in between, at least one), times how often it executes (samples in which it
issued). GPA divides by the inverse of the longest path instead, which prefers near producers even if a distant one is a load and
the near one a conversion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from warpsight.device_code.decoded import Decoded
from warpsight.device_code.disassembly import INSTRUCTION_SIZE
from warpsight.device_code.latencies import usual_latency
from warpsight.device_code.stall_places import place_of
from warpsight.sass.why import pruning
from warpsight.sass.why.dependencies import Dependencies, Producer, hazard
from warpsight.sass.why.reasons import reason
from warpsight.sass.why.samples import Sample, StallSamples

_BARRIERS = ("BAR", "WARPSYNC", "UCGABAR_WAIT", "BSYNC")
_MATRIX = ("HGMMA", "IGMMA", "QGMMA", "BGMMA")
_BRANCHES = ("BRA", "BRX", "BRXU", "CALL", "RET", "JMP", "JMX", "BSYNC", "BREAK", "EXIT", "BSSY", "WARPSYNC")
_COMMITS = {"LDGDEPBAR": ("LDGSTS",), "UTMACMDFLUSH": ("UTMASTG", "UTMAREDG", "UBLKCP", "UBLKRED")}
_SPECIAL_REGISTERS = ("S2R", "S2UR", "CS2R", "B2R")
_SPACES = {
    "global": "global memory", "generic": "generic memory", "local": "local memory", "shared": "shared memory",
    "constant": "constant memory", "texture": "texture", "surface": "surface", "global to shared": "asynchronous copy",
    "bulk": "asynchronous copy", "shared to global": "asynchronous copy", "cluster shared": "cluster shared memory",
    "tensor memory": "tensor memory",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Blame:
    """A part of a stall and the instruction it is blamed on.

    Attributes:
        stalled: where the warps were sampled; cause: the blamed instruction, which is the same one if nothing else is to blame.
        reason: stall reason of the samples; detail: what the cause makes the warp wait for: `global memory`, `mbarrier`, `fixed
            latency`, ….
        hazard: `RAW`, `WAW`, `WAR`, `order`; empty if no register or barrier is involved.
        registers: registers shared by the two, as bits.
        samples, not_issued: the part of the stall's samples, fractions where a stall has several causes.
        cycles: issue cycles from the cause on the shortest path.
    """

    stalled: int
    cause: int
    reason: str
    detail: str
    hazard: str
    registers: int
    samples: float
    not_issued: float
    cycles: int


@dataclass(frozen=True)
class Blamed:
    """All stalls of a section.

    Attributes:
        blames: the parts of all stalls.
        single_before, single_after: share of the stalls with producers that have a single one, before and after pruning.
        unexplained: samples of scoreboard stalls at instructions that wait for no barrier.
    """

    blames: tuple[Blame, ...]
    single_before: float | None
    single_after: float | None
    unexplained: int


def blame(dependencies: Dependencies, samples: StallSamples) -> Blamed:
    """Blame every stall of a section."""
    finder = _Finder(dependencies, samples)
    found: list[Blame] = []
    for row in samples.rows:
        if row.stalled and 0 <= row.index < len(dependencies.graph.instructions):
            found += finder.blamed(row)
    before, after = finder.single_shares()
    return Blamed(tuple(found), before, after, finder.unexplained)


class _Finder:
    """The causes of stalls in one section."""

    def __init__(self, dependencies: Dependencies, samples: StallSamples) -> None:
        self.dependencies = dependencies
        self.instructions = dependencies.graph.instructions
        self.issues = {row.index: row.samples for row in samples.rows if not row.stalled}
        self.unexplained = 0
        self.counts: list[tuple[int, int]] = []
        self.rules: dict[str, Callable[[Sample], list[tuple[Producer, str]]]] = {
            "scoreboard": self._scoreboard, "fixed": self._fixed, "barrier": self._barrier, "branch": self._branch,
            "warpgroup": self._warpgroup, "stores": self._stores, "queue": self._queue,
        }  # fmt: skip

    def blamed(self, row: Sample) -> list[Blame]:
        """The parts of one stall."""
        rule = self.rules.get(reason(row.reason).rule)
        causes = rule(row) if rule else []
        if not causes:
            causes = [(Producer(row.index, 0), self._own_detail(row))]
        weights = [self._weight(one) for one, _ in causes]
        total = sum(weights)
        waiting = self.instructions[row.index]
        return [
            Blame(
                row.index, one.index, row.reason, detail,
                "" if one.index == row.index or not (one.registers or one.barriers)
                else hazard(self.instructions[one.index], waiting),
                one.registers, row.samples * weight / total, row.not_issued * weight / total, one.cycles,
            )
            for (one, detail), weight in zip(causes, weights, strict=True)
        ]  # fmt: skip

    def single_shares(self) -> tuple[float | None, float | None]:
        """The share of stalled instructions with producers that have a single one: before and after pruning."""
        before = [one for one, _ in self.counts if one]
        after = [one for _, one in self.counts if one]
        return (
            sum(one == 1 for one in before) / len(before) if before else None,
            sum(one == 1 for one in after) / len(after) if after else None,
        )

    def _weight(self, one: Producer) -> float:
        left = max(usual_latency(self.instructions[one.index]) - one.cycles, 1)
        return left * max(self.issues.get(one.index, 0), 1)

    def _counted(self, row: Sample, kept: list[Producer]) -> None:
        self.counts.append((len(pruning.all_dependencies(self.dependencies, row.index)), len(kept)))

    def _scoreboard(self, row: Sample) -> list[tuple[Producer, str]]:
        causes = pruning.scoreboard_causes(self.dependencies, row.index, row.reason == "long_scoreboard")
        if not causes:
            own = self.instructions[row.index]
            if _is_mbarrier_wait(own):
                return [(Producer(row.index, 0), "mbarrier")]
            if own.operation == "WARPGROUP" or self._reads_product(row.index):
                return self._warpgroup(row)
            self.unexplained += row.samples
            return []
        self._counted(row, causes)
        waiting = self.instructions[row.index]
        return [
            (real, _detail_of(self.instructions[real.index], waiting))
            for one in causes
            for real in self._committed(one)
        ]

    def _committed(self, one: Producer) -> list[Producer]:
        """The copies in the group that a commit closes: they take the time, not the commit."""
        copy = _COMMITS.get(self.instructions[one.index].operation)
        if copy is None:
            return [one]
        found = self.dependencies.nearest(one.index, lambda other: other.operation in copy)
        return [replace(other, cycles=other.cycles + one.cycles) for other in found[:1]] or [one]

    def _fixed(self, row: Sample) -> list[tuple[Producer, str]]:
        causes = pruning.fixed_causes(self.dependencies, row.index)
        if causes:
            self._counted(row, causes)
        return [(one, "fixed latency") for one in causes]

    def _issued(self, row: Sample) -> int:
        """The instruction that caused a stall, if the warp has already issued it."""
        offset = place_of(row.reason, row.index * INSTRUCTION_SIZE, self._operation_at)
        return offset // INSTRUCTION_SIZE

    def _operation_at(self, offset: int) -> str:
        index = offset // INSTRUCTION_SIZE
        return self.instructions[index].operation if 0 <= index < len(self.instructions) else ""

    def _barrier(self, row: Sample) -> list[tuple[Producer, str]]:
        place = self._issued(row)
        if _is_barrier(self.instructions[place]):
            return [(Producer(place, 0), "barrier")]
        return [(one, "barrier") for one in self.dependencies.nearest(row.index, _is_barrier)]

    def _branch(self, row: Sample) -> list[tuple[Producer, str]]:
        place = self._issued(row)
        if _is_branch(self.instructions[place]):
            return [(Producer(place, 0), "branch")]
        return [(one, "branch") for one in self.dependencies.nearest(row.index, _is_branch)]

    def _warpgroup(self, row: Sample) -> list[tuple[Producer, str]]:
        found = self.dependencies.nearest(row.index, lambda one: one.operation in _MATRIX)
        return [(one, "matrix product of the warpgroup") for one in found[:1]]

    def _reads_product(self, index: int) -> bool:
        return any(
            self.instructions[one.index].operation in _MATRIX for one in self.dependencies.producers(index)
        )

    def _stores(self, row: Sample) -> list[tuple[Producer, str]]:
        found = self.dependencies.all_before(self._issued(row), lambda one: one.kind.store or one.kind.atomic)
        waiting = self.instructions[row.index]
        return [
            (
                one,
                _detail_of(self.instructions[one.index], waiting)
                if self.instructions[one.index].kind.atomic
                else "stores",
            )
            for one in found
        ]

    def _queue(self, row: Sample) -> list[tuple[Producer, str]]:
        return [
            (
                Producer(row.index, 0),
                f"full queue: {_SPACES.get(self.instructions[row.index].kind.space, 'units')}",
            )
        ]

    def _own_detail(self, row: Sample) -> str:
        one = self.instructions[row.index]
        if row.reason == "wait":
            return "issue spacing"
        if row.reason == "math_pipe_throttle":
            return f"busy pipe: {one.kind.pipe}"
        return {"no_instructions": "instruction fetch", "not_selected": "other warps", "imc_miss": "constant memory",
                "sleeping": "sleep", "dispatch_stall": "dispatch"}.get(row.reason, reason(row.reason).text)  # fmt: skip


def _is_mbarrier_wait(one: Decoded) -> bool:
    """Whether an instruction tests the phase of an mbarrier."""
    return one.operation == "SYNCS" and (
        "TRYWAIT" in one.access.modifiers or "PHASECHK" in one.access.modifiers
    )


def _is_barrier(one: Decoded) -> bool:
    """Whether an instruction waits for other warps or lanes; arrivals do not."""
    return one.operation in _BARRIERS and "ARV" not in one.access.modifiers


def _is_branch(one: Decoded) -> bool:
    """Whether an instruction changes the control flow."""
    return one.operation in _BRANCHES


def _detail_of(cause: Decoded, waiting: Decoded) -> str:
    """What others wait for at a scoreboard barrier, from its setter."""
    if _is_mbarrier_wait(cause):
        return "mbarrier"
    if cause.operation in _COMMITS or (
        cause.operation == "LDGSTS" and not cause.access.writes & waiting.access.reads
    ):
        return "asynchronous copy"
    if cause.operation in _SPECIAL_REGISTERS:
        return "special register"
    if hazard(cause, waiting) == "WAR":
        return "operands still being read"
    if cause.kind.atomic and cause.kind.space:
        return f"atomic in {_SPACES.get(cause.kind.space, 'memory')}"
    if cause.kind.synchronizes:
        return cause.kind.synchronizes
    if cause.kind.space:
        return _SPACES.get(cause.kind.space, cause.kind.space)
    return {"transcendental": "special function", "exchange": "exchange between lanes", "uniform": "uniform datapath",
            "fp64": "double precision", "tensor": "matrix product"}.get(cause.kind.pipe, cause.kind.pipe)  # fmt: skip
