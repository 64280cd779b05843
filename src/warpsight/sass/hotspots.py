"""Hot lines: where warps of each kernel were sampled, and their waits, by source line, PTX line or instruction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from warpsight._display import Shown
from warpsight.device_code.kept_code import KeptCode
from warpsight.device_code.stall_places import place_of
from warpsight.errors import WarpsightError
from warpsight.model.selection import Rows
from warpsight.model.work import named
from warpsight.sass import code_place
from warpsight.sass.code_place import CodePlace

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

#: Keys to sum a kernel's samples by.
LEVELS = ("line", "ptx", "instruction")
_PLURALS = {"line": "lines", "ptx": "ptx_lines", "instruction": "instructions"}
NOT_SAMPLED = "no samples of program counters; record with: warpsight record --pc-sampling on -- PROGRAM (NVIDIA, CUPTI)"


@dataclass
class SampleCounts:
    """Samples, total and by stall reason.

    Attributes:
        samples: all of them; not_issued: those in cycles in which the scheduler issued nothing.
        reasons: reason → the same two.
    """

    samples: int = 0
    not_issued: int = 0
    reasons: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, reason: str, samples: int, not_issued: int) -> None:
        """Count further samples."""
        self.samples += samples
        self.not_issued += not_issued
        before = self.reasons.get(reason, (0, 0))
        self.reasons[reason] = before[0] + samples, before[1] + not_issued

    def ordered(self) -> list[tuple[str, int, int]]:
        """(reason, samples, not issued), most samples first."""
        return sorted(((r, s, n) for r, (s, n) in self.reasons.items()), key=lambda row: (-row[1], row[0]))

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        reasons = {
            reason: {"samples": samples, "not_issued": idle} for reason, samples, idle in self.ordered()
        }
        return {"samples": self.samples, "not_issued": self.not_issued, "reasons": reasons}


@dataclass
class Spot(CodePlace, SampleCounts):
    """A place in the code of one kernel with its samples."""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**self.place(), **super().to_json()}


@dataclass
class SampledKernel(SampleCounts):
    """One sampled function: a kernel, or a device function that was not inlined.

    Attributes:
        name: mangled name; demangled: readable name; launches: number of launches in the requested time, 0 for device functions.
            device_ns: their time.
        has_lines: whether its module has line information; has_code: whether its code was kept.
    """

    name: str = ""
    demangled: str = ""
    launches: int = 0
    device_ns: int = 0
    has_lines: bool = False
    has_code: bool = False
    levels: dict[str, list[Spot]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        spots = {_PLURALS[level]: [spot.to_json() for spot in spots] for level, spots in self.levels.items()}
        return {"name": self.demangled, "mangled": self.name, "launches": self.launches, "device_ns": self.device_ns,
                "has_lines": self.has_lines, "has_code": self.has_code, **super().to_json(), **spots}  # fmt: skip


@dataclass(frozen=True)
class Hotspots(Shown):
    """The answer.

    Attributes:
        kernels: kernels, most samples first; samples: samples of these; dropped, unattributed: counts of the windows, see table
            `pc_window`.
        windows: number of windows; sampled_ns: their time; cost_ns: the recorder's processor time to collect them.
        notes: what the answer lacks, and the remedy.
    """

    kernels: Sequence[SampledKernel]
    samples: int
    dropped: int
    unattributed: int
    windows: int
    sampled_ns: int
    cost_ns: int
    period: int | None
    notes: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        plain = {name: value for name, value in self.__dict__.items() if name not in ("kernels", "notes")}
        return {
            **plain,
            "notes": list(self.notes),
            "kernels": [
                {"share": kernel.samples / max(self.samples, 1), **kernel.to_json()}
                for kernel in self.kernels
            ],
        }


def hotspots(
    trace: StoredTrace, rows: Rows = Rows(), levels: Sequence[str] = LEVELS, most: int | None = None
) -> Hotspots:
    """Where warps were sampled, in the windows that the conditions choose; `name` chooses kernels.

    Args:
        trace: the trace.
        rows: which samples count.
        levels: levels to sum by, from :data:`LEVELS`.
        most: only this many kernels have places, those with the most samples.

    Raises:
        WarpsightError: when the trace has no samples.
    """
    if not trace.count("pc_window"):
        lost = trace.sql("SELECT cause FROM loss WHERE source = 'pc sampling'").fetchall()
        raise WarpsightError(f"{trace.path}: {lost[0][0] if lost else NOT_SAMPLED}")
    code = KeptCode(trace.folder / "cubins")
    by_function = _by_function(trace, rows)
    kernels = {key: _kernel(key[1], samples, code) for key, samples in by_function.items()}
    _describe(trace, rows, kernels)
    order = sorted(kernels, key=lambda key: (-kernels[key].samples, key))
    for key in order[:most]:
        _fill(kernels[key], by_function[key], code, levels)
    found = [kernels[key] for key in order]
    dropped, unattributed, windows, sampled_ns, cost_ns, period = _windows(trace, rows)
    return Hotspots(
        found, sum(kernel.samples for kernel in found), dropped, unattributed, windows, sampled_ns, cost_ns, period,
        _notes(found, code),
    )  # fmt: skip


def _windows(trace: StoredTrace, rows: Rows) -> tuple[Any, ...]:
    """Sums over the windows, and the period."""
    row: tuple[Any, ...] = trace.sql(
        f"""SELECT coalesce(sum(dropped), 0)::BIGINT, coalesce(sum(unattributed), 0)::BIGINT, count(*),
            coalesce(sum(duration), 0)::BIGINT, coalesce(sum(cost), 0)::BIGINT, min(period) FROM pc_window
            WHERE {rows.where(stream=False)}"""
    ).fetchall()[0]
    return row


_Sample = tuple[int | None, int, str, int, int]


def _by_function(trace: StoredTrace, rows: Rows) -> dict[tuple[int, str], list[_Sample]]:
    """(checksum, pc, reason, samples, not issued) of each function of each process."""
    table = trace.sql(
        f"""SELECT s.process, coalesce(n.name, '?'), checksum, pc, reason, sum(samples)::BIGINT, sum(not_issued)::BIGINT
            FROM pc_sample_ids s LEFT JOIN name n ON s.name_id = n.id
            WHERE {rows.where(stream=False)}{named(trace, rows.name)} GROUP BY ALL ORDER BY ALL"""
    ).fetchall()
    found: dict[tuple[int, str], list[_Sample]] = defaultdict(list)
    for process, name, *sample in table:
        found[process, name].append(tuple(sample))
    return found


def _kernel(name: str, samples: Iterable[_Sample], code: KeptCode) -> SampledKernel:
    """A function with its counts, without places."""
    kernel = SampledKernel(name=name)
    for checksum, _, reason, count, idle in samples:
        kernel.add(reason, count, idle)
        kernel.has_code = kernel.has_code or code.has(checksum, name)
        kernel.has_lines = kernel.has_lines or code.has_lines(checksum)
    return kernel


def _fill(kernel: SampledKernel, samples: Iterable[_Sample], code: KeptCode, levels: Sequence[str]) -> None:
    """Sum up the samples of one function at each level; without lines, at least by instruction."""
    wanted = {*levels} if kernel.has_lines else {"instruction"}
    by_level: dict[str, dict[Any, Spot]] = {level: {} for level in LEVELS if level in wanted}
    for checksum, sampled, reason, count, idle in samples:
        pc = place_of(reason, sampled, partial(code.operation_at, checksum, kernel.name))
        origin = code.origin(checksum, kernel.name, pc, "instruction" in wanted)
        for level, key, spot in code_place.by_level(Spot, origin, checksum, pc):
            if level in wanted:
                by_level[level].setdefault(key, spot).add(reason, count, idle)
    for level, spots in by_level.items():
        kernel.levels[level] = sorted(
            spots.values(), key=lambda spot: (-spot.samples, spot.pc, spot.ptx_line)
        )


def _describe(trace: StoredTrace, rows: Rows, kernels: dict[tuple[int, str], SampledKernel]) -> None:
    """Readable names, launches and time on the device."""
    names = dict(trace.sql("SELECT name, demangled FROM name").fetchall())
    ran = trace.sql(
        f"""SELECT process, n.name, count(*), coalesce(sum(duration), 0)::BIGINT FROM kernel_ids k
            JOIN name n ON k.name_id = n.id WHERE {rows.where(stream=False)} GROUP BY ALL"""
    ).fetchall()
    launched = {(process, name): (count, time) for process, name, count, time in ran}
    for key, kernel in kernels.items():
        kernel.demangled = names.get(kernel.name) or kernel.name
        kernel.launches, kernel.device_ns = launched.get(key, (0, 0))


def _notes(kernels: Sequence[SampledKernel], code: KeptCode) -> list[str]:
    notes = []
    without_code = sum(kernel.samples for kernel in kernels if not kernel.has_code)
    if without_code:
        notes.append(
            f"{without_code:,} samples are of code that the trace does not keep: only addresses of their instructions are known"
        )
    without_lines = [kernel for kernel in kernels if kernel.has_code and not kernel.has_lines]
    if without_lines:
        samples = sum(kernel.samples for kernel in without_lines)
        notes.append(
            f"{len(without_lines)} kernels with {samples:,} samples have no line information: compile with -lineinfo "
            "(nvcc, NVRTC; Triton has it) to see source lines instead of instructions"
        )
    if not code.disassembled:
        notes.append(
            "operations only: nvdisasm, which shows operands, is not installed (pip install nvidia-cuda-nvdisasm)"
        )
    return notes
