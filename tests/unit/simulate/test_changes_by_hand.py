"""What each change does to a program of three steps, column by column.

A step loads for 100 µs, launches two kernels of 30 and 50 µs (places 0 and 1 of its thread's calls, points 0 to 3) and waits for
them (place 2, points 4 and 5): so the launches are places 0, 1, 3, 4, 6 and 7, and nodes 0 to 5 are their kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.unit.simulate.test_what_ifs import Recorder
from warpsight.analysis.retime.program import Program
from warpsight.model import StoredTrace, TraceWriter
from warpsight.model import open as open_trace
from warpsight.simulate import changes, graphs
from warpsight.simulate.change import parse
from warpsight.simulate.simulation import simulate

US = 1_000
COLUMNS = ("lag", "place", "arrival", "from_begin", "previous", "gap", "delay", "duration")
#: Recorded lags of the points of the threads: calls of 5 µs, 1 µs between them, 2 µs of waking up, then 3 µs and the loader.
LAG = [0, 5_000, 1_000, 5_000, 1_000, 2_000, *[103_000, 5_000, 1_000, 5_000, 1_000, 2_000] * 2]


class Ranged(Recorder):
    """The same, with ranges around the launches of the first kernel, the second, or both of each step."""

    def __init__(self, ranged: dict[int, str]) -> None:
        super().__init__()
        self._ranged, self._kernels, self.begins = ranged, 0, list[int]()

    def kernel(self, name: int, duration: int) -> None:
        begin = self.clock
        self.begins.append(begin)
        super().kernel(name, duration)
        text = self._ranged.get(self._kernels)
        if text is not None:
            length = 5 * US if text != "both" else 12 * US
            self.rows["user_event"].append({"start": begin, "duration": length, "name": text, "kind": "range", "thread": 1,
                                            "process": 0})  # fmt: skip
        self._kernels += 1


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Any]:
    """A function that records three steps with ranges at some launches, and gives the trace and its program."""
    traces: list[StoredTrace] = []

    def make(ranged: dict[int, str] | None = None) -> tuple[StoredTrace, Program]:
        path = tmp_path / f"{len(traces)}.warp"
        with TraceWriter(path) as writer:
            Ranged(ranged or {}).steps(writer, 3)
        traces.append(open_trace(path))
        program = simulate(traces[-1], []).program
        assert program.lag.tolist() == LAG and program.place.tolist() == [0, 1, 3, 4, 6, 7]
        return traces[-1], program

    yield make
    for trace in traces:
        trace.close()


def changed(before: Program, after: Program) -> dict[str, list[Any]]:
    """The columns that a change changed."""
    return {
        name: getattr(after, name).tolist()
        for name in COLUMNS
        if getattr(after, name).tolist() != getattr(before, name).tolist()
    }


def odd(program: Program) -> Program:
    """A program whose nodes have gaps, delays and arrivals that can be told apart."""
    return program.but(gap=np.array([100, -200, 300, 400, 5_000, 60]), delay=np.array([1, 2, 3, 4, 5, 6]),
                       arrival=np.array([2_000, -50, 7, 2_000, 2_000, -1]), from_begin=np.array([True] * 6))  # fmt: skip


def applied(
    opened: Any, text: str, ranged: dict[int, str] | None = None, lean: int = 0
) -> tuple[Program, Program]:
    trace, program = opened(ranged)
    program = odd(program)
    return program, changes.apply(trace, program, parse(text), lean)


def test_a_kernel_that_is_gone_takes_its_call_with_it(opened: Any) -> None:
    before, after = applied(opened, "kernel:gelu=none")
    assert changed(before, after) == {
        "lag": [
            0 if point % 6 == 3 else lag for point, lag in enumerate(LAG)
        ],  # the ends of the second calls
        "gap": [100, 0, 300, 0, 5_000, 0],
        "delay": [1, 0, 3, 0, 5, 0],
        "duration": [30_000, 0] * 3,
    }
    assert len(after.links.source) == len(before.links.source) == 3  # nobody waited in those calls


def test_nobody_waits_in_a_call_that_is_gone(opened: Any) -> None:
    trace, program = opened()
    one, two = (np.array([value], np.int64) for value in (18, 3))
    linked = program.but(links=program.links.joined(one, two, np.zeros(1, np.int64), 9))
    after = changes.apply(trace, linked, parse("kernel:gelu=none"))
    assert after.links.target.tolist() == [5, 11, 17] and after.links.source.tolist() == [19, 21, 23]
    kept = changes.apply(trace, linked, parse("kernel:gemm=none"))
    assert 3 in kept.links.target.tolist()


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("kernel:gemm*2", [60_000, 50_000] * 3),
        ("kernel:gelu=7us", [30_000, 7_000] * 3),
        ("kernel:.*/3", [10_000, 16_667] * 3),
    ],
)
def test_a_kernel_of_another_length_changes_nothing_else(opened: Any, text: str, duration: list[int]) -> None:
    assert changed(*applied(opened, text)) == {"duration": duration}


@pytest.mark.parametrize(
    ("text", "length"), [("launch/2", 2_500), ("launch=4us", 4_000), ("launch*3", 15_000)]
)
def test_launch_calls_of_another_length(opened: Any, text: str, length: int) -> None:
    lag = [length if point % 6 in (1, 3) else one for point, one in enumerate(LAG)]
    assert changed(*applied(opened, text)) == {"lag": lag}


def test_only_a_call_that_follows_from_its_begin_becomes_shorter(opened: Any) -> None:
    """The end of the second call is told by something else here."""
    trace, program = opened()
    before = program.before.copy()
    before[3] = 1
    other = program.but(before=before)
    after = changes.apply(trace, other, parse("launch/5"))
    assert changed(other, after)["lag"][:4] == [0, 1_000, 1_000, 5_000]


def test_calls_that_do_not_wait_keep_their_own_time(opened: Any) -> None:
    before, after = applied(opened, "sync")
    assert changed(before, after) == {} and len(after.links.source) == 0
    kept, same = applied(opened, "sync:cudaLaunchKernel")
    assert len(same.links.source) == 3 and "matches no call" in same.notes[-1]
    assert changed(kept, same) == {}


@pytest.mark.parametrize(
    ("text", "lag"), [("host:loader/4", 28_000), ("host:loader=none", 3_000), ("host:loader=10us", 18_000)]
)
def test_host_code_in_a_range_becomes_shorter_where_a_call_waits_for_it(
    opened: Any, text: str, lag: int
) -> None:
    """The loader of the first step is before all calls; three ranges of 10 µs are 15 for each of two stretches of 100."""
    before, after = applied(opened, text)
    assert changed(before, after)["lag"] == [lag if one == 103_000 else one for one in LAG]


def test_a_stretch_that_holds_nothing_up_has_no_share_of_the_time_asked_for(opened: Any) -> None:
    """The host was held by something else in the second loader: all 30 µs are of the third."""
    trace, program = opened()
    lag = program.lag.copy()
    lag[6] = 0
    after = changes.apply(trace, program.but(lag=lag), parse("host:loader=10us"))
    assert (after.lag[6], after.lag[12]) == (0, 33_000)


def test_the_part_of_a_stretch_that_is_in_a_range_becomes_shorter(opened: Any) -> None:
    """A range from a launch on, 7 µs long: the call's own 5 µs are no host code, the 1 µs after it is."""
    trace, program = opened({0: "both", 2: "both"})
    after = changes.apply(trace, program, parse("host:both=none"))
    # From the end of the first call to the begin of the second, in two of three steps; and behind the second call.
    assert changed(program, after)["lag"] == [
        0 if point in (2, 8, 4, 10) else one for point, one in enumerate(LAG)
    ]


