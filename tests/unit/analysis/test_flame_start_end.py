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


def test_on_its_own_thread_it_nests_with_the_others(build):
    trace = build(
        names=("request", "inner", "gemm"),
        marker=[marker(100, 1000, 1, thread=9, kind="start/end"), marker(300, 200, 2, thread=9)],
        launch=[{**launch(t, 5, i), "thread": 9} for i, t in enumerate((200, 350), 1)],
        kernel=[kernel(t + 8, 10 * i, 3, correlation=i) for i, t in enumerate((200, 350), 1)],
    )
    assert sorted(folded(trace)) == ["request;gemm 10", "request;inner;gemm 20"]
