"""The account as a whole: every nanosecond of every device once, by class and name."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.unit.analysis.account.rows import US, call, entries, listed, marker
from tests.unit.analysis.conftest import EPOCH, copy, kernel, launch
from warpsight.analysis.account import Entry, account
from warpsight.analysis.account.classes import (
    CLASSES,
    COMMUNICATION,
    COMPUTE,
    COPY,
    HOST,
    IDLE,
    LAUNCH,
    MEANING,
    UNKNOWN,
)
from warpsight.analysis.account.copies import copy_names
from warpsight.analysis.account.pieces import NO_CALL
from warpsight.model import work as device_work
from warpsight.model.selection import Rows

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def test_every_class_has_a_meaning_and_idle_time_is_what_no_work_is():
    assert list(MEANING) == list(CLASSES)
    assert [CLASSES[kind] for kind in IDLE] == [
        "launch",
        "blocked_call",
        "host",
        "other_stream",
        "recorder",
        "unknown",
    ]
    assert [CLASSES[kind] for kind in (COMPUTE, COMMUNICATION, COPY)] == ["compute", "communication", "copy"]


def test_the_rows_add_up_to_the_devices_spans_however_messy_the_trace(messy):
    trace, _ = messy
    found = account(trace)
    assert (
        sum(entry.time for entry in found.entries)
        == found.span
        == sum(d["span"] for d in found.devices.values())
    )
    assert all(sum(times[name] for name in CLASSES) == times["span"] for times in found.devices.values())
    assert [entry.time for entry in found.entries] == sorted(
        (entry.time for entry in found.entries), reverse=True
    )
    for kind, name in enumerate(CLASSES):
        assert found.time(kind) == sum(times[name] for times in found.devices.values())
    assert sum(one.time for one in found.host) == found.time(HOST)


@pytest.fixture
def two_devices(build):
    """Device 0 from 0 to 400 ns, device 1 from 50 to 250 ns.

    0: gemm 0-100, all-reduce 80-200 (exposed 100-200), idle 200-300 (host 200-280, launch 280-300), gemm 300-360,
       copy 350-400 (exposed 360-400)
    1: softmax 50-150, idle 150-240 (unknown), fill 240-250
    """
    return build(
        kernel=[kernel(EPOCH, 100, 1, correlation=1), kernel(EPOCH + 80, 120, 3, stream=8),
                kernel(EPOCH + 300, 60, 1, correlation=2), kernel(EPOCH + 50, 100, 4, device=1)],
        memcpy=[copy(EPOCH + 350, 50, stream=9)],
        memset=[{"start": EPOCH + 240, "duration": 10, "bytes": 8, "value": 0, "memory_kind": "device", "asynchronous": True,
                 "device": 1, "context": 1, "stream": 7, "process": 0}],
        launch=[launch(EPOCH - 20, 5, 1), launch(EPOCH + 280, 10, 2)],
    )  # fmt: skip


def test_each_class_by_name(two_devices):
    assert entries(two_devices) == {
        ("compute", "gemm"): 160,
        ("communication", NCCL): 100,
        ("compute", "softmax"): 100,
        ("unknown", NO_CALL): 90,
        ("host", "the host's own code"): 80,
        ("copy", "memcpy HtoD"): 40,
        ("launch", "cudaLaunchKernel"): 20,
        ("copy", "memset"): 10,
    }
    found = account(two_devices)
    assert found.span == 400 + 200
    assert [(e.name, e.count) for e in found.of(COMPUTE)] == [("gemm", 2), ("softmax", 1)]
    assert [(e.name, e.count) for e in found.of(LAUNCH)] == [("cudaLaunchKernel", 1)]


def test_each_device_has_its_span_and_its_time_by_class(two_devices):
    none = dict.fromkeys(CLASSES, 0)
    assert account(two_devices).devices == {
        0: {**none, "span": 400, "compute": 160, "communication": 100, "copy": 40, "host": 80, "launch": 20},
        1: {**none, "span": 200, "compute": 100, "copy": 10, "unknown": 90},
    }


def test_time_and_shares_of_classes(two_devices):
    found = account(two_devices)
    assert found.time(COMPUTE) == 260
    assert found.time(*IDLE) == 190
    assert found.share(COPY) == 50 / 600
    assert found.share(HOST, LAUNCH) == 100 / 600
    assert [(CLASSES[kind], time, entry.name) for kind, time, entry in found.classes] == [
        ("compute", 260, "gemm"),
        ("communication", 100, NCCL),
        ("unknown", 90, NO_CALL),
        ("host", 80, "the host's own code"),
        ("copy", 50, "memcpy HtoD"),
        ("launch", 20, "cudaLaunchKernel"),
    ]


def test_as_plain_data(two_devices):
    rows = account(two_devices).to_json()
    assert rows[0] == {"class": "compute", "name": "gemm", "ns": 160, "count": 2}
    assert json.loads(json.dumps(rows)) == rows
    assert Entry(HOST, "a", 1, 1).class_name == "host"


def test_only_the_work_asked_for_counts(two_devices):
    found = account(two_devices, Rows(devices=(1,)))
    assert (found.span, list(found.devices)) == (200, [1])
    # From 90 to 320 ns: 10 ns of the first gemm and 20 of the second; device 1 from 90 to the end of its fill at 250.
    part = account(two_devices, Rows(EPOCH + 90, EPOCH + 320))
    assert [part.devices[0][name] for name in ("span", "compute", "communication")] == [230, 10 + 20, 100]
    assert [part.devices[1][name] for name in ("span", "compute", "copy")] == [160, 60, 10]
    assert part.time(*range(len(CLASSES))) == part.span == 230 + 160


def test_it_is_worked_out_once(two_devices):
    assert account(two_devices) is account(two_devices)
    assert account(two_devices, Rows(devices=(0,))) is not account(two_devices)


def test_configurations_of_one_engine_are_one_kernel(build):
    names = ("void engine<128, 4, A>(A)", "void engine<128, 4, B>(B)", "void engine<64, 4, A>(A)")
    trace = build(names=names, kernel=[kernel(0, 10, 1), kernel(10, 20, 2), kernel(30, 5, 3)])
    assert entries(trace) == {("compute", "engine<128, 4>"): 30, ("compute", "engine<64, 4>"): 5}
    assert account(trace).of(COMPUTE)[0].count == 2


def test_kernels_without_a_name_are_unknown_not_missing(build):
    trace = build(kernel=[kernel(0, 10, 1), kernel(20, 7) | {"name_id": 77}])
    assert entries(trace, "compute") == {("compute", "gemm"): 10, ("compute", "?"): 7}


@pytest.mark.parametrize(
    ("row", "name"),
    [
        ({}, "memcpy HtoD"),
        ({"kind": "DtoD", "source_kind": "device"}, "memcpy DtoD"),
        ({"source_kind": "pageable"}, "memcpy HtoD, pageable"),
        ({"kind": "DtoH", "source_kind": "device", "destination_kind": "pageable"}, "memcpy DtoH, pageable"),
        ({"source_kind": "managed", "destination_kind": "managed"}, "memcpy HtoD, managed"),
        ({"source_kind": "managed", "destination_kind": "device"}, "memcpy HtoD"),
    ],
)
def test_copies_are_named_by_direction_and_pageable_memory(build, row, name):
    trace = build(memcpy=[copy(0, 10) | row, copy(20, 5, kind="PtoP")])
    assert entries(trace, "copy") == {("copy", name): 10, ("copy", "memcpy PtoP"): 5}


def test_names_of_copies_are_those_of_the_rows_asked_for(build):
    trace = build(
        kernel=[kernel(5, 1)], memcpy=[copy(0, 10), copy(20, 10, kind="DtoH"), copy(40, 10)],
    )  # fmt: skip
    work = device_work.load(trace, Rows(15, 60))
    texts, code = copy_names(trace, work, np.arange(len(work)))
    assert [texts[i] for i in code] == ["memcpy DtoH", "memcpy HtoD"]


def test_kernels_side_by_side_share_the_time_and_nothing_is_lost_to_rounding(build):
    # Three kernels of three streams at once for 100 ns: 33⅓ ns each; the rows still add up to 100.
    trace = build(kernel=[kernel(0, 100, n, stream=n) for n in (1, 2, 4)])
    assert sorted(entries(trace).values()) == [33, 33, 34]


def test_work_of_no_length_at_the_ends_does_not_stretch_the_span(build):
    found = account(build(kernel=[kernel(0, 0), kernel(50, 10), kernel(90, -5)]))
    assert (found.span, found.time(COMPUTE)) == (10, 10)


def test_without_device_work_there_is_no_time(build):
    for trace in (
        build(),
        build(launch=[launch(0, 5, 1)]),
        build(kernel=[kernel(0, 0)]),
        build(kernel=[kernel(None, None)]),
    ):
        found = account(trace)
        assert (found.span, found.time(*range(len(CLASSES))), found.share(*IDLE)) == (0, 0, 0.0)
        assert (found.classes, found.host) == ((), ())


def test_a_device_that_never_idles_has_work_only(build):
    found = account(build(kernel=[kernel(0, 10), kernel(10, 10), kernel(15, 30)]))
    assert (found.time(*IDLE), listed(found)) == (0, [])


def test_host_time_has_its_names_and_their_number_of_pieces(build):
    # Two stretches of 100 ns of the host's code in `load`, one of 50 ns that nothing covers.
    trace = build(
        names=("load", "gemm"), marker=[marker(50, 400, 1)],
        kernel=[kernel(0, 100, 2, correlation=1), kernel(210, 90, 2, correlation=2), kernel(410, 100, 2, correlation=3),
                kernel(570, 5, 2, correlation=4)],
        launch=[launch(-20, 5, 1), launch(200, 10, 2), launch(400, 10, 3), launch(560, 10, 4)],
    )  # fmt: skip
    assert [(e.name, e.time, e.count) for e in account(trace).of(HOST)] == [
        ("load", 200, 2),
        ("the host's own code", 50, 1),
    ]


def test_idle_time_is_named_by_call(build):
    trace = build(
        kernel=[kernel(0, 100 * US, correlation=1), kernel(300 * US, US, correlation=2)],
        launch=[launch(-20, 5, 1), launch(290 * US, 5 * US, 2)],
        api=[call(110 * US, 20 * US, "cudaMalloc"), call(150 * US, 30 * US, "cudaFree"), call(190 * US, 50 * US, "cudaMalloc")],
    )  # fmt: skip
    assert entries(trace, "blocked_call") == {
        ("blocked_call", "cudaMalloc"): 70 * US,
        ("blocked_call", "cudaFree"): 30 * US,
    }
    assert account(trace).of(UNKNOWN) == ()
