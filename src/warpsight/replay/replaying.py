"""Replaying a capsule: the work of `warpsight replay`."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from warpsight.race import delays
from warpsight.replay import execution, script, swap
from warpsight.replay.capsule import layout
from warpsight.replay.capsule import manifest as m
from warpsight.replay.capsule.store import Capsule
from warpsight.replay.outcome import LEFT, VARYING, Files, ReplayOutcome, title, version
from warpsight.replay.results import Failure, ReplayResults
from warpsight.replay.schedules import changing, schedule, synthetic
from warpsight.replay.schedules.sequence import OperationSequence as Steps
from warpsight.replay.schedules.sequence import sequence
from warpsight.replay.schedules.validation import validate
from warpsight.replay.script import ScriptSettings, WrittenScript
from warpsight.replay.writers import attributed, writes

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

#: How much an operation may seem to begin before another one ended: the resolution of clocks and events.
_TOLERANCE_NS = 1_000.0
#: The program's name for work of which no part failed on its own.
RUNNING = "running the operations"
#: The log of the delays that were made, in a replay's folder.
_DELAYS = "delays"
SCHEDULES = ("fast", "original", "graph")
#: Cost of a run with each operation timed; a larger number is no more precise.
_TIMED_RUNS = 5
#: Two with each byte.
_REACH_RUNS = 4
_BAD_ADDRESS = (
    "CUDA_ERROR_ILLEGAL_ADDRESS",
    "CUDA_ERROR_MISALIGNED_ADDRESS",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE",
)


@dataclass(frozen=True)
class ReplayRequest:
    """The settings of a replay.

    Attributes:
        repeat: runs of each version. operations: first and last to time. stream: the only stream to replay.
        schedule: `fast`; `original`, no operation earlier than recorded; `graph`, all operations as one CUDA graph.
        swaps: `KERNEL=FILE`. under: words of a tool's command line. dtype: type of elements, None to guess.
        device: number of the GPU. timeout: seconds. check_reach: also prove that no access leaves the capsule.
        changes: changes of the schedule (:mod:`.schedule`), each measured alone, beside its prediction.
        writes: also find which operation changes which memory.
        validate: also check order and dependencies. dry: execute nothing. scale: factor of the host's times (`original`).
        delays: a plan of :mod:`warpsight.race.plan` that says where warps wait.
    """

    repeat: int = 3
    operations: tuple[int, int] | None = None
    stream: int | None = None
    schedule: str = "fast"
    swaps: Sequence[str] = ()
    under: Sequence[str] = ()
    dtype: str | None = None
    device: int = 0
    timeout: float | None = None
    check_reach: bool = False
    delays: Path | None = None
    changes: Sequence[str] = ()
    writes: bool = False
    validate: bool = False
    dry: bool = False
    scale: float = 1.0


def replay(path: Path, request: ReplayRequest) -> ReplayOutcome:
    """Replay a capsule and compare its output with the recording.

    The capsule is checked completely before any of it is executed.

    Raises:
        CapsuleError: when it is damaged or hostile.
        UsageError: when the request does not fit the capsule.
        WarpsightError: when it cannot be replayed here.
    """
    return _replay_opened(Capsule.open(path), request)


def replay_trace(trace: StoredTrace, request: ReplayRequest) -> ReplayOutcome:
    """Replay a trace's schedule with kernels of the same length (:mod:`.synthetic`).

    Raises:
        UsageError: when the request does not fit the trace.
        WarpsightError: when it cannot be replayed here.
    """
    made = synthetic.of(trace, request.operations)
    request = replace(request, operations=None)
    if request.dry:
        steps = sequence(made.manifest, None, request.stream)
        checked = validate(steps, made.begin, made.end, _TOLERANCE_NS) if request.validate else None
        said = f"{sum(step.operation is not None for step in steps.steps):,} operations on {len(made.manifest.streams)} streams"
        return ReplayOutcome("", (), None, (said, *made.notes), validation=checked, executed=False)
    with tempfile.TemporaryDirectory(prefix="warpsight-replay-") as folder:
        found = _replay_opened(made.capsule(Path(folder) / "trace.capsule"), request)
    span = np.nanmax(made.end) - np.nanmin(made.begin)
    said = f"the recording took {span / 1e6:,.3f} ms from its first operation to the end of its last"
    notes = (note for note in found.notes if not note.startswith("recorded with --values"))
    return replace(found, notes=(said, *made.notes, *notes))


def _replay_opened(capsule: Capsule, request: ReplayRequest) -> ReplayOutcome:
    """:func:`replay` of an open capsule."""
    steps = sequence(capsule.manifest, request.operations, request.stream)
    if request.dry:
        capsule.verify()
        said = f"{len(capsule.manifest.operations):,} operations; every part of the capsule is intact"
        return ReplayOutcome("", (), None, (said, *_notes(capsule.manifest)), executed=False)
    for source in (source for module in capsule.manifest.modules for source in module.sources):
        for _ in capsule.chunks(source.contents):  # which nothing else reads
            pass
    with tempfile.TemporaryDirectory(prefix="warpsight-replay-") as temporary:
        folder = Path(temporary)
        swaps, names = swap.replacements(capsule, request.swaps, folder)
        for text in request.changes:
            schedule.changed(capsule.manifest, steps, text)
        settings = _settings(request, swaps)
        files = Files(capsule.manifest, script.write(capsule, steps, settings, folder), folder)
        variables = delays.environment(request.delays, folder / _DELAYS) if request.delays is not None else {}
        found = execution.run(
            files.written, folder, under=request.under, timeout=request.timeout, variables=variables
        )
        if request.under and not found.ended and found.failure is None:
            said = "the tool ended the replay early"
            return ReplayOutcome(_device(found), (), None, (*_notes(capsule.manifest), said))
        if not request.under:
            found = _located(found, files.written, folder, request.timeout)
        outcome = _outcome(files, steps, names, found, request)
        if not outcome.versions:
            return outcome
        if request.writes:
            return _with_writes(outcome, files, request)
        if request.changes:
            changes = changing.measure(capsule, steps, settings, found, request.changes, request.timeout)
            return replace(outcome, changes=changes)
        return _reach(outcome, files, request) if request.check_reach else outcome


def _located(
    found: ReplayResults, written: WrittenScript, folder: Path, timeout: float | None
) -> ReplayResults:
    """Name the operation that failed, if none was named, by waiting for each."""
    if found.failure is None or found.failure.what != RUNNING:
        return found
    separate = folder / "located"
    separate.mkdir()
    script.change(written, script.STEPWISE, 1)
    again = execution.run(written, separate, timeout=timeout).failure
    return replace(found, failure=again if again is not None and again.step >= 0 else found.failure)


def _outcome(
    files: Files, steps: Steps, names: Sequence[str], found: ReplayResults, request: ReplayRequest
) -> ReplayOutcome:
    """The findings of the runs; `names`: what replaces kernels in the second version."""
    compared = steps.complete and any(piece["after"] != layout.NONE for piece in files.written.pieces)
    versions = []
    if found.failure is None:
        versions = [
            version(files, found, number, name, request.dtype, compared)
            for number, name in enumerate(["recorded", *([", ".join(names)] if names else [])])
        ]
    if versions and (len(steps.steps) == 1 or not request.under):
        versions = attributed(files, versions, files.written, files.folder, request.timeout)
    notes = (*_notes(files.manifest), *found.notes, *_partial(steps.complete, compared, files.manifest))
    delayed = _delayed(files.folder / _DELAYS) if request.delays is not None else ()
    return ReplayOutcome(
        _device(found), tuple(versions), _failure(files.manifest, files.written, found), (*notes, *delayed),
        validation=validate(steps, *_measured(steps, found), _TOLERANCE_NS) if request.validate else None,
    )  # fmt: skip


def _with_writes(outcome: ReplayOutcome, files: Files, request: ReplayRequest) -> ReplayOutcome:
    rows = writes(files, files.written, files.folder, request.timeout)
    if rows is None:
        said = "writes: too much memory and too many operations to check; choose some with --operations"
        return replace(outcome, notes=(*outcome.notes, said))
    first = request.operations[0] if request.operations else 0
    shown = tuple(row for row in rows if row.operation >= first)
    notes = outcome.notes if shown else (*outcome.notes, "writes: no operation changed a byte")
    return replace(outcome, writes=shown, notes=notes)


def _measured(steps: Steps, found: ReplayResults) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Start and end of each operation in the first run that timed them one by one, ns."""
    count = 1 + max((step.operation for step in steps.steps if step.operation is not None), default=-1)
    begin, end = np.full((2, count), np.nan)
    first = min((run for run, _, _ in found.times), default=0)
    for (run, version_, at), (start, stop) in found.times.items():
        operation = steps.steps[at].operation
        if (run, version_) == (first, 0) and operation is not None:
            begin[operation], end[operation] = start, stop
    return begin, end


