"""Device work at the very edges of a window, and what its rows are called."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.analysis.conftest import NAMES, Build, copy, kernel
from warpsight.model import work as device_work
from warpsight.model.selection import Rows

#: Begin and end of kernels around the window from 100 to 200.
SPANS = [
    (50, 99),
    (50, 100),
    (50, 101),
    (100, 100),
    (100, 150),
    (150, 250),
    (199, 200),
    (200, 200),
    (200, 300),
    (201, 210),
]


def spans(trace: Any, **more: Any) -> list[tuple[int, int]]:
    work = device_work.load(trace, Rows(100, 200), **more)
    assert (work.begin, work.finish, work.window) == (100, 200, 100)
    return list(zip(work.start.tolist(), work.end.tolist(), strict=True))


def test_work_that_reaches_into_a_window_is_cut_at_its_ends(build: Build) -> None:
    trace = build(kernel=[kernel(a, b - a, 1) for a, b in SPANS])
    assert spans(trace) == [(100, 101), (100, 100), (100, 150), (150, 200), (199, 200)]


def test_without_cutting_work_is_in_the_window_it_begins_in(build: Build) -> None:
    trace = build(kernel=[kernel(a, b - a, 1) for a, b in SPANS])
    assert spans(trace, cut=False) == [(100, 100), (100, 150), (150, 250), (199, 200)]


@pytest.mark.parametrize("rows", [[(None, None)], [(5, None)]])
def test_a_kernel_without_begin_or_end_never_ran(
    build: Build, rows: list[tuple[int | None, int | None]]
) -> None:
    work = device_work.load(build(kernel=[kernel(10, 5, 1), *(kernel(a, b, 1) for a, b in rows)]))
    assert (len(work), work.unfinished) == (1, len(rows))


def test_collectives_are_kernels_of_their_table(build: Build) -> None:
    trace = build(kernel=[kernel(30, 1, 3), kernel(10, 1, 1), kernel(20, 1, 3), kernel(None, None, 1)],
                  memcpy=[copy(15, 1)])  # fmt: skip
    whole = device_work.everything(trace)
    rows, source = whole.kernels
    assert [NAMES[number - 1] for number in whole.work.name_id[rows].tolist()] == ["gemm", NAMES[2], NAMES[2]]
    starts = trace.sql("SELECT start FROM kernel_ids").fetchall()
    assert [starts[row][0] for row in source.tolist()] == whole.work.start[rows].tolist() == [10, 20, 30]


def test_copies_and_fills_are_named_by_their_direction(build: Build) -> None:
    memset = {"duration": 1, "bytes": 7, "value": 0, "memory_kind": "device", "asynchronous": True, "context": 1, "stream": 7,
              "device": 0, "process": 0}  # fmt: skip
    kinds = ["HtoD", "DtoH", "HtoD", "DtoD"]
    trace = build(kernel=[kernel(5, 1, 1)], memcpy=[copy(40 - 10 * n, 1, kind=kind) for n, kind in enumerate(kinds)],
                  memset=[{**memset, "start": 25}])  # fmt: skip
    work = device_work.load(trace)
    moved = np.flatnonzero(work.kind >= device_work.COPY)
    names, code = device_work.directions(trace, work, moved)
    assert [names[number] for number in code.tolist()] == [
        "Memcpy DtoD", "Memcpy HtoD", "Memset", "Memcpy DtoH", "Memcpy HtoD"
    ]  # fmt: skip


def test_streams_have_their_names_by_process_context_and_number(build: Build) -> None:
    named = [(0, 1, 7, "copies"), (0, 7, 1, "turned"), (1, 1, 7, "other")]
    trace = build(
        stream=[{"process": p, "context": c, "stream": s, "device": 0, "name": name} for p, c, s, name in named],
        kernel=[kernel(n, 1, 1, process=p, context=c, stream=s) for n, (p, c, s) in enumerate(
            ((0, 1, 7), (0, 7, 1), (1, 1, 7), (1, 7, 1)))],
    )  # fmt: skip
    found = {(q.process, q.context, q.stream): q.name for q in device_work.load(trace).queues}
    assert found == {(0, 1, 7): "copies", (0, 7, 1): "turned", (1, 1, 7): "other", (1, 7, 1): None}


def test_work_without_a_device_comes_last(build: Build) -> None:
    trace = build(kernel=[kernel(n, 1, 1, device=device) for n, device in enumerate((2, None, 0, 1, None))])
    found = [(device, rows.tolist()) for device, rows in device_work.load(trace).per_device()]
    assert found == [(0, [2]), (1, [3]), (2, [0]), (None, [1, 4])]


def test_sums_are_exact_where_floats_are_not() -> None:
    """Four values below 2^52 whose sum is not: one bit more would be lost."""
    values = np.array([(1 << 52) - 1] * 3 + [(1 << 52) - 2], np.int64)
    found = device_work.summed(np.array([0, 0, 0, 0]), values, 1)
    assert found.tolist() == [sum(values.tolist())]
    many = np.full(9, (1 << 53) - 1, np.int64)
    assert device_work.summed(np.zeros(9, np.int64), many, 2).tolist() == [9 * ((1 << 53) - 1), 0]
