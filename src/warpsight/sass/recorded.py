"""Samples of program counters and exact counts in a trace, with their code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from warpsight.device_code.cubin import Cubin
from warpsight.device_code.demangle import demangle, short
from warpsight.device_code.disassembly import INSTRUCTION_SIZE
from warpsight.device_code.elf import ElfError
from warpsight.errors import UsageError, WarpsightError
from warpsight.model import StoredTrace
from warpsight.sass.code import KernelCode
from warpsight.sass.counts.kernels import PREFIX, Counts
from warpsight.sass.hotspots import NOT_SAMPLED
from warpsight.sass.why.advice.finding import LaunchConfiguration
from warpsight.sass.why.samples import StallSamples, add_up

_SAMPLES = """
SELECT name, checksum, pc, reason, sum(samples)::BIGINT, sum(not_issued)::BIGINT
FROM pc_sample WHERE name IS NOT NULL GROUP BY ALL ORDER BY ALL
"""
_COUNTS = f"""
SELECT name, checksum, pc, replace(metric, '{PREFIX}', ''), sum(value)::BIGINT
FROM instruction_count WHERE name IS NOT NULL GROUP BY ALL ORDER BY ALL
"""
_LAUNCH = """
SELECT k.grid_x * k.grid_y * k.grid_z, k.block_x * k.block_y * k.block_z, k.registers, k.shared_static + k.shared_dynamic,
       d.compute_capability, d.multiprocessors, k.block_x,
       d.memory_bandwidth / (d.clock_khz * 1000.0 * d.multiprocessors), avg(k.duration) * any_value(d.clock_khz) / 1e6
FROM kernel k LEFT JOIN device d ON d.device = k.device
WHERE k.name = $name GROUP BY ALL ORDER BY sum(k.duration) DESC LIMIT 1
"""


#: How many samples there would be, had every multiprocessor had warps while the kernel ran inside of windows. The start and
#: the end of a launch take some microseconds without warps, so short kernels are not judged.
_BUSY = """
SELECT sum(least(k.start + k.duration, w.start + w.duration) - greatest(k.start, w.start)) / 1e6 * any_value(d.clock_khz)
       * any_value(d.multiprocessors) / any_value(w.period)
FROM kernel k JOIN pc_window w ON k.process = w.process AND k.start < w.start + w.duration AND k.start + k.duration > w.start
JOIN device d ON d.device = k.device WHERE k.name = $name AND w.period > 0
HAVING avg(k.duration) >= 20000
"""


@dataclass(frozen=True)
class _RecordedKernel:
    """One kernel with samples or counts.

    Attributes:
        name: mangled; code: None when the trace does not have it.
        samples: of its section of code, also of functions that it calls there.
        counts: of instructions, by their index in the section; empty when none were made.
        problem: why there is no code, in words.
    """

    name: str
    code: KernelCode | None
    samples: StallSamples
    counts: Mapping[int, Counts]
    problem: str = ""

    @property
    def short_name(self) -> str:
        """The name without arguments and template arguments."""
        return short(demangle(self.name))


@dataclass
class _Gathered:
    code: KernelCode | None
    name: str
    problem: str
    rows: list[tuple[int, str, int, int]] = field(default_factory=list)
    counts: dict[int, Counts] = field(default_factory=dict)


def sampled_kernels(trace: StoredTrace) -> list[_RecordedKernel]:
    """The kernels with samples, most samples first.

    Raises:
        WarpsightError: when the trace has no samples.
    """
    found = [one for one in _kernels(trace) if one.samples.total]
    if not found:
        raise WarpsightError(f"{trace.path}: {NOT_SAMPLED}")
    return found


def listed_kernels(trace: StoredTrace) -> list[_RecordedKernel]:
    """The kernels with samples or counts, the largest number first.

    Raises:
        WarpsightError: when the trace has neither.
    """
    found = _kernels(trace)
    if not found:
        raise WarpsightError(
            f"{trace.path}: {NOT_SAMPLED}, or with: warpsight sass counts --keep TRACE -- PROGRAM"
        )
    return found


def _kernels(trace: StoredTrace) -> list[_RecordedKernel]:
    code = _Code(trace.folder)
    for name, checksum, pc, reason, samples, not_issued in trace.sql(_SAMPLES).fetchall():
        kernel, offset = code.at(name, checksum, pc)
        kernel.rows.append((offset, reason, samples, not_issued))
    for name, checksum, pc, metric, value in trace.sql(_COUNTS).fetchall():
        kernel, offset = code.at(name, checksum, pc)
        kernel.counts.setdefault(offset // INSTRUCTION_SIZE, Counts()).add({metric: value})
    found = [
        _RecordedKernel(one.name, one.code, add_up(one.rows), one.counts, one.problem)
        for one in code.gathered.values()
    ]
    executed = {id(one): sum(counts.executions for counts in one.counts.values()) for one in found}
    return sorted(found, key=lambda one: (-one.samples.total, -executed[id(one)], one.name))


class _Code:
    """The code of a trace, with each module opened once, and the data collected about its kernels."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cubins: dict[int | None, tuple[Cubin | None, str]] = {}
        self.gathered: dict[tuple[int | None, str], _Gathered] = {}

    def at(self, name: str, checksum: int | None, pc: int) -> tuple[_Gathered, int]:
        """The kernel that contains an offset of a function, and the offset in its section."""
        if checksum not in self._cubins:
            self._cubins[checksum] = _cubin(self._folder, checksum)
        cubin, problem = self._cubins[checksum]
        kernel, offset = _section(cubin, name, pc)
        key = (checksum, kernel.name if kernel else name)
        if key not in self.gathered:
            missing = problem or f"{cubin.name if cubin else 'its module'} has no function {name}"
            self.gathered[key] = _Gathered(kernel, key[1], "" if kernel else missing)
        return self.gathered[key], offset


