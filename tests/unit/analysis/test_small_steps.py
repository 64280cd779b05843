"""Single steps of the path, of iterations, of the merge and of rules, each against looking at every row by itself."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.analysis.conftest import Build, kernel
from tests.unit.analysis.rules.program import US, Program
from warpsight.analysis.merge.inputs import probed
from warpsight.analysis.path import dependencies
from warpsight.analysis.rules import leaks
from warpsight.analysis.rules.base.facts import Facts
from warpsight.analysis.steps import announced, iterations, loops
from warpsight.formats.reading.samples import Samples
from warpsight.model import work as device_work
from warpsight.model.selection import Rows

LAUNCHES = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(0, 40), st.booleans()), max_size=24
)


@given(LAUNCHES)
@settings(derandomize=True, max_examples=200)
def test_the_usual_way_from_a_launch_to_its_kernel_is_that_on_an_idle_stream(
    rows: list[tuple[int, int, int, bool]],
) -> None:
    """Begin of the call, end of the work before, begin of the kernel, whether the call is known; ten idle ones at least."""
    begun, ended, start = (np.array([row[place] for row in rows], np.int64) for place in range(3))
    called = np.array([row[3] for row in rows], bool)
    idle = [s - b for b, e, s, known in rows if known and e <= b <= s]
    later = [s - b for b, _, s, known in rows if known and b <= s]
    expected = int(np.median(idle)) if len(idle) >= 10 else min(later, default=0)
    assert dependencies._floor(start, begun, ended, called) == expected


def test_without_idle_streams_the_shortest_way_counts_up_to_ten_microseconds() -> None:
    start, begun = np.array([30_000, 20_000]), np.array([10_000, 9_000])
    everywhere = np.ones(2, bool)
    assert dependencies._floor(start, begun, np.full(2, 99_000), everywhere) == 10_000
    assert dependencies._floor(start, begun, np.full(2, 99_000), ~everywhere) == 0


@pytest.mark.parametrize("seed", range(5))
def test_work_without_a_launch_belongs_to_the_turn_of_the_work_before_it_on_its_stream(
    build: Build, seed: int
) -> None:
    rng = random.Random(seed)
    rows = [
        kernel(10 * n, 5, stream=rng.choice((7, 8)), process=rng.choice((0, 0, 1)), correlation=n)
        for n in range(60)
    ]
    work = device_work.load(build(kernel=rows), Rows())
    launched = np.array(sorted(rng.sample([n for n in range(60) if work.process[n] == 0], 20)))
    turn = np.full(60, -1, np.int64)
    turn[launched] = np.sort(np.array([rng.randrange(-1, 6) for _ in launched]))
    expected = turn.tolist()
    last: dict[tuple[int, int], int] = {}
    for row in sorted(range(60), key=lambda n: int(work.start[n])):
        where = int(work.process[row]), int(work.queue[row])
        if row in launched:
            last[where] = expected[row]
        elif where[0] == 0:
            expected[row] = last.get(where, -1)
    iterations._carried_on(turn, work, launched, launched)
    assert turn.tolist() == expected


@pytest.mark.parametrize(
    ("turns", "inside"),
    [([(10, 4), (20, 4), (30, 4)], True), ([(10, 5), (20, 5), (30, 5)], True), ([(9, 5), (19, 5), (29, 5)], False),
     ([(10, 6), (20, 6), (30, 6)], False), ([(5, 2)], False)],
)  # fmt: skip
def test_a_loop_is_inside_a_part_that_holds_its_turns(turns: list[tuple[int, int]], inside: bool) -> None:
    def loop(spans: list[tuple[int, int]], thread: int = 1) -> loops.Loop:
        begin = np.array([start for start, _ in spans])
        return loops.Loop(
            loops.REPEATED,
            "",
            0,
            thread,
            begin,
            begin + [length for _, length in spans],
            [""] * len(spans),
            False,
        )

    parts = [(10, 5), (20, 5), (30, 5)]
    assert announced._inside(loop(turns), loop(parts)) == inside
    assert not announced._inside(loop(turns), loop(parts, thread=2))


def test_a_sample_is_of_the_function_that_its_probe_sits_on_else_of_the_one_in_its_stack() -> None:
    stacks = [(("main", None, None), ("cuLaunchKernel", None, None)), (("main", None, None),),
              (("__cudaMemcpyAsync_ptsz+0x12", None, None), ("ioctl", None, None)), ()]  # fmt: skip
    labels = ["probe_lib:cudaLaunchKernel", "cycles", "uprobe:cuMemcpyHtoD_v2", "probe_lib:cudaMalloc"]
    of_stack = ["cuLaunchKernel", "", "cudaMemcpyAsync", ""]
    of_label = ["cudaLaunchKernel", "", "cuMemcpyHtoD", ""]
    pairs = [(a, b) for a in range(4) for b in range(4)]
    stack, label = (np.array(column) for column in zip(*pairs, strict=True))
    none = np.zeros(len(pairs), np.int64)
    place, functions = probed(Samples(none, none, none, stack, label, stacks, labels, []))
    assert [functions[one] for one in place.tolist()] == [of_label[b] or of_stack[a] for a, b in pairs]
    place, functions = probed(Samples(none[:0], none[:0], none[:0], none[:0], none[:0], [], [], []))
    assert len(place) == 0 and functions == [""]


@pytest.mark.parametrize(
    ("layer", "kept_too"), [("CUDA runtime", 0), ("caching allocator", 0), ("CUDA runtime", 20)]
)
def test_only_the_devices_own_allocations_that_are_made_and_freed_in_the_loop_are_churn(
    tmp_path: Path, layer: str, kept_too: int
) -> None:
    """Another device, another allocator, and allocations that stay or were there before do not count."""
    program = Program(tmp_path / "t.warp")
    for turn in range(40):
        program.launch("gemm", 100 * US)
        program.host = program.device
        program.add("user_event", start=program.host, duration=0, name="step", kind="step", thread=1)
        for number, (allocator, freed) in enumerate(
            ((layer, True), ("pool of mine", True), *[("CUDA runtime", False)] * (turn < kept_too))
        ):
            moved = {
                "address": (turn * 4 + number + 1) << 20,
                "kind": "device",
                "device": 0,
                "allocator": allocator,
            }
            program.add("memory", time=program.host + 1, operation="allocate", bytes=64, **moved)
            if freed:
                program.add("memory", time=program.host + 2, operation="free", **moved)
    with program.open() as trace:
        facts = Facts(trace, Rows())
        begin, end = facts.host_window
        found = [one for one in leaks.check(facts) if one.rule == "memory/churn"]
        inside = [row["time"] for row in program.rows["memory"]
                  if row["operation"] == "free" and row["allocator"] == "CUDA runtime"
                  and begin <= row["time"] - 1 and row["time"] < end]  # fmt: skip
    assert [one.values["allocations"] for one in found] == ([len(inside)] if inside else [])
