"""Numbers, names and orders of the events that are written, each on its own."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.analysis.account.rows import call, operator
from tests.unit.analysis.conftest import Build, device, kernel, launch
from warpsight.formats.chrome.stream import EventStream
from warpsight.formats.kineto import event_text, reader, writer
from warpsight.formats.selection import Selection

PROCESS = {"process": 0, "pid": 77, "command": "a", "executable": "p", "host": "h", "start": 1}


def written(trace: Any, **selection: Any) -> tuple[dict[str, Any], dict[str, int]]:
    out = io.BytesIO()
    counts = writer.write(trace, out, Selection(enclosed=False, **selection))
    return json.loads(out.getvalue()), counts


def events(trace: Any, category: str) -> list[dict[str, Any]]:
    return [one for one in written(trace)[0]["traceEvents"] if one.get("cat") == category]


@settings(max_examples=100, deadline=None)
@given(st.one_of(st.integers(-3_000, 3_000), st.integers(-(1 << 62), 1 << 62)))
def test_times_have_all_their_nanoseconds_and_a_sign(moment: int) -> None:
    ((text,),) = duckdb.sql(f"SELECT {event_text.us('x')} FROM (SELECT {moment}::BIGINT AS x)").fetchall()
    whole, _, rest = text.partition(".")
    assert len(rest) == 3 and whole.lstrip("-").isdigit()
    assert int(whole + rest) == moment or (whole == "-0" and -int(rest) == moment)


def test_a_duration_below_zero_or_unknown_is_zero(build: Build) -> None:
    trace = build(
        process=[PROCESS], launch=[launch(1_000, -5, 1), launch(2_000, None, 2), launch(3_000, 7, 3)]
    )
    assert [one["dur"] for one in events(trace, "cuda_runtime")] == [0, 0, 0.007]


@pytest.mark.parametrize(
    ("function", "category"),
    [
        ("cuLaunchKernel", "cuda_driver"),
        ("cudaLaunchKernel", "cuda_runtime"),
        ("hipLaunchKernel", "cuda_runtime"),
        ("clEnqueueNDRangeKernel", "cuda_runtime"),
    ],
)
def test_calls_are_of_the_driver_or_the_runtime(build: Build, function: str, category: str) -> None:
    trace = build(process=[PROCESS], launch=[launch(1_000, 5, 1, function=function)])
    (found,) = events(trace, category)
    assert found["name"] == function


def test_a_call_stack_has_its_innermost_frame_first_and_lines_where_they_are_known(build: Build) -> None:
    stacks = (
        (("main", "a.py", 3, None, "python", None), ("run", None, 7, None, "native", None),
         ("step", "b.py", None, None, "python", None), ("f", "b.py", 9, None, "python", None)),
    )  # fmt: skip
    trace = build(process=[PROCESS], stacks=stacks, launch=[launch(1_000, 5, 1, stack=4), launch(2_000, 5, 2, stack=1)],
                  api=[call(3_000, 5, "cudaMalloc", stack=3)])  # fmt: skip
    found = [one["args"].get("Call stack") for one in events(trace, "cuda_runtime")]
    assert found == ["b.py(9): f;step;run;a.py(3): main", "a.py(3): main", "step;run;a.py(3): main"]


def test_shared_memory_is_static_and_dynamic_together(build: Build) -> None:
    shape = {"grid_x": 1, "grid_y": 2, "grid_z": 3, "shared_static": 100, "shared_dynamic": 20}
    trace = build(
        process=[PROCESS], device=[device(0)], shapes=(shape,), kernel=[kernel(1_000, 5, 1, shape_id=1)]
    )
    (found,) = events(trace, "kernel")
    assert found["args"]["shared memory"] == 120 and found["args"]["grid"] == [1, 2, 3]


def test_only_numbers_that_json_has_are_counters(build: Build) -> None:
    point = {"name": "util", "unit": "%", "process": 0, "source": "user"}
    values = [1.5, float("inf"), float("-inf"), float("nan"), -2.0]
    trace = build(process=[PROCESS], counter=[{**point, "time": n, "value": v} for n, v in enumerate(values)])
    assert [one["args"]["%"] for one in events(trace, "counter")] == [1.5, -2.0]


def test_kernels_that_never_ran_are_counted_for_their_own_process(build: Build) -> None:
    rows = [kernel(None, None, 1, process=0, correlation=n) for n in range(3)]
    rows += [kernel(None, None, 1, process=1, correlation=9), kernel(5, 5, 1, process=1, correlation=10)]
    trace = build(process=[PROCESS, {**PROCESS, "process": 1, "pid": 78}], device=[device(0)], kernel=rows)
    assert [written(trace, processes=(number,))[1]["unplaced"] for number in (0, 1)] == [3, 1]


def test_the_base_is_what_the_first_clock_says(build: Build) -> None:
    clock = {"uncertainty": 1, "process": 0}
    rows = [{**clock, "monotonic": 900, "realtime": 5_000_000_900}, {**clock, "monotonic": 100, "realtime": 5_000_000_107},
            {**clock, "monotonic": 50, "realtime": 77, "process": 1}]  # fmt: skip
    trace = build(process=[PROCESS, {**PROCESS, "process": 1, "pid": 78}], clock=rows)
    assert written(trace, processes=(0,))[0]["baseTimeNanoseconds"] == 5_000_000_007
    assert written(trace, processes=(1,))[0]["baseTimeNanoseconds"] == 27
    assert written(build(process=[PROCESS]))[0]["baseTimeNanoseconds"] == 0


@pytest.mark.parametrize(
    ("ranks", "names"),
    [
        ((0, 1), ["rank0", "rank1"]),
        ((3, 1), ["rank3", "rank1"]),
        ((1, 1), ["process0", "process1"]),
        ((None, 1), ["process0", "process1"]),
        ((4,), []),
    ],
)
def test_files_of_several_processes_are_named_by_rank_where_ranks_tell_them_apart(
    build: Build, ranks: tuple[int | None, ...], names: list[str]
) -> None:
    rows = [{**PROCESS, "process": n, "pid": 77 + n, "rank": rank} for n, rank in enumerate(ranks)]
    found = writer.parts(build(process=rows), Selection(enclosed=False))
    assert list(found) == names
    assert [one.processes for one in found.values()] == [(n,) for n in range(len(names))]


def test_operators_and_calls_of_one_moment_come_longest_first(build: Build) -> None:
    rows = [operator(1_000, length, 1, correlation=number) for number, length in enumerate((5, 90, 40))]
    trace = build(process=[PROCESS], op=rows)
    assert [one["dur"] for one in events(trace, "cpu_op")] == [0.09, 0.04, 0.005]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(-(2**31), 2**31 - 1)), max_size=8))
def test_each_thread_of_each_process_has_a_number_of_its_own(pairs: list[tuple[int, int]]) -> None:
    import numpy as np

    columns = [np.array([pair[place] for pair in pairs], np.int32) for place in (0, 1)]
    found = reader.keys(*columns).tolist()
    assert len(set(found)) == len(set(pairs))
    assert [number >> 32 for number in found] == [process for process, _ in pairs]


def event(category: str, name: str, ts: float, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 2, "ts": ts, "dur": 1, **more}


def opened(tmp_path: Path, listed: list[dict[str, Any]]) -> Any:
    import warpsight as ws

    path = tmp_path / "t.json"
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": listed}))
    return ws.open(path)


def test_a_duration_that_is_missing_is_not_one_that_cannot_be_read(tmp_path: Path) -> None:
    listed = [event("cpu_op", "a", 1), event("cpu_op", "b", 2, dur="long"), event("cpu_op", "c", 3, dur=-4),
              event("cpu_op", "d", 4, dur=-0.5)]  # fmt: skip
    without = event("cpu_op", "e", 5)
    del without["dur"]
    with opened(tmp_path, [*listed, without]) as trace:
        assert trace.sql("SELECT name, duration FROM op ORDER BY start").fetchall() == [
            ("a", 1_000), ("b", 0), ("c", 0), ("d", 0), ("e", 0)
        ]  # fmt: skip
        lost = trace.sql("SELECT count, cause FROM loss WHERE severity = 'lost'").fetchall()
        assert sorted(lost) == [
            (1, "unreadable durations, set to 0"),
            (2, "negative durations, set to 0"),
        ]


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The events in each piece of the file that is read: of some ten kilobytes, not of many megabytes."""
    read: list[int] = []
    whole = reader._Reading.piece

    def piece(self: Any, found: Any) -> None:
        read.append(found.events)
        whole(self, found)

    monkeypatch.setattr(reader, "PIECE_BYTES", 1 << 14)
    monkeypatch.setattr(EventStream, "_fill", lambda self, size=0: self._window.fill(1 << 14))
    monkeypatch.setattr(reader._Reading, "piece", piece)
    return read


