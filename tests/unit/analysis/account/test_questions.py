"""`analyze TRACE account` and `analyze TRACE gaps`: the account as tables."""

from __future__ import annotations

import pytest

from tests.unit.analysis.account.rows import US, call, frame, marker, sample
from tests.unit.analysis.conftest import EPOCH, copy, kernel, launch
from tests.unit.analysis.test_utilization import ALL, extent, marks
from warpsight.analysis.account import account
from warpsight.analysis.account.classes import CLASSES, HOST, IDLE
from warpsight.analysis.account.pieces import NO_CALL
from warpsight.analysis.account.questions import gaps, pieces_of, spans
from warpsight.analysis.base.result import units
from warpsight.model.selection import Rows

MS = 1_000_000
IDLE_NAMES = [CLASSES[kind] for kind in IDLE]


def test_gaps_are_the_moments_between_a_devices_works_and_their_parts_add_up(messy):
    trace, rows = messy
    begin, end = extent(rows)
    listed = gaps(trace).tables["gaps"].to_pylist()
    for number in (0, 1):
        busy = marks(rows, number, ALL)[begin:end] > 0
        first, last = busy.argmax(), len(busy) - busy[::-1].argmax()
        seen = ~busy
        for gap in (g for g in listed if g["device"] == number):
            at = gap["begin"] - EPOCH - begin
            assert seen[at : at + gap["duration"]].all()
            seen[at : at + gap["duration"]] = False
        assert not seen[first:last].any()
        assert seen[:first].all()
        assert seen[last:].all()
    for gap in listed:
        assert gap["duration"] == sum(gap[name] for name in IDLE_NAMES)
    assert [(g["device"], g["begin"]) for g in listed] == sorted((g["device"], g["begin"]) for g in listed)


def test_causes_are_the_idle_rows_of_the_account_and_top_the_longest_gaps(messy):
    trace, _ = messy
    tables, found = gaps(trace).tables, account(trace)
    causes = tables["causes"].to_pylist()
    assert [(c["class"], c["name"], c["time"]) for c in causes] == [
        (e.class_name, e.name, e.time) for e in found.entries if e.kind in IDLE
    ]
    assert sum(c["share"] for c in causes) == pytest.approx(1)
    lengths = sorted((g["duration"] for g in tables["gaps"].to_pylist()), reverse=True)
    assert [g["duration"] for g in tables["top"].to_pylist()] == lengths[:20]
    assert [g["duration"] for g in gaps(trace, top=3).tables["top"].to_pylist()] == lengths[:3]
    assert [g["duration"] for g in gaps(trace, top=0).tables["top"].to_pylist()] == lengths


@pytest.fixture
def program(build):
    """Idle from 100 to 200 µs (host 80 with cudaMalloc 25 in it, launch 20) and from 300 to 340 µs (no call)."""
    return build(
        names=("gemm(float*)", "load"),
        device=[{"device": 0, "index": 0, "uuid": "u", "name": "G", "vendor": "V", "platform": "cuda"}],
        kernel=[kernel(EPOCH, 100 * US, 1, correlation=1), kernel(EPOCH + 200 * US, 100 * US, 1, correlation=2)],
        memcpy=[copy(EPOCH + 340 * US, 10 * US)], marker=[marker(EPOCH, 190 * US, 2)],
        launch=[launch(EPOCH - 20, 5, 1), launch(EPOCH + 180 * US, 10 * US, 2)],
        api=[call(EPOCH + 120 * US, 25 * US, "cudaMalloc")],
    )  # fmt: skip


def test_a_gap_has_several_causes_one_after_the_other(program):
    result = gaps(program)
    assert result.tables["causes"].to_pylist() == [
        {"class": "host", "name": "load", "gaps": 1, "time": 55 * US, "share": 55 / 140, "longest": 35 * US},
        {"class": "unknown", "name": NO_CALL, "gaps": 1, "time": 40 * US, "share": 40 / 140, "longest": 40 * US},
        {"class": "blocked_call", "name": "cudaMalloc", "gaps": 1, "time": 25 * US, "share": 25 / 140, "longest": 25 * US},
        {"class": "launch", "name": "cudaLaunchKernel", "gaps": 1, "time": 20 * US, "share": 20 / 140, "longest": 10 * US},
    ]  # fmt: skip
    assert result.tables["top"].to_pylist() == [
        {"device": 0, "begin": EPOCH + 100 * US, "duration": 100 * US, "next": "gemm", "call": "cudaLaunchKernel",
         "causes": "host 55.0 µs, blocked_call 25.0 µs, launch 20.0 µs", "host": "load"},
        {"device": 0, "begin": EPOCH + 300 * US, "duration": 40 * US, "next": "copy", "call": None, "causes": "unknown 40.0 µs",
         "host": None},
    ]  # fmt: skip
    none = dict.fromkeys(IDLE_NAMES, 0)
    assert result.tables["gaps"].to_pylist() == [
        {**none, "device": 0, "begin": EPOCH + 100 * US, "duration": 100 * US, "host": 55 * US, "launch": 20 * US,
         "blocked_call": 25 * US},
        {**none, "device": 0, "begin": EPOCH + 300 * US, "duration": 40 * US, "unknown": 40 * US},
    ]  # fmt: skip
    assert units(result.tables["gaps"]) == dict.fromkeys(("begin", "duration", *IDLE_NAMES), "ns")