def test_a_batch_makes_all_work_longer_but_for_the_optimizers(opened: Any) -> None:
    _, after = applied(opened, "batch*2", {1: "optimizer.step", 4: "other"})
    assert after.duration.tolist() == [60_000, 50_000, 60_000, 100_000, 60_000, 100_000]
    _, named = applied(opened, "batch:other*2", {1: "optimizer.step", 4: "other"})
    assert named.duration.tolist() == [60_000, 100_000, 60_000, 100_000, 30_000, 100_000]


def test_work_whose_call_is_not_known_grows_with_the_batch(opened: Any) -> None:
    trace, program = opened({0: "zero_grad"})
    lost = program.but(place=np.array([-1, 1, 3, 4, -1, 7]))
    assert changes.apply(trace, lost, parse("batch*3")).duration.tolist() == [90_000, 150_000] * 3


@pytest.mark.parametrize(
    ("text", "lean", "factor"),
    [
        ("batch*2", -1, 2**0.85), ("batch*2", 0, 2), ("batch*2", 1, 2**1.15),
        ("batch/2", -1, 2**-1.15), ("batch/2", 0, 0.5), ("batch/2", 1, 2**-0.85), ("batch*1", 1, 1),
    ],
)  # fmt: skip
def test_a_batch_leans_to_the_shorter_and_the_longer(
    opened: Any, text: str, lean: int, factor: float
) -> None:
    _, after = applied(opened, text, lean=lean)
    assert after.duration.tolist() == [round(30_000 * factor), round(50_000 * factor)] * 3


