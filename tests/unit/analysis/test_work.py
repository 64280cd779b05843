"""Device work that conditions select, against a walk over the rows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.analysis.conftest import EPOCH, NAMES, kernel, messy_rows
from warpsight.model import StoredTrace
from warpsight.model import work as device_work
from warpsight.model.selection import Rows
from warpsight.model.work import COMMUNICATION, COPY, KERNEL, SET, Work

Row = dict[str, Any]


def messy() -> dict[str, list[Row]]:
    """Messy rows, some of which end before they begin, and one that is nowhere."""
    rows = messy_rows(3, count=120)
    for row in rows["kernel"][:5]:
        row["duration"] = -7
    rows["kernel"].append({**rows["kernel"][9], "start": EPOCH + 2_000, "device": None, "correlation": 700})
    return rows


def everything(rows: dict[str, list[Row]]) -> Iterator[tuple[int, str, Row]]:
    """Kind, name and row of all work."""
    for row in rows["kernel"]:
        name = NAMES[row["name_id"] - 1]
        yield COMMUNICATION if name.startswith("nccl") else KERNEL, name, row
    for row in rows["memcpy"]:
        yield COPY, f"memcpy {row['kind']}", row
    for row in rows["memset"]:
        yield SET, "memset", row


def selects(chosen: Rows, name: str, row: Row) -> bool:
    return (
        (not chosen.processes or row["process"] in chosen.processes)
        and (not chosen.devices or row["device"] in chosen.devices)
        and (not chosen.streams or row["stream"] in chosen.streams)
        and (chosen.name is None or chosen.name in name)
    )


def walk(
    rows: dict[str, list[Row]], chosen: Rows, cut: bool
) -> tuple[list[tuple[Any, ...]], int, int, int, int]:
    """The rows, start and end of the window, and rows that have no times or end before they begin."""
    mine = [(kind, row) for kind, name, row in everything(rows) if selects(chosen, name, row)]
    timed = [
        (k, r, r["start"], r["start"] + max(r["duration"], 0)) for k, r in mine if r["start"] is not None
    ]
    timed = [one for one in timed if chosen.end is None or one[2] < chosen.end]
    begin = chosen.begin if chosen.begin is not None else min(one[2] for one in timed)
    finish = chosen.end if chosen.end is not None else max(one[3] for one in timed)
    found = []
    for kind, row, start, end in timed:
        if start < begin and not (cut and end > begin):
            continue
        if cut and (chosen.begin is not None or chosen.end is not None):
            start, end = (min(max(time, begin), finish) for time in (start, end))
        where = (
            row["process"],
            row["device"],
            row["stream"],
            row.get("correlation", -1),
            row.get("name_id", 0),
        )
        found.append((start, end, kind, *(-1 if value is None else value for value in where)))
    backwards = sum(row["duration"] < 0 for _, row, *_ in timed)
    return sorted(found), begin, finish, len(mine) - sum(r["start"] is not None for _, r in mine), backwards


def listed(work: Work) -> list[tuple[int, ...]]:
    assert (np.diff(work.start) >= 0).all()
    queues = [work.queues[number] for number in work.queue.tolist()]
    device = [-1 if queue.device is None else queue.device for queue in queues]
    columns = (work.start.tolist(), work.end.tolist(), work.kind.tolist(), work.process.tolist(), device,
               [queue.stream for queue in queues], work.correlation.tolist(), work.name_id.tolist())  # fmt: skip
    return sorted(zip(*columns, strict=True))


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[StoredTrace, dict[str, list[Row]]]]:
    from warpsight.model import TraceWriter
    from warpsight.model import open as open_trace

    rows = messy()
    path = tmp_path_factory.mktemp("work") / "t.warp"
    with TraceWriter(path) as writer:
        for name in NAMES:
            writer.name(name)
        for table, content in rows.items():
            writer.add(table, content)
    with open_trace(path) as trace:
        yield trace, rows


@pytest.mark.parametrize("seed", range(25))
def test_selected_work_is_that_of_a_walk(stored: tuple[StoredTrace, dict[str, list[Row]]], seed: int) -> None:
    trace, rows = stored
    draw = random.Random(seed)
    moments = sorted(
        row["start"] + draw.choice((0, 0, 1, row["duration"])) for row in draw.sample(rows["memcpy"], 2)
    )
    chosen = Rows(
        moments[0] if draw.random() < 0.6 else None, moments[1] + 1 if draw.random() < 0.6 else None,
        draw.choice(((), (), (0,), (0, 1))), draw.choice(((), (), (13,))), draw.choice(((), (), (1,))),
        draw.choice((None, None, None, "gemm", "memcpy HtoD", "mem", "memset")),
    )  # fmt: skip
    cut = draw.random() < 0.5
    work = device_work.load(trace, chosen, cut=cut)
    found, begin, finish, unfinished, backwards = walk(rows, chosen, cut)
    assert listed(work) == found
    assert (work.begin, work.finish, work.window) == (begin, finish, max(finish - begin, 0))
    assert (work.unfinished, work.reversed) == (unfinished, backwards)
    whole = device_work.everything(trace).work
    source = np.arange(len(whole)) if work.source is None else work.source
    assert whole.name_id[source].tolist() == work.name_id.tolist()
    for kind, table, column in ((COPY, "memcpy", "bytes"), (SET, "memset", "start")):
        mine = np.flatnonzero(work.kind == kind)
        values = trace.columns(table, {column: 0, "start": 0})[0]
        at = device_work.table_rows(trace, work, mine)
        assert values["start"][at].tolist() == whole.start[source[mine]].tolist()


def test_rows_of_each_device_and_each_stream_are_all_rows_once(
    stored: tuple[StoredTrace, dict[str, list[Row]]],
) -> None:
    work = device_work.load(stored[0])
    assert [device for device, _ in work.per_device()] == [0, 1, None]
    for device, index in work.per_device():
        assert {work.queues[number].device for number in work.queue[index].tolist()} == {device}
        assert (np.diff(index) > 0).all()
    assert sum(len(index) for _, index in work.per_device()) == len(work)
    for queue, index in work.per_queue():
        assert {work.queues[number] for number in work.queue[index].tolist()} == {queue}
    assert sum(len(index) for _, index in work.per_queue()) == len(work)
    copies = work.of_kind(COPY, SET)
    assert copies.total < work.of_kind().total
    moved = np.flatnonzero(work.kind >= COPY)
    assert copies.total == work.of_kind(among=moved).total == work.of_kind(among=work.kind >= COPY).total


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-5, 5)), max_size=20))
def test_rows_by_group_keep_their_order_where_times_are_equal(rows: list[tuple[int, int]]) -> None:
    group, time = (np.array(column, np.int64) for column in (zip(*rows, strict=True) if rows else ([], [])))
    expected = sorted(range(len(rows)), key=lambda i: rows[i])
    assert device_work.by_group(group, time).tolist() == expected


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from([0, 1, 7, (1 << 52) + 1, (1 << 60) + 1])), max_size=6
    )
)
def test_sums_of_groups_are_exact(rows: list[tuple[int, int]]) -> None:
    group, value = (np.array(column, np.int64) for column in (zip(*rows, strict=True) if rows else ([], [])))
    expected = [sum(v for g, v in rows if g == number) for number in range(4)]
    assert device_work.summed(group, value, 4).tolist() == expected


@given(st.lists(st.sampled_from([-(1 << 40), -3, -2, 0, 1, 5, 2_000, 1 << 40]), max_size=9))
def test_distinct_values_and_their_places(values: list[int]) -> None:
    found, place = device_work.distinct(np.array(values, np.int64))
    assert found.tolist() == sorted(set(values))
    assert found[place].tolist() == values


@pytest.mark.parametrize(
    ("rows", "count"),
    [
        (Rows(), 4), (Rows(begin=50, end=60), 4), (Rows(streams=(7,)), 3), (Rows(streams=(8,)), 1), (Rows(devices=(1,)), 1),
        (Rows(processes=(1,)), 1), (Rows(processes=(0,)), 3), (Rows(name="gemm"), 3), (Rows(name="gemm", streams=(8,)), 1),
    ],
)  # fmt: skip
def test_kernels_that_never_ran_are_counted_by_where_they_were_launched(
    build, rows: Rows, count: int
) -> None:
    trace = build(kernel=[
        kernel(0, 100), kernel(None, None), kernel(None, None, stream=8), kernel(None, None, device=1),
        kernel(None, None, 4, process=1),
    ])  # fmt: skip
    assert device_work.load(trace, rows).unfinished == count


@pytest.mark.parametrize(("begin", "end"), [(50, 10), (50, 50)])
def test_a_window_that_ends_before_it_begins_holds_no_time(build, begin: int, end: int) -> None:
    work = device_work.load(build(kernel=[kernel(0, 100), kernel(20, 10)]), Rows(begin=begin, end=end))
    assert (work.window, (work.end - work.start).tolist()) == (0, [0] * len(work))
    assert set(work.start.tolist()) <= {begin}
