"""Rows of the timeline and windows of them, against the rows of the trace."""

import numpy as np
import pytest

from tests.unit.analysis.conftest import EPOCH, build, copy, kernel, launch, messy  # noqa: F401 - fixtures
from warpsight.analysis.timeline.part import part, sums
from warpsight.analysis.timeline.scene import scene


def covered(pieces, begin, end):
    """Time of [begin, end) that any of the pieces covers."""
    marked = np.zeros(end - begin, bool)
    for start, stop in pieces:
        marked[max(start - begin, 0) : max(stop - begin, 0)] = True
    return int(marked.sum())


def work(rows, device):
    return [(r["start"], r["start"] + r["duration"]) for t in ("kernel", "memcpy", "memset") for r in rows[t]
            if r["start"] is not None and r["device"] == device]  # fmt: skip


@pytest.mark.parametrize("single", [0, 10_000])
def test_every_window_tells_the_covered_time_of_each_device(messy, single):  # noqa: F811
    trace, rows = messy
    found = scene(trace)
    begin, end = found.begin + 1_000, found.end - 2_000
    shown = part(found, begin, end, slices=single, bins=64)
    assert (len(shown.slices) > 0) == bool(single)
    for device in (0, 1):
        number = next(i for i, row in enumerate(found.rows) if row.key == f"gpu{device}")
        expected = covered(work(rows, device), begin, end)
        assert sums(found, begin, end).busy[f"gpu{device}"] == expected
        if single:
            place = shown.slices.rows.tolist().index(number)
            own = slice(*shown.slices.offsets[place : place + 2])
            assert (
                covered(zip(shown.slices.start[own], shown.slices.end[own], strict=True), begin, end)
                == expected
            )
        else:
            place = shown.bins.rows.tolist().index(number)
            width = np.diff(begin + (np.arange(65) * (end - begin)) // 64)
            assert (shown.bins.busy[place] * width).sum() == pytest.approx(expected, rel=1e-5)
            assert ((shown.bins.name[place] >= 0) == (shown.bins.busy[place] > 0)).all()


def test_rows_with_few_slices_keep_them_where_others_become_bins(build):  # noqa: F811
    many = [kernel(EPOCH + i * 10, 5) for i in range(500)]
    trace = build(kernel=[*many, kernel(EPOCH, 5_000, 2, stream=9)])
    found = scene(trace)
    shown = part(found, found.begin, found.end, slices=100, bins=64)
    keys = [row.key for row in found.rows]
    assert [keys[i] for i in shown.slices.rows] == ["gpu0.s9"]
    assert [keys[i] for i in shown.bins.rows if keys[i] != "steps"] == ["gpu0", "gpu0.s7"]


@pytest.mark.parametrize(
    ("length", "asked", "bins"),
    [
        (5_000, 1_024, 1_024),
        (1_000, 1_024, 512),
        (1_024, 1_024, 1_024),
        (100, 1_024, 64),
        (40, 1_024, 64),
        (10, 32, 32),
    ],
)
def test_bins_are_at_least_a_nanosecond_wide_but_not_fewer_than_64(build, length, asked, bins):  # noqa: F811
    found = scene(build(kernel=[kernel(EPOCH + i * 10, 5) for i in range(500)]))
    shown = part(found, EPOCH + 100, EPOCH + 100 + length, slices=0, bins=asked)
    assert shown.bins.busy.shape[1] == bins


def test_a_slice_knows_the_row_of_its_call_and_how_long_ago_that_was(build):  # noqa: F811
    trace = build(
        launch=[launch(EPOCH, 10, 1), launch(EPOCH + 20, 10, 2, thread=200)],
        kernel=[
            kernel(EPOCH + 100, 5, correlation=1),
            kernel(EPOCH + 200, 5, correlation=2),
            kernel(EPOCH + 300, 5),
        ],
    )
    found = scene(trace)
    shown = part(found, found.begin, found.end, slices=100, bins=64).slices
    number = next(i for i, row in enumerate(found.rows) if row.role == "device")
    place = shown.rows.tolist().index(number)
    own = slice(*shown.offsets[place : place + 2])
    keys = [found.rows[i].key if i >= 0 else None for i in shown.caller[own].tolist()]
    assert keys == ["t0.100.calls", "t0.200.calls", None]
    assert shown.lag[own].tolist()[:2] == [100, 180]


def test_stacks_of_calls_hold_until_another_one_is_seen(build):  # noqa: F811
    frames = (("main", "a.py", 1, None, "python", None),)
    inner = (*frames, ("step", "a.py", 7, None, "python", None))
    trace = build(
        stacks=(frames, inner),
        launch=[launch(EPOCH + i * 100, 10, i, stack=1 if i in (0, 1, 4) else 2) for i in range(5)],
        kernel=[kernel(EPOCH + 1_000 + i * 10, 5, correlation=i) for i in range(5)],
    )
    row = next(row for row in scene(trace).rows if row.role == "stacks")
    assert (row.start - EPOCH).tolist() == [0, 200, 400]
    assert (row.end - EPOCH).tolist() == [110, 310, 410]


def test_ranges_take_a_row_for_each_level(build):  # noqa: F811
    def marker(start, duration, name):
        return {"start": start, "duration": duration, "kind": "push/pop", "open": False, "name_id": name, "source": "nvtx",
                "thread": 100, "process": 0}  # fmt: skip

    trace = build(marker=[marker(EPOCH, 100, 1), marker(EPOCH + 10, 20, 2), marker(EPOCH + 40, 20, 2), marker(EPOCH + 41, 5, 1)],
                  kernel=[kernel(EPOCH, 5)])  # fmt: skip
    levels = [(row.key, len(row)) for row in scene(trace).rows if row.role == "ranges"]
    assert levels == [("t0.100.ranges", 1), ("t0.100.ranges1", 2), ("t0.100.ranges2", 1)]


def test_a_bin_has_the_name_that_takes_most_of_it(build):  # noqa: F811
    """Two kernels in turn, of which the last reaches beyond the window."""
    lengths = [300, 100, 300, 100, 9_000]
    starts = [EPOCH + sum(lengths[:i]) for i in range(5)]
    trace = build(
        names=("long", "short"),
        kernel=[kernel(s, d, 1 + i % 2) for i, (s, d) in enumerate(zip(starts, lengths, strict=True))],
    )
    found = scene(trace)
    shown = part(found, EPOCH, EPOCH + 6_400, slices=0, bins=64)
    row = next(i for i, number in enumerate(shown.bins.rows.tolist()) if found.rows[number].key == "gpu0")
    names = list(found.names)
    assert [names[i][1] for i in shown.bins.name[row].tolist()] == (["long"] * 3 + ["short"]) * 2 + [
        "long"
    ] * 56


@pytest.mark.parametrize(("kernels", "copies"), [(1, 1), (1, 0), (0, 1)])
def test_copies_have_a_row_of_their_own_beside_kernels(build, kernels, copies):  # noqa: F811
    found = scene(build(kernel=[kernel(EPOCH, 5)] * kernels, memcpy=[copy(EPOCH + 9, 5)] * copies))
    keys = [row.key for row in found.rows]
    assert "gpu0" in keys and ("gpu0.copies" in keys) == bool(kernels and copies)


def test_slices_of_all_streams_that_match_a_name_come_in_the_order_of_their_begin(build):  # noqa: F811
    lengths = {0: (100, 5), 20: (10, 6), 40: (5, 5)}  # the first ends last
    trace = build(kernel=[kernel(EPOCH + at, length, stream=7 + n % 2)
                          for n, (at, (length, _)) in enumerate(lengths.items())])  # fmt: skip
    found = scene(trace)
    slices = found.matching(".")
    assert slices[:, 1].tolist() == [EPOCH + at for at in lengths]
    assert slices[:, 2].tolist() == [EPOCH + at + length for at, (length, _) in lengths.items()]
    assert len(found.matching("no such kernel")) == 0
