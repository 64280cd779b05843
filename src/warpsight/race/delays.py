"""Delays in a program's kernels: the environment for a run with a plan, and the delays that occurred.

The library that traces events (:mod:`warpsight.sass.events.tracing`) makes them. It patches the modules that hold code with
points, only for the instruction classes of those points. A warp that reaches a point looks up its delay
(:mod:`warpsight.race.counter`), logs it and waits. The log is an event file for each process. A thread writes it while kernels
run, so a kill loses only the part not written yet.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from warpsight.errors import WarpsightError
from warpsight.formats.events.kinds import BY_NAME, DELAY, EXECUTED, KINDS
from warpsight.race import counter, plan
from warpsight.race.plan import Plan, Point, replace
from warpsight.sass.events import nvbit, tracing
from warpsight.sass.events.trace import EventTrace

#: The class of a point at which the host waits, and its number for the library.
HOST_LAUNCH, HOST_LAUNCH_NUMBER = "launch", 65
#: An occurrence that was not counted: the launch has too many warps for that.
UNCOUNTED = 2**32 - 1
_LOG_BYTES = 256 << 20
_SCHEMA = pa.schema(
    [("process", pa.int64()), ("device", pa.int32()), ("kernel", pa.string()), ("launch", pa.uint32()), ("cta", pa.uint32()),
     ("warp", pa.uint8()), ("function", pa.string()), ("pc", pa.uint32()), ("kind", pa.string()),
     ("occurrence", pa.uint32()), ("delay_ns", pa.int64())]
)  # fmt: skip


@dataclass(frozen=True)
class _Parts:
    """Files needed by every run with the Sanitizer, either generated once or installed."""

    library: Path
    sanitizer: Path
    patches: tuple[Path, ...]


@lru_cache(maxsize=1)
def _folder() -> tempfile.TemporaryDirectory[str]:
    """A folder that is removed when this process exits."""
    return tempfile.TemporaryDirectory(prefix="warpsight-delays-")


@lru_cache(maxsize=1)
def _parts() -> _Parts:
    library, sanitizer = tracing.injected_library(), tracing.sanitizer_library()
    return _Parts(library, sanitizer, tuple(tracing.assemble(Path(_folder().name), tracing.architectures())))


def environment(plan_path: Path, log_path: Path | None = None) -> dict[str, str]:
    """Variables for a run with a plan's delays; process P logs them to the file `log_path` with `.P` appended.

    The patches are assembled at the first call of a process. Under a plan of mode `memory` nothing is patched or logged.

    Raises:
        FormatError: when the file is not a plan.
        WarpsightError: when a requirement of delays is missing, or another tool is injected.
    """
    found = plan.read(plan_path)
    tracing.refuse_other_tools()
    points = _written(found)
    if found.mode == "memory":
        wanted = [f"mode={tracing.STRESS}", f"plan={points}"]
        return {tracing.INJECTION: str(tracing.injected_library()), tracing.REQUEST: "\n".join(wanted)}
    if needs_nvbit(found):
        wanted = [*_common_settings(found, points, log_path), "library=NVBit", *tracing.disassembler()]
        library, variables = nvbit.tool(tracing.architectures), nvbit.QUIET
    else:
        parts = _parts()
        wanted = request(found, points, log_path, parts.sanitizer, parts.patches)
        library, variables = parts.library, {}
    return {tracing.INJECTION: str(library), tracing.REQUEST: "\n".join(wanted), **variables}


def _written(plan: Plan) -> Path:
    """The plan file read by the library."""
    text = "\n".join([*lines(plan), ""]).encode()
    path = Path(_folder().name, hashlib.sha256(text).hexdigest()[:32])
    if not path.exists():
        replace(path, text)
    return path


def changed(plan: Plan) -> Path | None:
    """The file from which a running process takes a new plan; None if the process must be restarted."""
    return None if plan.mode == "memory" or needs_nvbit(plan) else _written(plan)


def needs_nvbit(plan: Plan) -> bool:
    """Whether a plan has points at instructions that the Sanitizer does not patch.

    Raises:
        WarpsightError: when it has both kinds of points, because a run can use only one of the two tools.
    """
    kinds = {point.kind for point in plan.points} - {HOST_LAUNCH}
    if EXECUTED.name in kinds and len(kinds) > 1:
        raise WarpsightError(
            f"the plan has points of the kind {EXECUTED.name}, which are NVBit's, and of others, which are the Sanitizer's: "
            "make two plans"
        )
    return EXECUTED.name in kinds


def request(
    plan: Plan, points: Path, log_path: Path | None, sanitizer: Path, patches: tuple[Path, ...]
) -> list[str]:
    """The request to the library (native/sanitizer/request.cpp)."""
    kinds = dict.fromkeys(point.kind for point in plan.points if point.kind != HOST_LAUNCH)
    asked = [
        *_common_settings(plan, points, log_path),
        f"library={sanitizer}",
        *(f"patches={path}" for path in patches),
    ]
    return asked + [f"instruction={BY_NAME[kind].number}:{BY_NAME[kind].visit}" for kind in kinds]


def _common_settings(plan: Plan, points: Path, log_path: Path | None) -> list[str]:
    """What both tools are asked for."""
    said = {"delays": True, "seed": plan.seed}
    asked = [f"mode={tracing.DELAY}", f"plan={points}", f"limit={_LOG_BYTES}"]
    if log_path is not None:
        asked += [f"file={log_path.absolute()}", f"description={json.dumps(said)}"]
    return asked


def lines(plan: Plan) -> list[str]:
    """A plan as the library reads it (native/sanitizer/delay_plan.h).

    Raises:
        WarpsightError: for a point of a class that cannot be patched.
    """
    where = plan.where
    warps = sum(1 << warp for warp in set(where.warps)) if where.warps is not None else 2**32 - 1
    ranks = sum(1 << rank for rank in set(where.ranks)) if where.ranks is not None else 2**32 - 1
    said = [
        f"rule {plan.seed} {counter.threshold(plan.probability)} {plan.floor_ns} {plan.ceiling_ns} {plan.depth} {plan.steps}",
        f"where {warps} {ranks}",
    ]
    said += [f"blocks {low} {high}" for low, high in _merged(where.ctas or ())]
    said += [f"stream {number}" for number in where.streams or ()]
    known = {(name, checksum) for name, checksums in plan.code.items() for checksum in checksums}
    known |= {(point.kernel, point.code) for point in plan.points}
    said += [f"code {checksum} {name}" for name, checksum in sorted(known)]
    said += [
        f"point {point.pc} {_number(point)} {point.number} {point.code} {point.kernel}"
        for point in plan.points
    ]
    return said


def _merged(ranges: tuple[tuple[int, int], ...]) -> list[tuple[int, int]]:
    """Merged ascending ranges that do not touch."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return found


