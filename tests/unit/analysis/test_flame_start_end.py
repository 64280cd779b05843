"""Ranges begun with start/end in flame graphs: on their own thread, and for threads that have no range of their own."""

import io

from tests.unit.analysis.conftest import kernel, launch
from tests.unit.analysis.test_ranges import marker
from warpsight.analysis.flame.graph import Shape, flame
from warpsight.model.selection import Rows
from warpsight.ui.render.flame.text import write_folded


def folded(trace):
    out = io.StringIO()
    write_folded(flame(trace, Rows(), Shape()), out)
    return out.getvalue().splitlines()


def test_a_range_of_another_thread_counts_where_the_thread_has_none(build):
    trace = build(
        names=("request", "inner", "gemm"),
        marker=[marker(100, 1000, 1, thread=7, kind="start/end"), marker(300, 200, 2, thread=9)],
        launch=[{**launch(t, 5, i), "thread": 9} for i, t in enumerate((50, 200, 350), 1)],
        kernel=[kernel(t + 8, 10 * i, 3, correlation=i) for i, t in enumerate((50, 200, 350), 1)],
    )
    assert sorted(folded(trace)) == ["[no host stack];gemm 10", "inner;gemm 30", "request;gemm 20"]


def test_a_range_of_another_process_never_counts(build):
    trace = build(
        names=("one", "other", "gemm"),
        marker=[marker(100, 1000, 1, thread=7, kind="start/end"),
                {**marker(100, 1000, 2, thread=7, kind="start/end"), "process": 1},
                {**marker(150, 300, 1, thread=8), "process": 1}],
        launch=[{**launch(200, 5, 1), "thread": 9, "process": process} for process in (0, 1)],
        kernel=[kernel(208 + 50 * process, 10 + process, 3, correlation=1, process=process) for process in (0, 1)],
    )  # fmt: skip
    assert sorted(folded(trace)) == ["one;gemm 10", "other;gemm 11"]


def test_on_its_own_thread_it_nests_with_the_others(build):
    trace = build(
        names=("request", "inner", "gemm"),
        marker=[marker(100, 1000, 1, thread=9, kind="start/end"), marker(300, 200, 2, thread=9)],
        launch=[{**launch(t, 5, i), "thread": 9} for i, t in enumerate((200, 350), 1)],
        kernel=[kernel(t + 8, 10 * i, 3, correlation=i) for i, t in enumerate((200, 350), 1)],
    )
    assert sorted(folded(trace)) == ["request;gemm 10", "request;inner;gemm 20"]
