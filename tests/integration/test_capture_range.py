"""--capture-range profiler-api: recording follows the program's cudaProfilerStart and cudaProfilerStop."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import warpsight
from tests.integration import standin_programs
from tests.integration.opencl_recording import require_pocl
from tests.integration.standin_programs import Standin

RANGE = ("--capture-range", "profiler-api")


@pytest.fixture(scope="module")
def standin(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Standin:
    return standin_programs.build(library, tmp_path_factory.mktemp("standin"))


def recorded(
    standin: Standin, path: Path, *steps: str, options: tuple[str, ...] = RANGE, **more: str
) -> warpsight.Trace:
    done = standin.run("record", "-o", str(path), *options, "--", *standin.program(*steps), **more)
    assert done.returncode == 0, done.stderr
    return warpsight.open(path)


def counts(trace: warpsight.Trace) -> dict[str, tuple[int, int]]:
    """Launches and kernels with times by kernel name."""
    rows = trace.sql(
        """SELECT name, sum(launch)::INT, sum(kernel)::INT FROM (
            SELECT name_id, 1 AS launch, 0 AS kernel FROM launch UNION ALL
            SELECT name_id, 0, 1 FROM kernel WHERE start IS NOT NULL) JOIN name ON name_id = id GROUP BY name"""
    ).fetchall()
    return {name: (launches, kernels) for name, launches, kernels in rows}


def losses(trace: warpsight.Trace) -> list[str]:
    return [cause for (cause,) in trace.sql("SELECT cause FROM loss WHERE severity <> 'note'").fetchall()]


def test_only_what_was_launched_inside_of_the_ranges_is_recorded(standin: Standin, tmp_path: Path) -> None:
    trace = recorded(
        standin, tmp_path / "t.warp", "init", "launch:before:300", "sync", "copy:8",
        "profiler_start", "launch:first:700", "sync", "profiler_stop",
        "launch:between:300", "sync", "copy:8", "malloc:64",
        "profiler_start", "launch:second:200", "sync", "copy:8", "profiler_stop",
        "launch:after:300", "sync",
    )  # fmt: skip
    assert counts(trace) == {"first": (700, 700), "second": (200, 200)}
    assert trace.sql("SELECT count(*) FROM memcpy").fetchall() == [(1,)]
    assert trace.sql("SELECT count(*) FROM memory").fetchall() == [(0,)]
    assert not losses(trace)
    marks = trace.sql("SELECT name FROM marker WHERE source = 'profiler' ORDER BY start")
    assert [name for (name,) in marks.fetchall()] == ["cudaProfilerStart", "cudaProfilerStop"] * 2


def test_kernels_that_end_after_the_range_belong_to_it_and_those_launched_after_do_not(
    standin: Standin, tmp_path: Path
) -> None:
    trace = recorded(
        standin, tmp_path / "t.warp", "init", "profiler_start", "launch:inside:700", "profiler_stop",
        "launch:outside:700", "sync", "sleep:400", "launch:outside:700", "sync",
    )  # fmt: skip
    assert counts(trace) == {"inside": (700, 700)}
    assert not losses(trace)


def test_kernels_of_a_range_know_modules_and_graphs_from_before_it(standin: Standin, tmp_path: Path) -> None:
    trace = recorded(
        standin, tmp_path / "t.warp", "init", "module:work:1", "graph:1", "sync",
        "profiler_start", "launch:work:5", "sync", "profiler_stop",
    )  # fmt: skip
    assert trace.sql(
        "SELECT count(*), count(m.checksum) FROM kernel LEFT JOIN module m USING (process, module)"
    ).fetchall() == [(5, 5)]
    assert trace.sql("SELECT count(*) FROM graph_node WHERE graph_node = 200").fetchall() == [(1,)]


def test_a_program_that_never_starts_a_range_is_told(standin: Standin, tmp_path: Path) -> None:
    path = tmp_path / "t.warp"
    program = standin.program("init", "launch:work:50", "sync")
    done = standin.run("record", "-o", str(path), *RANGE, "--", *program)
    assert done.returncode == 0
    assert "did not call cudaProfilerStart" in done.stderr
    trace = warpsight.open(path)
    assert trace.sql("SELECT count(*) FROM launch").fetchall() == [(0,)]
    assert trace.sql("SELECT count(*) FROM kernel").fetchall() == [(0,)]


def test_a_program_of_opencl_alone_is_told_that_nothing_of_it_was_recorded(
    library: Path, tmp_path: Path
) -> None:
    require_pocl()
    path = tmp_path / "t.warp"
    command = [sys.executable, "-m", "warpsight", "record", "-o", str(path), *RANGE, "--"]
    done = subprocess.run(
        [*command, sys.executable, "-m", "warpsight.recorder.demo.heat_opencl"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "nothing of OpenCL was recorded" in done.stderr
    trace = warpsight.open(path)
    assert trace.sql("SELECT count(*) FROM kernel").fetchall() == [(0,)]
    assert trace.sql("SELECT source, severity FROM loss WHERE cause LIKE '--capture%'").fetchall() == [
        ("opencl", "note")
    ]


def test_an_end_inside_of_a_range_loses_nothing(standin: Standin, tmp_path: Path) -> None:
    trace = recorded(standin, tmp_path / "t.warp", "init", "profiler_start", "launch:work:600", "sync")
    assert counts(trace) == {"work": (600, 600)}


def test_starts_and_stops_out_of_turn_change_nothing(standin: Standin, tmp_path: Path) -> None:
    trace = recorded(
        standin, tmp_path / "t.warp", "init", "profiler_stop", "launch:no:5", "profiler_start", "profiler_start",
        "launch:yes:5", "sync", "profiler_stop", "profiler_stop", "launch:no:5", "sync",
    )  # fmt: skip
    assert counts(trace) == {"yes": (5, 5)}


def test_many_ranges(standin: Standin, tmp_path: Path) -> None:
    each = ("profiler_start", "launch:yes:20", "profiler_stop", "launch:no:20")
    trace = recorded(standin, tmp_path / "t.warp", "init", *(each * 60), "sync")
    assert counts(trace) == {"yes": (1200, 1200)}
    assert not losses(trace)


def test_a_forked_child_does_not_follow_its_parents_ranges(standin: Standin, tmp_path: Path) -> None:
    trace = recorded(
        standin,
        tmp_path / "t.warp",
        "init",
        "fork",
        "profiler_start",
        "launch:work:5",
        "fork",
        "sync",
        "profiler_stop",
    )
    assert counts(trace) == {"work": (5, 5)}


def test_another_subscriber_only_costs_the_time_until_it_is_gone(standin: Standin, tmp_path: Path) -> None:
    trace = recorded(
        standin, tmp_path / "t.warp", "init", "profiler_start", "launch:no:5", "sync", "profiler_stop", "sleep:4000",
        "profiler_start", "launch:yes:5", "sync", "profiler_stop", STANDIN="refuse_subscribe=2",
    )  # fmt: skip
    assert counts(trace) == {"yes": (5, 5)}
    assert any("another profiler in this process" in cause for cause in losses(trace))


def test_without_the_option_the_calls_leave_markers(standin: Standin, tmp_path: Path) -> None:
    trace = recorded(
        standin, tmp_path / "t.warp", "init", "launch:work:5", "profiler_start", "launch:work:5", "sync",
        "profiler_stop", options=(),
    )  # fmt: skip
    assert counts(trace) == {"work": (10, 10)}
    rows = trace.sql("SELECT name, kind, domain FROM marker ORDER BY start").fetchall()
    assert rows == [("cudaProfilerStart", "instant", "CUDA"), ("cudaProfilerStop", "instant", "CUDA")]


def test_user_events_and_stacks_are_of_the_range_too(standin: Standin, tmp_path: Path) -> None:
    """Ranges of a native program: 100 a second, each around some launches."""
    trace = recorded(
        standin, tmp_path / "t.warp", "init", "ranges:100:200", "profiler_start", "ranges:100:200"
    )
    pushed = trace.sql("SELECT count(*) FROM marker WHERE source = 'annotate'").fetchall()[0][0]
    launched = trace.sql("SELECT count(*) FROM launch").fetchall()[0][0]
    assert 0 < pushed <= 25
    assert launched == pushed


@pytest.mark.parametrize("other", [("--backend", "opencl"), ("--yield",)])
def test_what_cannot_follow_a_range_is_refused(
    standin: Standin, tmp_path: Path, other: tuple[str, ...]
) -> None:
    done = standin.run("record", "-o", str(tmp_path / "t.warp"), *RANGE, *other, "--", "true")
    assert done.returncode == 2
    assert "--capture-range profiler-api is the CUDA recorder's" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_variable_says_the_same(standin: Standin, tmp_path: Path) -> None:
    trace = recorded(
        standin, tmp_path / "t.warp", "init", "launch:no:5", "profiler_start", "launch:yes:5", "sync",
        options=(), WARPSIGHT_CAPTURE_RANGE="profiler-api",
    )  # fmt: skip
    assert counts(trace) == {"yes": (5, 5)}


def test_a_program_that_ends_with_its_range_ends_well(standin: Standin, tmp_path: Path) -> None:
    """CUPTI cleans up in exit(), long enough here for a flush period to pass: nothing may be switched off after it."""
    trace = recorded(
        standin, tmp_path / "t.warp", "init", "profiler_start", "launch:inside:700", "sync", "profiler_stop", "exit:0",
        options=(*RANGE, "--flush", "50"), STANDIN="slow_exit_ms=500",
    )  # fmt: skip
    assert counts(trace) == {"inside": (700, 700)}
    assert not losses(trace)


def test_a_recording_that_is_over_while_the_program_exits_harms_neither(
    standin: Standin, tmp_path: Path
) -> None:
    trace = recorded(
        standin, tmp_path / "t.warp", "init", "launch:work:5", "sync", "exit:0",
        options=("--for", "0.7"), STANDIN="slow_exit_ms=1500",
    )  # fmt: skip
    assert counts(trace) == {"work": (5, 5)}