def _number(point: Point) -> int:
    if point.kind == HOST_LAUNCH:
        return HOST_LAUNCH_NUMBER
    kind = BY_NAME.get(point.kind)
    if kind is None or kind == DELAY:
        raise WarpsightError(f"a point of {point.kernel} has the kind {point.kind!r}, which nothing patches")
    return kind.number


def delays_done(log_path: Path) -> pa.Table:
    """The delays of all processes that logged to `log_path`.

    Columns: process, device, kernel (that was launched), launch (of that kernel in its context, from 0; for kernels of a graph,
    that of the graph's last kernel), cta, warp, function and pc and kind (the point), occurrence (:data:`UNCOUNTED` in launches
    that are too large), delay_ns. If the host waited, cta, warp, pc and occurrence are 0 and the kind is `launch`.
    """
    return pa.concat_tables([_done(EventTrace(file)) for file in logs(log_path)] or [_SCHEMA.empty_table()])


def logs(log_path: Path) -> list[Path]:
    """The log files of a run, one for each process that used a GPU."""
    return sorted(path for path in log_path.parent.glob(f"{log_path.name}.*") if path.suffix[1:].isdigit())


def losses(log_path: Path) -> list[str]:
    """Losses in a run's logs, and failures in the run, one sentence each."""
    return list(dict.fromkeys(note for file in logs(log_path) for note in EventTrace(file).notes))


