"""The critical path as an overlay: its segments, and arrows from row to row in order of time."""

import numpy as np
import pytest

from tests.unit.analysis.conftest import EPOCH, kernel, launch
from warpsight.analysis.path.critical_path import critical_path
from warpsight.analysis.path.overlay import overlay
from warpsight.formats.writing.overlay import BEGIN_IN, BEGIN_OUT, END_IN, END_OUT, OnPath


def sync(start, duration, correlation):
    """A host wait for everything on the device, and its call."""
    call = launch(start, duration, correlation) | {"function": "cudaDeviceSynchronize"}
    return {key: value for key, value in call.items() if key != "captured"}


@pytest.fixture
def trace(build):
    """Two launches, two kernels behind each other, and a wait for them."""
    return build(
        launch=[launch(EPOCH, 10, 1), launch(EPOCH + 20, 10, 2)],
        api=[sync(EPOCH + 40, 460, 3)],
        kernel=[kernel(EPOCH + 50, 200, correlation=1), kernel(EPOCH + 250, 240, correlation=2)],
        sync=[{"start": EPOCH + 40, "duration": 460, "kind": "context", "context": 1, "stream": -1, "correlation": 3,
               "process": 0, "device": 0}],
    )  # fmt: skip


def test_segments_are_those_of_the_analysis(trace):
    found = overlay(trace)
    path = critical_path(trace).tables["path"].to_pylist()
    assert list(zip(found.start.tolist(), (found.end - found.start).tolist(), strict=True)) == [
        (row["start"], row["duration"]) for row in path
    ]
    told = [found.labels[i] for i in found.label.tolist()]
    assert "gemm" in told and "launch latency → gemm" in told
    assert (found.start[1:] == found.end[:-1]).all()


def test_arrows_go_from_row_to_row(trace):
    found = overlay(trace)
    first, second = found.device.of(0, np.array([EPOCH + 50, EPOCH + 250]), np.array([7, 7]))
    launched, wait = found.host.of(0, np.array([EPOCH, EPOCH + 40]), np.array([100, 100]))
    assert first[END_OUT] == second[BEGIN_IN] > 0  # one kernel after the other
    assert second[END_OUT] == wait[END_IN] > 0  # the wait ended with the second kernel, and began long before
    assert first[BEGIN_IN] == launched[BEGIN_OUT] > 0


def test_rows_that_are_not_on_the_path_have_no_arrows(trace):
    found = overlay(trace)
    assert not found.host.of(
        0, np.array([EPOCH + 20]), np.array([100])
    ).any()  # the second launch came in time
    assert not found.device.of(0, np.array([EPOCH + 50]), np.array([8])).any()  # another stream
    assert not found.device.of(1, np.array([EPOCH + 50]), np.array([7])).any()  # another process


def test_streams_are_known_by_their_whole_ids(build):
    wide = [
        kernel(EPOCH + 50, 200, correlation=1, stream=(1 << 40) + 7),
        kernel(EPOCH + 250, 240, correlation=2, stream=-1),
    ]
    found = overlay(build(launch=[launch(EPOCH, 10, 1), launch(EPOCH + 200, 10, 2)], kernel=wide))
    own = found.device.of(0, np.array([EPOCH + 250]), np.array([-1]))
    assert own[:, BEGIN_IN].all()
    assert not found.device.of(0, np.array([EPOCH + 50, EPOCH + 250]), np.array([7, (1 << 24) - 1])).any()


def test_an_empty_trace_has_an_empty_path(build):
    found = overlay(build())
    assert not len(found.start)


@pytest.mark.parametrize("seed", range(5))
def test_rows_are_found_by_begin_and_place(seed):
    rng = np.random.default_rng(seed)
    pairs = np.unique(rng.integers(0, 12, (40, 2)), axis=0)
    on = pairs[rng.permutation(len(pairs))[:10]]
    arrows = rng.integers(1, 100, (10, 4)).astype(np.uint64)
    known = OnPath(np.zeros(10, np.int64), on[:, 0], on[:, 1], arrows)
    expected = {tuple(pair): row.tolist() for pair, row in zip(on.tolist(), arrows, strict=True)}
    found = known.of(0, pairs[:, 0], pairs[:, 1])
    assert [row.tolist() for row in found] == [expected.get(tuple(pair), [0] * 4) for pair in pairs.tolist()]