def _cubin(folder: Path, checksum: int | None) -> tuple[Cubin | None, str]:
    if checksum is None:
        return None, "the samples do not name their module"
    path = folder / "cubins" / f"{checksum:016x}.cubin"
    if not path.is_file():
        return None, f"the trace has no code of module {checksum:016x} (cubins/{path.name})"
    try:
        return Cubin.open(path), ""
    except (ElfError, OSError) as error:
        return None, str(error)


def _section(cubin: Cubin | None, function: str, pc: int) -> tuple[KernelCode | None, int]:
    """The section of a function, and the offset in it of an offset in the function."""
    if cubin is None:
        return None, pc
    for one in cubin.functions:
        if one.name == function:
            return KernelCode(cubin, one.section, cubin.sections[one.section]), one.offset + pc
    section = cubin.section_of(function)
    return (KernelCode(cubin, section, function), pc) if section is not None else (None, pc)


def choose(found: list[_RecordedKernel], wanted: str | None, where: str) -> _RecordedKernel:
    """The first kernel that matches a name, or the first one.

    Raises:
        UsageError: when no kernel's name matches.
        WarpsightError: when the trace lacks the kernel's code.
    """
    fitting = found
    if wanted is not None:
        exact = [one for one in found if wanted in (one.name, one.short_name, demangle(one.name))]
        fitting = exact or [one for one in found if wanted in demangle(one.name)]
        if not fitting:
            listed = "\n".join(f"  {one.short_name}" for one in found[:20])
            raise UsageError(
                f"{where} has no samples or counts of a kernel {wanted!r}; it has some of:\n{listed}"
            )
    chosen = next((one for one in fitting if one.code is not None), fitting[0])
    if chosen.code is None:
        raise WarpsightError(f"{where}: {chosen.short_name}: {chosen.problem}")
    return chosen


def launch_of(trace: StoredTrace, name: str, samples: int = 0) -> LaunchConfiguration:
    """How a kernel was launched in the shape that took the most time; empty if unknown.

    Args:
        trace: the trace.
        name: the kernel's mangled name.
        samples: its number of samples, which shows how many multiprocessors were busy.
    """
    rows = trace.sql(_LAUNCH, name=name).fetchall()
    if not rows:
        return LaunchConfiguration()
    blocks, threads, registers, shared, capability, multiprocessors, width, bytes_per_cycle, cycles = rows[0]
    return LaunchConfiguration(
        blocks or 0, threads or 0, registers or 0, shared or 0, capability or "", multiprocessors or 0,
        _busy(trace, name, samples), width or 0, bytes_per_cycle or 0.0, cycles or 0.0,
    )  # fmt: skip


def _busy(trace: StoredTrace, name: str, samples: int) -> float | None:
    rows = trace.sql(_BUSY, name=name).fetchall()
    possible = rows[0][0] if rows else None
    return min(samples / possible, 1.0) if possible and samples else None
