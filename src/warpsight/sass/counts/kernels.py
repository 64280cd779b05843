"""Exact counts of each kernel: by source line, PTX line or instruction, by operation, as arithmetic and as bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from warpsight.device_code.demangle import demangle
from warpsight.device_code.kept_code import KeptCode
from warpsight.errors import WarpsightError
from warpsight.model.selection import Rows
from warpsight.model.work import named
from warpsight.sass import code_place
from warpsight.sass.code_place import CodePlace
from warpsight.sass.counts.work import InstructionWork, work_of

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

#: Keys to sum counts by, and their keys in JSON.
LEVELS = {"line": "lines", "ptx": "ptx_lines", "instruction": "instructions"}
_NOT_COUNTED = "no exact counts; make them with: warpsight sass counts -- PROGRAM (NVIDIA, CUPTI)"
PREFIX = "smsp__sass_"
_SECTOR_BYTES = 32


@dataclass
class Counts:
    """Counts by metric, named without `smsp__sass_`; uncounted metrics are absent, and the properties are then None."""

    values: dict[str, int] = field(default_factory=dict)

    def add(self, counts: dict[str, int]) -> None:
        """Add other counts to these."""
        for name, value in counts.items():
            self.values[name] = self.values.get(name, 0) + value

    @property
    def executions(self) -> int:
        """How often warps executed it."""
        return self.values.get("inst_executed", 0)

    @property
    def threads(self) -> int | None:
        """Executions by threads, including those disabled by a predicate."""
        return self.values.get("thread_inst_executed")

    @property
    def predicated_off(self) -> int | None:
        """The executions among these that a predicate disabled."""
        on = self.values.get("thread_inst_executed_pred_on")
        return None if on is None or self.threads is None else self.threads - on

    @property
    def lanes(self) -> float | None:
        """Average number of participating threads per warp: 32 without divergence."""
        return self.threads / self.executions if self.threads is not None and self.executions else None

    @property
    def sectors(self) -> int | None:
        """Sectors of 32 bytes that accesses to global memory touched."""
        return self.values.get("sectors_mem_global")

    @property
    def ideal_sectors(self) -> int | None:
        """The number of sectors that the same bytes would need if they were contiguous."""
        return self.values.get("sectors_mem_global_ideal")

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        derived = {"executions": self.executions, "threads": self.threads, "predicated_off": self.predicated_off,
                   "lanes": self.lanes}  # fmt: skip
        return {
            **{name: value for name, value in derived.items() if value is not None},
            "metrics": dict(self.values),
        }


@dataclass
class CountedPlace(CodePlace, Counts):
    """A place in the code of one kernel with its counts."""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**self.place(), **super().to_json()}


@dataclass
class CountedKernel(Counts):
    """One function with exact counts.

    Attributes:
        name: mangled name; launches: number of launches, 0 if none is known, as for kernels of CUDA graphs.
        operations: operation → its counts; arithmetic: (type, by matrix units) → operations, of active threads.
        requested: memory → bytes requested by threads; unknown: operations whose work does not follow from their text.
        levels: level → places, most executions first.
    """

    name: str = ""
    launches: int = 0
    has_lines: bool = False
    has_code: bool = False
    operations: dict[str, Counts] = field(default_factory=dict)
    pipes: dict[str, int] = field(default_factory=dict)
    arithmetic: dict[tuple[str, bool], float] = field(default_factory=dict)
    requested: dict[str, int] = field(default_factory=dict)
    unknown: dict[str, int] = field(default_factory=dict)
    levels: dict[str, list[CountedPlace]] = field(default_factory=dict)

    @property
    def demangled(self) -> str:
        """The readable name."""
        return demangle(self.name)

    @property
    def l1_bytes(self) -> int | None:
        """Bytes of all sectors that passed through the L1 cache."""
        found = [
            self.values[name] for name in ("sectors_mem_global", "sectors_mem_local") if name in self.values
        ]
        return sum(found) * _SECTOR_BYTES if found else None

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        mix = sorted(self.operations.items(), key=lambda item: (-item[1].executions, item[0]))
        arithmetic = [{"type": kind, "matrix": matrix, "operations": number}
                      for (kind, matrix), number in sorted(self.arithmetic.items())]  # fmt: skip
        return {
            "name": self.demangled, "mangled": self.name, "launches": self.launches, "has_lines": self.has_lines,
            "has_code": self.has_code, **super().to_json(),
            "operations": [{"operation": name, **counts.to_json()} for name, counts in mix],
            "pipes": self.pipes, "arithmetic": arithmetic, "requested_bytes": self.requested, "l1_bytes": self.l1_bytes,
            "unknown": self.unknown,
            **{LEVELS[level]: [place.to_json() for place in places] for level, places in self.levels.items()},
        }  # fmt: skip


_Instruction = tuple[int | None, int, dict[str, int]]


def counted_kernels(
    trace: StoredTrace, rows: Rows = Rows(), levels: Sequence[str] = tuple(LEVELS)
) -> tuple[list[CountedKernel], list[str]]:
    """The counted kernels, most executions first, and notes on gaps; `name` selects kernels.

    Raises:
        WarpsightError: when the trace has no counts.
    """
    if not trace.count("instruction_count"):
        lost = trace.sql(
            "SELECT cause FROM loss WHERE source = 'sass counts' AND severity <> 'note'"
        ).fetchall()
        raise WarpsightError(f"{trace.path}: {lost[0][0] if lost else _NOT_COUNTED}")
    code = KeptCode(trace.folder / "cubins")
    launches = _launches(trace)
    found = []
    for (process, name), instructions in _by_function(trace, rows).items():
        kernel = CountedKernel(name=name, launches=launches.get((process, name), 0))
        _fill(kernel, instructions, code, levels)
        found.append(kernel)
    return sorted(found, key=lambda kernel: (-kernel.executions, kernel.name)), _notes(found, code)


def _by_function(trace: StoredTrace, rows: Rows) -> dict[tuple[int, str], list[_Instruction]]:
    """(checksum, pc, counts) of each function of each process."""
    table = trace.sql(
        f"""SELECT s.process, coalesce(n.name, '?'), checksum, pc, replace(metric, '{PREFIX}', ''), sum(value)::BIGINT
            FROM instruction_count_ids s LEFT JOIN name n ON s.name_id = n.id
            WHERE {rows.where(stream=False)}{named(trace, rows.name)} GROUP BY ALL ORDER BY ALL"""
    ).fetchall()
    places: dict[tuple[int, str], dict[tuple[int | None, int], dict[str, int]]] = defaultdict(dict)
    metrics = {metric for *_, metric, _ in table}
    for process, name, checksum, pc, metric, value in table:
        # Zeros are not stored, so each metric of the trace is 0 until there is a row.
        places[process, name].setdefault((checksum, pc), dict.fromkeys(metrics, 0))[metric] = value
    return {
        key: [(checksum, pc, counts) for (checksum, pc), counts in found.items()]
        for key, found in places.items()
    }


def _launches(trace: StoredTrace) -> dict[tuple[int, str], int]:
    rows = trace.sql(
        "SELECT process, name, count(*) FROM launch WHERE name IS NOT NULL AND NOT captured GROUP BY ALL"
    ).fetchall()
    return {(process, name): count for process, name, count in rows}


def _fill(
    kernel: CountedKernel, instructions: Iterable[_Instruction], code: KeptCode, levels: Sequence[str]
) -> None:
    by_level: dict[str, dict[Any, CountedPlace]] = {level: {} for level in LEVELS if level in levels}
    for checksum, pc, counts in instructions:
        origin = code.origin(checksum, kernel.name, pc)
        kernel.has_code = kernel.has_code or code.has(checksum, kernel.name)
        kernel.has_lines = kernel.has_lines or code.has_lines(checksum)
        kernel.add(counts)
        _add_work(kernel, work_of(origin.sass), Counts(counts))
        for level, key, place in code_place.by_level(CountedPlace, origin, checksum, pc):
            if level in by_level:
                by_level[level].setdefault(key, place).add(counts)
    for level, places in by_level.items():
        kernel.levels[level] = sorted(
            places.values(), key=lambda one: (-one.executions, one.pc, one.ptx_line)
        )


def _add_work(kernel: CountedKernel, work: InstructionWork, counts: Counts) -> None:
    kernel.operations.setdefault(work.operation, Counts()).add(counts.values)
    kernel.pipes[work.kind.pipe] = kernel.pipes.get(work.kind.pipe, 0) + counts.executions
    active = counts.values.get("thread_inst_executed_pred_on", 0)
    done = work.per_thread * active + work.per_warp * counts.executions
    if done:
        key = work.type, work.matrix
        kernel.arithmetic[key] = kernel.arithmetic.get(key, 0) + done
    movers = counts.executions if work.uniform else active
    if work.bytes and movers:
        kernel.requested[work.kind.space] = kernel.requested.get(work.kind.space, 0) + work.bytes * movers
    if work.unknown and counts.executions:
        kernel.unknown[work.operation] = kernel.unknown.get(work.operation, 0) + counts.executions


def _notes(kernels: Sequence[CountedKernel], code: KeptCode) -> list[str]:
    notes = []
    if any(not kernel.has_code for kernel in kernels):
        notes.append(
            "the trace does not keep the code of every kernel: those instructions have only addresses"
        )
    if not code.disassembled:
        notes.append(
            "operations only, so no sizes and shapes: nvdisasm is not installed (pip install nvidia-cuda-nvdisasm)"
        )
    unknown = sorted({operation for kernel in kernels for operation in kernel.unknown})
    if unknown:
        notes.append(
            f"{', '.join(unknown)}: how much these compute or move is in descriptors, so sums are without them"
        )
    return notes