def test_a_gap_in_which_the_host_did_several_things_has_the_name_of_the_longest(build):
    # 100 to 400 µs: 150 µs in load, then 100 µs in log, cudaMalloc between them; a second gap makes `log` a name of its own.
    trace = build(
        names=("load", "log", "gemm"), api=[call(250 * US, 50 * US, "cudaMalloc")],
        marker=[marker(100 * US, 150 * US, 1), marker(300 * US, 100 * US, 2), marker(500 * US, 100 * US, 2)],
        kernel=[kernel(0, 100 * US, 3, correlation=1), kernel(405 * US, 95 * US, 3, correlation=2),
                kernel(605 * US, US, 3, correlation=3)],
        launch=[launch(-20, 5, 1), launch(400 * US, US, 2), launch(600 * US, US, 3)],
    )  # fmt: skip
    assert [(g["host"], g["duration"]) for g in gaps(trace).tables["top"].to_pylist()] == [
        ("load", 305 * US),
        ("log", 105 * US),
    ]


def test_the_account_as_tables(program):
    result = spans(program)
    first, *_ = result.tables["account"].to_pylist()
    assert first == {
        "class": "compute",
        "name": "gemm(float*)",
        "time": 200 * US,
        "share": 200 / 350,
        "count": 2,
    }
    (device,) = result.tables["devices"].to_pylist()
    assert device == {
        "device": 0, "span": 350 * US, "compute": 200 * US, "communication": 0, "copy": 10 * US, "launch": 20 * US,
        "blocked_call": 25 * US, "host": 55 * US, "other_stream": 0, "recorder": 0, "unknown": 40 * US,
    }  # fmt: skip
    assert units(result.tables["devices"])["span"] == "ns"


def test_the_fill_that_ends_a_gap_is_named(build):
    fill = {"start": 100, "duration": 10, "bytes": 8, "value": 0, "memory_kind": "device", "asynchronous": True, "device": 0,
            "context": 1, "stream": 7, "process": 0}  # fmt: skip
    (gap,) = gaps(build(kernel=[kernel(0, 10)], memset=[fill])).tables["top"].to_pylist()
    assert gap["next"] == "fill"


def test_the_pieces_behind_a_row_of_the_account(program):
    found = account(program)
    assert found.pieces.length[pieces_of(found, HOST, "load")].tolist() == [20 * US, 35 * US]
    assert found.pieces.length[pieces_of(found, CLASSES.index("launch"), "cudaLaunchKernel")].tolist() == [
        10 * US,
        10 * US,
    ]
    assert pieces_of(found, CLASSES.index("launch"), "cudaMalloc").tolist() == []


@pytest.mark.parametrize(("idle", "said"), [(200, True), (199, False)])
def test_idle_time_that_nothing_explains_is_said_from_two_percent_of_the_time_on(build, idle, said):
    work = [kernel(0, 5_000), kernel(5_000 + idle, 5_000 - idle)]
    for question in (spans, gaps):
        notes = [f for f in question(build(kernel=work)).findings if f.severity == "note"]
        assert [f.values for f in notes] == ([{"time": idle, "idle": idle}] if said else [])
    if said:
        assert "100%" in notes[0].text


def test_of_idle_time_that_is_explained_in_part_the_rest_is_said(build):
    trace = build(
        kernel=[kernel(0, 100, correlation=1), kernel(200, 100, correlation=2), kernel(400, 100)],
        launch=[launch(-9, 3, 1), launch(180, 20, 2)],
    )
    (note,) = gaps(trace).findings
    assert note.values == {"time": 100, "idle": 200}
    assert "50%" in note.text


def test_a_device_that_worked_all_the_time_has_no_gaps(build):
    result = gaps(build(kernel=[kernel(0, 10), kernel(10, 10)]))
    assert [len(table) for table in result.tables.values()] == [0, 0, 0]
    assert result.findings == ()


def test_without_device_work_it_says_so(build):
    for question in (spans, gaps):
        result = question(build())
        assert not any(map(len, result.tables.values()))
        assert [f.text for f in result.findings]


def test_two_devices_with_one_stream_number_have_gaps_of_their_own(build):
    trace = build(kernel=[kernel(0, 10), kernel(90, 10), kernel(10, 60, device=1), kernel(80, 5, device=1)])
    found = [(g["device"], g["begin"], g["duration"]) for g in gaps(trace).tables["gaps"].to_pylist()]
    assert found == [(0, 10, 80), (1, 70, 10)]


def test_gaps_of_a_time_asked_for_lie_between_the_works_in_it(build):
    trace = build(kernel=[kernel(0, 10 * MS), kernel(20 * MS, MS), kernel(30 * MS, MS)])
    found = gaps(trace, Rows(-3 * MS, 25 * MS)).tables["gaps"].to_pylist()
    assert [(g["begin"], g["duration"]) for g in found] == [(10 * MS, 10 * MS)]


def test_python_that_runs_is_named_by_the_function_that_most_samples_were_in(build):
    """A gap of 10 ms: five of seven samples in `load`, the others in functions around it and beside it."""
    stacks = (
        (frame("main", "train.py", 3),),
        (frame("main", "train.py", 3), frame("load", "data.py", 12)),
        (frame("main", "train.py", 3), frame("log", "log.py", 30)),
    )
    trace = build(
        stacks=stacks, kernel=[kernel(0, 10 * MS, correlation=1), kernel(20 * MS, MS, correlation=2)],
        launch=[launch(-MS, 5_000, 1), launch(20 * MS - 5_000, 4_000, 2)],
        sample=[sample(t * MS, s) for t, s in ((11, 2), (12, 2), (13, 2), (14, 2), (15, 1), (16, 3), (19, 2))],
    )  # fmt: skip
    (one,) = account(trace).host
    assert (one.name, one.most) == ("main", "load (data.py:12)")
    assert one.most_share == pytest.approx(5 / 7)