def _settings(request: ReplayRequest, swaps: dict[int, script.Replacement]) -> ScriptSettings:
    flags = script.TIME_OPERATIONS
    if request.schedule == "graph":
        flags |= script.GRAPH
    if request.schedule == "original":
        flags |= script.ORIGINAL_TIMING
    elif request.changes:
        flags |= script.TELL_ISSUED
    elif not request.under:
        flags |= script.GATE
    if request.under:
        return ScriptSettings(1, 0, flags & ~script.TIME_OPERATIONS, request.device, swaps=swaps)
    runs = min(request.repeat, _TIMED_RUNS)
    return ScriptSettings(request.repeat, runs, flags, request.device, swaps=swaps, scale=request.scale)


def _reach(outcome: ReplayOutcome, files: Files, request: ReplayRequest) -> ReplayOutcome:
    """Replay with two different bytes around the allocations in turn: they must neither be overwritten nor affect the result."""
    script.change(files.written, script.CHECK_GAPS, _REACH_RUNS)
    found = execution.run(files.written, files.folder, timeout=request.timeout)
    notes = outcome.notes
    if found.failure is not None and found.failure.error in _BAD_ADDRESS:
        problem = f"an access left the capsule: {found.failure.error}"
    elif found.failure is not None:
        return replace(outcome, failure=_failure(files.manifest, files.written, found))
    elif found.outside:
        problem = f"a kernel wrote to {min(found.outside):#x}, which belongs to no allocation of the capsule"
    elif outcome.versions[0].verdict == VARYING:
        said = "reach: no write left the capsule; for a non-deterministic program, nothing shows whether a read did"
        return replace(outcome, notes=(*notes, said))
    elif found.between:
        problem = "the outputs depend on memory that belongs to no allocation of the capsule"
    else:
        said = "reach: no write left the capsule, and no output depends on memory outside it"
        return replace(outcome, notes=(*notes, said))
    return replace(outcome, versions=(replace(outcome.versions[0], verdict=LEFT),), notes=(*notes, problem))