def idle(plan: Plan, log_path: Path, done: pa.Table | None = None) -> list[str]:
    """Functions with points that caused no delay in a run, with the reason if known, one sentence each.

    `done`: the result of :func:`delays_done`, if known.
    """
    done = delays_done(log_path) if done is None else done
    waited = set(done["function"].unique().to_pylist())
    sizes: dict[str, int] = {}
    for file in logs(log_path):
        for launch in EventTrace(file).launches.values():
            x, y, z = (max(size, 1) for size in launch.cluster)
            name = str(launch.said["name"])
            sizes[name] = max(sizes.get(name, 0), x * y * z)
    said = []
    for name in sorted({point.kernel for point in plan.points} - waited):
        size, ranks = sizes.get(name, 0), plan.where.ranks
        if size and ranks is not None and min(ranks) >= size:
            said.append(
                f"{name} made no delay: its clusters have {size} block{'s' * (size > 1)}, but the plan asks for rank {min(ranks)}"
            )
        else:
            said.append(
                f"{name} made no delay: "
                + ("no chosen warp reached its points" if size else "it was not launched")
            )
    return said


def read_log(plan: Plan, log_path: Path) -> Mapping[str, npt.NDArray[Any]]:
    """The delays as arrays of equal length: point (its place in the plan), launch, cta, warp, occurrence, delay_ns."""
    done = delays_done(log_path)
    places = {(point.kernel, point.pc, point.kind): at for at, point in enumerate(plan.points)}
    keys = zip(done["function"].to_pylist(), done["pc"].to_pylist(), done["kind"].to_pylist(), strict=True)
    found = {"point": np.array([places.get(key, -1) for key in keys], np.int64)}
    for name in ("launch", "cta", "warp", "occurrence", "delay_ns"):
        found[name] = done[name].to_numpy().astype(np.int64)
    return found


def _done(trace: EventTrace) -> pa.Table:
    process = int(trace.file.process.get("pid", 0))
    tables = []
    # The kernels of one launch of a graph share the number of the last one's launch.
    numbers = {
        launch.said["graph"]: launch.index for launch in trace.launches.values() if launch.said["graph"]
    }
    for launch in trace.launches.values():
        number = numbers.get(launch.said["graph"], launch.index)
        events = trace.of_launch(launch.number)
        events = events.take(events.kind == DELAY.number)
        pcs, inverse = np.unique(events.pc, return_inverse=True)
        places = trace.places(launch, pcs)
        rows = len(events)
        flags, which = np.unique(events.flags, return_inverse=True)
        kinds = pa.array([KINDS[flag].name if flag in KINDS else "" for flag in flags.tolist()], pa.string())
        functions = pa.array([place.function for place in places], pa.string())
        host = launch.said.get("host_delay_ns")
        said, device = str(launch.said["name"]), int(launch.said.get("device", 0))
        columns: dict[str, Any] = {
            "process": np.full(rows, process), "device": np.full(rows, device), "kernel": pa.repeat(said, rows),
            "launch": np.full(rows, number), "cta": events.block, "warp": events.warp,
            "function": functions.take(pa.array(inverse)),
            "pc": np.array([place.offset for place in places], np.uint64)[inverse] if rows else [],
            "kind": kinds.take(pa.array(which)), "occurrence": events.first_operand(1), "delay_ns": events.first_operand(0),
        }  # fmt: skip
        tables.append(
            pa.table({name: pa.array(columns[name]).cast(_SCHEMA.field(name).type) for name in _SCHEMA.names})
        )
        if host is not None:
            row = [process, device, said, launch.index, 0, 0, said, 0, HOST_LAUNCH, 0, int(host)]
            tables.append(pa.Table.from_pylist([dict(zip(_SCHEMA.names, row, strict=True))], _SCHEMA))
    return pa.concat_tables(tables or [_SCHEMA.empty_table()])
