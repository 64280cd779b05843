"""How close a kernel comes to its device's peaks: exact operation counts, with time and bytes from a run without counting.

Counting slows kernels down many times, so its times are useless. A second run records the time of each kernel and measures
:data:`METRICS`, which GH100 takes in one pass; peaks are the chip's own figures at the clock of that run. The model follows
Williams, Waterman, Patterson, "Roofline: an insightful visual performance model", CACM 52(4), 2009: each unit that a kernel needs
and each memory that it moves bytes through would alone take some time; the longest of these times is the roof.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from warpsight.sass.counts.kernels import CountedKernel

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

#: Memory → bytes moved, the most of them in a cycle, cycles per second.
_MEMORIES = {
    "l1": ("l1tex__t_bytes.sum", "l1tex__t_bytes.sum.peak_sustained", "l1tex__cycles_elapsed.avg.per_second"),
    "l2": ("lts__t_bytes.sum", "lts__t_bytes.sum.peak_sustained", "lts__cycles_elapsed.avg.per_second"),
    "dram": ("dram__bytes.sum", "dram__bytes.sum.peak_sustained", "dram__cycles_elapsed.avg.per_second"),
}
_CLOCK = "sm__cycles_elapsed.avg.per_second"
_THREADS = "sm__sass_thread_inst_executed_op_{}_pred_on.sum.peak_sustained"
_TENSOR = "sm__ops_path_tensor_src_{}.sum.peak_sustained"
#: (type, by matrix units) → operations of the device per cycle, and operations for each of these.
_UNITS: dict[tuple[str, bool], tuple[str, int]] = {
    ("fp32", False): (_THREADS.format("ffma"), 2), ("fp64", False): (_THREADS.format("dfma"), 2),
    ("fp16", False): (_THREADS.format("hfma"), 4), ("bf16", False): (_THREADS.format("hfma"), 4),
    ("fp16", True): (_TENSOR.format("fp16"), 1), ("bf16", True): (_TENSOR.format("bf16_dst_fp32"), 1),
    ("tf32", True): (_TENSOR.format("tf32_dst_fp32"), 1), ("fp64", True): (_TENSOR.format("fp64"), 1),
    ("fp8", True): (_TENSOR.format("fp8"), 1), ("int8", True): (_TENSOR.format("int8"), 1),
    ("int1", True): (_TENSOR.format("int1"), 1),
}  # fmt: skip
#: Metrics measured for rooflines; a chip may lack some.
METRICS = tuple(dict.fromkeys((
    _CLOCK, *(name for names in _MEMORIES.values() for name in names), *(name for name, _ in _UNITS.values()),
)))  # fmt: skip
_FLOATING = ("fp", "bf", "tf")
_SECONDS, _LAUNCHES = "seconds", "launches"
_METRICS_OF_LAUNCHES = """
SELECT name, metric, avg(value) FROM range_metric WHERE kind = 'kernel' AND NOT isnan(value) GROUP BY ALL
"""
#: The range of a launch begins before its kernel and ends after it, so the kernel's own record has its time.
_TIMES_OF_LAUNCHES = """
SELECT r.name, avg(k.duration), count(*)
FROM (SELECT DISTINCT process, correlation, name FROM range_metric WHERE kind = 'kernel') r
JOIN kernel k ON k.process = r.process AND k.correlation = r.correlation AND k.name = r.name
WHERE k.duration > 0 GROUP BY ALL
"""


@dataclass(frozen=True)
class Roof:
    """The time that one unit or memory alone would take.

    Attributes:
        name: `dram`, `l2`, `l1`, or the type of arithmetic: `fp32`, `bf16 matrix`.
        amount: bytes or operations of a launch; peak: the peak rate per second.
    """

    name: str
    amount: float
    peak: float

    @property
    def seconds(self) -> float:
        """The least time."""
        return self.amount / self.peak


@dataclass(frozen=True)
class Roofline:
    """One kernel, per launch.

    Attributes:
        name: mangled name; seconds: average measured time; operations: floating-point operations, or integer ones if there are no
            others.
        bytes: memory → bytes moved; roofs: longest least time first.
    """

    name: str
    launches: int
    seconds: float
    operations: float
    bytes: Mapping[str, float]
    roofs: Sequence[Roof]

    @property
    def rate(self) -> float:
        """Operations per second."""
        return self.operations / self.seconds

    @property
    def share(self) -> float | None:
        """Fraction of the highest attainable speed: the roof's time over the measured time."""
        return self.roofs[0].seconds / self.seconds if self.roofs else None

    @property
    def intensity(self) -> dict[str, float]:
        """Memory → operations per byte."""
        return {memory: self.operations / moved for memory, moved in self.bytes.items() if moved}

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        roofs = [{"name": one.name, "amount": one.amount, "peak": one.peak, "seconds": one.seconds,
                  "achieved": one.amount / self.seconds / one.peak} for one in self.roofs]  # fmt: skip
        return {
            "name": self.name, "launches": self.launches, "seconds": self.seconds, "operations": self.operations,
            "rate": self.rate, "bytes": dict(self.bytes), "intensity": self.intensity, "share_of_roof": self.share,
            "roofs": roofs,
        }  # fmt: skip