def test_attributes_of_every_piece_belong_to_their_own_rows(tmp_path: Path, pieces: list[int]) -> None:
    place = {"device": 0, "context": 1, "stream": 7, "grid": [1, 1, 1], "block": [1, 1, 1]}
    listed = [
        event(
            "kernel",
            f"k{n}",
            10 * n,
            args={**place, "correlation": n, **({"mine": n} if n % 300 == 0 else {})},
        )
        for n in range(2_000)
    ]
    with opened(tmp_path, listed) as trace:
        found = trace.sql(
            "SELECT row, value FROM attribute WHERE \"table\" = 'kernel' AND key = 'mine' ORDER BY row"
        ).fetchall()
        assert found == [(n, str(n)) for n in range(0, 2_000, 300)]
        rows = trace.sql("SELECT correlation FROM kernel ORDER BY start").fetchall()
        assert rows == [(n,) for n in range(2_000)]
    assert sum(pieces) == 2_000 and len(pieces) > 3


def test_attributes_of_collectives_belong_to_their_own_rows(tmp_path: Path, pieces: list[int]) -> None:
    place = {"device": 0, "context": 1, "stream": 7, "Collective name": "allreduce", "Group size": 2, "dtype": "Float",
             "In msg nelems": 4, "Out msg nelems": 4}  # fmt: skip
    listed = [
        event("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 10 * n,
              args={**place, "correlation": n, "In split size": f"[{n}]"})
        for n in range(900)
    ]  # fmt: skip
    with opened(tmp_path, listed) as trace:
        assert trace.count("collective") == 900
        found = trace.sql(
            "SELECT row, value FROM attribute WHERE \"table\" = 'collective' AND key = 'In split size' ORDER BY row"
        ).fetchall()
        assert [row for row, _ in found] == list(range(900))
        assert [value.strip('"') for _, value in found] == [f"[{n}]" for n in range(900)]
    assert len(pieces) > 3


def test_a_step_of_an_arrow_is_not_its_begin(tmp_path: Path) -> None:
    """From the forward's operator to that of backward, past a third one."""
    operators = [
        event("cpu_op", name, at, dur=5, tid=tid, args={"External id": number})
        for number, (name, at, tid) in enumerate(
            (("aten::mul", 10, 2), ("between", 20, 2), ("MulBackward0", 30, 3)), 1
        )
    ]
    arrows = [
        {"ph": phase, "cat": "fwdbwd", "name": "fwdbwd", "id": 5, "pid": 1, "tid": tid, "ts": at, "bp": "e"}
        for phase, at, tid in (("s", 10, 2), ("t", 20, 2), ("f", 30, 3))
    ]
    with opened(tmp_path, [*operators, *arrows]) as trace:
        found = trace.sql("SELECT from_correlation, to_correlation FROM flow ORDER BY 2").fetchall()
    assert found[-1] == (1, 3)
    assert all(first == 1 for first, _ in found)