def test_no_batch_makes_work_shorter_than_two_microseconds_unless_it_was(opened: Any) -> None:
    trace, program = opened()
    short = program.but(duration=np.array([30_000, 4_000, 2_000, 1_999, 500, 0]))
    assert changes.apply(trace, short, parse("batch/10")).duration.tolist() == [
        3_000,
        2_000,
        2_000,
        1_999,
        500,
        0,
    ]


@pytest.mark.parametrize(
    ("text", "length"), [("fuse:both", 80_000), ("fuse:both/4", 20_000), ("fuse:both=9us", 9_000)]
)
def test_the_work_of_a_range_becomes_one_kernel(opened: Any, text: str, length: int) -> None:
    """Of the first and the last step: the second call of each takes no time, nor does the way to it."""
    before, after = applied(opened, text, {0: "both", 4: "both"})
    assert changed(before, after) == {
        "lag": [0 if point in (2, 3, 14, 15) else one for point, one in enumerate(LAG)],
        "place": [0, 0, 3, 4, 6, 6],
        "gap": [100, 0, 300, 400, 5_000, 0],
        "delay": [0, 0, 3, 4, 0, 0],
        "duration": [length, 0, 30_000, 50_000, length, 0],
    }


def test_kernels_of_a_stream_of_their_own_begin_after_the_step_before(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last to end of one kind, and the first to begin of the other, of each pair of steps; not those that come last or first
    by another time."""
    start = np.array([0, 10, 20, 100, 130, 110])
    end = np.array([99, 60, 95, 125, 180, 190])
    work = np.zeros(6)
    rows = [np.array([0, 1, 2]), np.array([3, 4, 5])]

    class Found:
        def __len__(self) -> int:
            return 2

        def rows_of(self, number: int) -> Any:
            return rows[number]

    found: Any = Found()
    found.work = work
    other: Any = Found()
    other.work = np.zeros(5)  # of another selection
    trace, program = opened()
    monkeypatch.setattr(changes.iterations, "find", lambda trace: [other, found])
    graph = SimpleNamespace(start=start, end=end, work=work)
    held: Any = SimpleNamespace(graph=graph, base=18, links=program.links, but=lambda links: links)
    links = changes._joined(trace, held, np.array([True, False, True, True, False, False]))
    # Moved: 0 and 2, of which 0 ends last; the others of the next step begin with 5. And 1 ends, 3 begins.
    new = list(zip(links.source.tolist(), links.target.tolist(), links.lag.tolist(), strict=True))[3:]
    assert new == [(18, 18 + 5, 0), (18 + 1, 18 + 3, 0)]


@pytest.mark.parametrize(("lean", "call", "gap"), [(-1, 4_000, 300), (0, 8_020, 500), (1, 15_200, 1_000)])
def test_the_launches_of_a_step_are_one_graph(opened: Any, lean: int, call: int, gap: int) -> None:
    """One call for two nodes; nothing passes on the host from its end to the end of the last one."""
    before, after = applied(opened, "graphs", lean=lean)
    assert changed(before, after) == {
        "lag": [
            call if point % 6 == 1 else 0 if point % 6 in (2, 3) else one for point, one in enumerate(LAG)
        ],
        "place": [0, 0, 3, 3, 6, 6],
        # A gap within a graph is that of graphs at most, and never below 0; those from step to step stay.
        "gap": [100, 0, 300, min(400, gap), 5_000, 60],
        "delay": [0] * 6,
        "arrival": [2_000, 0, 7, 2_000, 2_000, 0],
        "from_begin": [False] * 6,
    }


def test_only_launches_in_the_ranges_that_are_named_are_graphs(opened: Any) -> None:
    before, after = applied(opened, "graphs:both", {0: "both", 2: "one", 4: "both"})
    assert after.place.tolist() == [0, 0, 3, 4, 6, 6]
    assert after.delay.tolist() == [0, 0, 3, 4, 0, 0]
    assert [after.lag[point] for point in (1, 7, 13)] == [8_020, 5_000, 8_020]
    nothing = applied(opened, "graphs:nothing")[1]
    assert "matches no launch" in nothing.notes[-1] and changed(before, nothing) == {}


def test_one_launch_is_no_graph(opened: Any) -> None:
    before, after = applied(opened, "graphs:one", {0: "one", 3: "one"})
    assert changed(before, after) == {}


def test_a_wait_ends_a_graph(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All three steps are one iteration here, and the call of each step waits."""
    trace, program = opened()
    group = graphs._groups(trace, program, parse("graphs"), np.array([0, 1, 3, 4, 6, 7]))
    assert [int(one) for one in group] == sorted(group.tolist())
    assert len(set(group.tolist())) == 3
    every: Any = SimpleNamespace(number=lambda thread, moment: np.zeros(len(moment), int))
    monkeypatch.setattr(graphs.selecting, "SelectedRanges", lambda *arguments: every)
    whole = graphs._groups(trace, program, parse("graphs:x"), np.array([0, 1, 3, 4, 6, 7]))
    blocking = graphs._groups(trace, program, parse("graphs:x"), np.array([0, 2, 3, 4]))
    assert whole[0] == whole[1] != whole[2] == whole[3] != whole[4] == whole[5]
    assert (
        blocking[1] == -1 and blocking[0] != blocking[2] == blocking[3]
    )  # a launch that waits is in no graph


def test_an_iteration_begins_with_its_first_launch(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch at the very begin of an iteration belongs to it, not to the one before."""
    trace, program = opened()
    begins = [program.graph.time[2 * place] for place in (0, 4)]
    monkeypatch.setattr(graphs.iterations, "find", lambda trace: [None])
    monkeypatch.setattr(graphs, "_begins", lambda program, one: np.array(begins))
    links = program.links
    free = program.but(links=changes._some(links, np.zeros(len(links.source), bool)))
    group = graphs._groups(trace, free, parse("graphs"), np.array([0, 1, 3, 4, 6, 7]))
    assert group[0] == group[1] == group[2] != group[3] == group[4] == group[5]


def test_lags_below_zero_stay_below_zero_inside_a_graph(opened: Any) -> None:
    _, program = opened()
    lag = program.lag.copy()
    lag[2] = -40
    found = graphs.without_host_time(program.but(lag=lag), np.array([0]), np.array([1]))
    assert found.tolist() == [
        -40 if point == 2 else 0 if point == 3 else one for point, one in enumerate(LAG)
    ]
    same = graphs.without_host_time(program, np.array([0]), np.array([0]))
    assert same.tolist() == LAG