def rooflines(kernels: Sequence[CountedKernel], measured: StoredTrace) -> tuple[list[Roofline], list[str]]:
    """The rooflines of counted kernels that are also in the measured run, most time first, and notes on gaps."""
    runs = _measured(measured)
    found, missing, unequal = [], 0, 0
    for kernel in kernels:
        run = runs.get(kernel.name)
        if run is None or not run.get(_SECONDS):
            missing += 1
            continue
        launches = int(run[_LAUNCHES])
        unequal += bool(kernel.launches) and kernel.launches != launches
        found.append(_roofline(kernel, kernel.launches or launches, run, launches))
    notes = []
    if missing:
        notes.append(
            f"{missing} kernel{' has' if missing == 1 else 's have'} no roofline: the measured run did not time them"
        )
    if unequal:
        notes.append(
            f"{unequal} kernels were launched a different number of times in the measured run: averages are compared"
        )
    above = sum((one.share or 0) > 1 and one.roofs[0].name in _MEMORIES for one in found)
    if above:
        notes.append(
            f"{above} kernels moved more bytes than the device can in their time: work of other processes on the "
            "GPU counts too, so measure with nothing else on it"
        )
    return sorted(found, key=lambda one: (-one.seconds * one.launches, one.name)), notes


def _measured(trace: StoredTrace) -> dict[str, dict[str, float]]:
    """Kernel → metric → mean per launch, with the seconds of its records, and the number of launches."""
    found: dict[str, dict[str, float]] = {}
    for name, metric, mean in trace.sql(_METRICS_OF_LAUNCHES).fetchall():
        found.setdefault(name, {})[metric] = mean
    for name, nanoseconds, count in trace.sql(_TIMES_OF_LAUNCHES).fetchall():
        found[name] |= {_SECONDS: nanoseconds / 1e9, _LAUNCHES: count}
    return found


def _roofline(kernel: CountedKernel, launches: int, run: Mapping[str, float], measured: int) -> Roofline:
    arithmetic = {unit: number / launches for unit, number in kernel.arithmetic.items()}
    floating = sum(number for (kind, _), number in arithmetic.items() if kind.startswith(_FLOATING))
    moved = {memory: run[names[0]] for memory, names in _MEMORIES.items() if names[0] in run}
    roofs = []
    for memory, amount in moved.items():
        _, most, cycles = _MEMORIES[memory]
        peak = run.get(most, 0) * run.get(cycles, 0)
        if peak and amount:
            roofs.append(Roof(memory, amount, peak))
    for unit, amount in arithmetic.items():
        metric, per = _UNITS.get(unit, ("", 0))
        peak = run.get(metric, 0) * per * run.get(_CLOCK, 0)
        if peak and amount:
            roofs.append(Roof(f"{unit[0]} matrix" if unit[1] else unit[0], amount, peak))
    roofs.sort(key=lambda roof: -roof.seconds)
    return Roofline(kernel.name, measured, run[_SECONDS], floating or sum(arithmetic.values()), moved, roofs)