def _device(found: ReplayResults) -> str:
    if found.device is None:
        return ""
    name, (major, minor) = found.device
    return f"{name}, compute capability {major}.{minor}"


def _failure(manifest: m.Manifest, written: WrittenScript, found: ReplayResults) -> str | None:
    failure = found.failure
    if failure is None:
        return None
    where = _where(manifest, written, failure)
    recorded = "{}.{}".format(*manifest.device.compute_capability)
    here = "" if found.device is None else "{}.{}".format(*found.device[1])
    if failure.error == "CUDA_ERROR_NO_BINARY_FOR_GPU":
        return f"the capsule was recorded on a GPU of compute capability {recorded}, this one has {here}"
    return f"{failure.error}{where}: {failure.what}"


def _where(manifest: m.Manifest, written: WrittenScript, failure: Failure) -> str:
    if failure.step < 0:
        return ""
    if failure.step >= len(written.operations):
        return " in a graph"
    operation = int(written.operations[failure.step])
    return (
        f" in operation {operation}, {title(manifest, manifest.operations[operation])}"
        if operation >= 0
        else ""
    )


def _notes(manifest: m.Manifest) -> tuple[str, ...]:
    return tuple(f"the capsule is incomplete: {sentence}" for sentence in manifest.incomplete)


def _delayed(log: Path) -> tuple[str, ...]:
    done = delays.delays_done(log)
    kernels = done["kernel"].unique().to_pylist()
    longest = pc.max(done["delay_ns"]).as_py() or 0
    said = f"{done.num_rows:,} delays of {longest:,} ns at most were made in {len(kernels):,} kernels"
    return (said, *delays.losses(log))


def _partial(complete: bool, compared: bool, manifest: m.Manifest) -> tuple[str, ...]:
    if not complete:
        return ("a part was replayed: outputs are compared between runs, not with the recording",)
    if compared:
        return ()
    if manifest.values != "all":
        return (f"recorded with --values {manifest.values}: outputs are compared only between runs",)
    return ("the capsule holds no contents after its operations: outputs are compared only between runs",)
