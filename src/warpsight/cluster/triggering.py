"""Asks all recordings of a job to start and end together."""

from __future__ import annotations

import os
import time
from pathlib import Path

from warpsight.errors import UsageError
from warpsight.model.storage import manifest
from warpsight.recorder import job_trigger, output

_LOOK_S = 0.05


def trigger(
    folder: str | os.PathLike[str], step: int | None, steps: int, wait: float, seconds: float, patience: float
) -> tuple[str, tuple[str, ...], tuple[tuple[str, str], ...]]:
    """As :func:`warpsight.cluster.trigger`: when to record, who will, and who will not and why."""
    place = Path(folder)
    running = _running(place)
    if not running:
        raise UsageError(
            f"nothing is recorded into {place}: start the job with record --on-trigger -o {place}"
        )
    if step is not None and step < 1:
        raise UsageError("steps are counted from 1")
    if (seconds and step is not None) or (steps and step is None):
        raise UsageError(
            "a recording that begins at a step ends after steps, and one that begins at a time ends after seconds"
        )
    request = (
        job_trigger.TriggerRequest(job_trigger.new_id(), step=step, steps=steps)
        if step is not None
        else job_trigger.TriggerRequest(job_trigger.new_id(), at=time.time() + wait, seconds=seconds)
    )
    job_trigger.ask(place, request)
    confirmed = _confirmed(running, request.id, patience)
    good, bad = [], []
    for one in running:
        answer = confirmed.get(one)
        if answer is None:
            bad.append((str(one), "has not answered: it was not started with --on-trigger, or has ended"))
        elif answer.late:
            bad.append((str(one), f"{answer.late} of its {answer.processes} processes are past step {step}"))
        elif answer.late_s:
            bad.append((str(one), f"began {answer.late_s:.1f} s late: give more time with --in"))
        else:
            good.append(str(one))
    return request.text, tuple(good), tuple(bad)


def _running(place: Path) -> list[Path]:
    """The unfinished recordings at a place: it, or the parts of a job in it."""
    if (place / output.RECORDING).exists():
        return [place]
    parts = sorted(place.glob("rank=*")) if place.is_dir() else []
    return [one for one in parts if (one / output.RECORDING).exists() and not (one / manifest.FILE).exists()]


def _confirmed(running: list[Path], request: str, patience: float) -> dict[Path, job_trigger.Taken]:
    """What the recordings report about a request, as far as they respond in time."""
    found: dict[Path, job_trigger.Taken] = {}
    deadline = time.monotonic() + patience
    while len(found) < len(running) and time.monotonic() < deadline:
        for one in running:
            answer = job_trigger.taken(one)
            if answer is not None and answer.id == request:
                found[one] = answer
        time.sleep(_LOOK_S)
    return found
