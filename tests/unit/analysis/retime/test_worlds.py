"""Changes re-timed from a recording, compared with the program that is changed and runs again in the simulated world."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.truth import kineto_file, synthetic
from tests.truth.execution import Execution
from tests.truth.program import Code, Copy, Kernel, Program, Transfer
from tests.truth.programs import generate
from tests.truth.world import run
from warpsight.analysis.retime import program as retimed
from warpsight.analysis.retime import without
from warpsight.analysis.retime.building import build
from warpsight.analysis.retime.solving import solve
from warpsight.formats.importing import open_any
from warpsight.model.work import KERNEL

Change = Callable[[retimed.Program], retimed.Program]
#: One program of most families, among them two whose copies are most of the time.
SEEDS = (100, 101, 102, 104, 107, 110, 115, 131, 142, 146)


def changed(part: Any, change: Callable[[Any], Any]) -> Any:
    """A program, or a part of it, with every part of that changed."""
    part = change(part)
    if isinstance(part, tuple):
        return tuple(changed(one, change) for one in part)
    if not dataclasses.is_dataclass(part) or isinstance(part, type):
        return part
    held = {one.name: getattr(part, one.name) for one in dataclasses.fields(part)}
    nested = {name: changed(value, change) for name, value in held.items()
              if isinstance(value, tuple) or dataclasses.is_dataclass(value)}  # fmt: skip
    return dataclasses.replace(part, **nested)


def length(execution: Execution) -> int:
    """From the start of the first recorded work to the end of the last one."""
    times = [item.times for item in execution.works if item.visible]
    return max(end for _, end in times) - min(begin for begin, _ in times)


def retimed_length(execution: Execution, path: Path, change: Change) -> int:
    """The same of the recording, re-timed after a change."""
    kineto = execution.program.recorder.file == "kineto"
    written = (
        kineto_file.write(execution, path / "t.json")
        if kineto
        else synthetic.write(execution, path / "t.warp")
    )
    with open_any(written) as trace:
        times = solve(change(build(trace)))
    return int(times.end.max() - times.start.min())


def off(program: Program, made: Program, path: Path, change: Change) -> float:
    """How far the re-timed length is from that of the changed program's own run."""
    true = length(run(made))
    return abs(retimed_length(run(program), path, change) - true) / true


@pytest.mark.parametrize("seed", SEEDS)
def test_the_longest_kernel_twice_as_fast(tmp_path: Path, seed: int) -> None:
    program = generate(seed)
    total: Counter[str] = Counter()
    for item in run(program).works:
        if item.visible and isinstance(item.work, Kernel) and not item.work.meeting:
            total[item.work.name] += item.times[1] - item.times[0]
    name, _ = total.most_common(1)[0]

    def half(part: Any) -> Any:
        return (
            dataclasses.replace(part, ns=part.ns // 2)
            if isinstance(part, Kernel) and part.name == name
            else part
        )

    def faster(program: retimed.Program) -> retimed.Program:
        work = program.graph.work
        rows = np.flatnonzero(work.kind == KERNEL)
        most = np.bincount(work.name_id[rows], weights=program.duration[rows]).argmax()
        duration = program.duration.copy()
        duration[rows[work.name_id[rows] == most]] //= 2
        return program.but(duration=duration)

    assert off(program, changed(program, half), tmp_path, faster) <= 0.02


@pytest.mark.parametrize("seed", SEEDS)
def test_no_copies(tmp_path: Path, seed: int) -> None:
    def gone(part: Any) -> Any:
        if not isinstance(part, Transfer):
            return part
        work = dataclasses.replace(part.work, ns=1) if isinstance(part.work, Copy) else part.work
        return dataclasses.replace(part, ns=100, stage_ns=0, after_ns=0, work=work)

    program = generate(seed)
    assert off(program, changed(program, gone), tmp_path, without.copies) <= 0.02


@pytest.mark.parametrize("seed", SEEDS)
def test_no_host_code(tmp_path: Path, seed: int) -> None:
    def gone(part: Any) -> Any:
        return dataclasses.replace(part, ns=0) if isinstance(part, Code) else part

    program = generate(seed)
    assert off(program, changed(program, gone), tmp_path, without.host_code) <= 0.05
