"""Ranges one by one, their kernels, and sequences of kernels, against plain searches."""

import numpy as np
import pytest

from tests.unit.analysis.conftest import EPOCH, kernel, launch
from tests.unit.analysis.test_ranges import marker
from warpsight.analysis.ranges.instances import range_instances, range_kernels
from warpsight.analysis.steps.sequences import sequences

NAMES = ("step", "nn.Module: Norm_0", "nn.Module: Norm_1", "gemm", "add", "mul")
STEP, NORM_0, NORM_1, GEMM, ADD, MUL = range(1, 7)


def program(rng, steps=6):
    """Steps that launch a product, then a module of two or three elementwise kernels; the device runs behind."""
    markers, launches, kernels = [], [], []
    now, free, correlation = EPOCH, EPOCH + 500, 0

    def run(name):
        nonlocal now, free, correlation
        correlation += 1
        launches.append(launch(now, 5, correlation))
        free = max(free, now + 8) + int(rng.integers(0, 4))
        length = int(rng.integers(1, 40))
        kernels.append(kernel(free, length, name, correlation=correlation))
        free += length
        now += 10

    for step in range(steps):
        begin = now
        run(GEMM)
        inner = now
        for name in (ADD, MUL) if rng.random() < 0.7 else (ADD, MUL, MUL):
            run(name)
        markers.append(marker(inner, now - inner, NORM_0 if step % 2 else NORM_1))
        markers.append(marker(begin, now - begin + 3, STEP))
        now += int(rng.integers(4, 30))
    return {"marker": markers, "launch": launches, "kernel": kernels}


def inside(rows, one):
    """Kernels whose launch began in a range."""
    begins = {r["correlation"]: r["start"] for r in rows["launch"]}
    low, high = one["start"], one["start"] + one["duration"]
    return [k for k in rows["kernel"] if low <= begins[k["correlation"]] < high]


@pytest.mark.parametrize("seed", range(8))
def test_instances_are_what_a_search_finds(build, seed):
    rows = program(np.random.default_rng(seed))
    found = range_instances(build(names=NAMES, **rows))
    told = {(r["name"], r["start"]): r for r in found.tables["instances"].to_pylist()}
    assert len(told) == len(rows["marker"])
    before = {}
    for one in sorted(rows["marker"], key=lambda m: m["start"]):
        mine, row = inside(rows, one), told[NAMES[one["name_id"] - 1], one["start"]]
        first, last = min(k["start"] for k in mine), max(k["start"] + k["duration"] for k in mine)
        total = sum(k["duration"] for k in mine)
        assert (row["begin"], row["span"], row["work"], row["total"]) == (
            first,
            last - first,
            len(mine),
            total,
        )
        assert (row["host"], row["lag"]) == (one["duration"], first - one["start"])
        assert row["pace"] == (first - before[one["name_id"]] if one["name_id"] in before else None)
        before[one["name_id"]] = first
    paces = {r["name"]: r for r in found.tables["pace"].to_pylist()}
    steps = [r["pace"] for r in told.values() if r["name"] == "step" and r["pace"] is not None]
    assert paces["step"]["pace_median"] == np.median(steps)
    assert (paces["step"]["pace_min"], paces["step"]["pace_max"]) == (min(steps), max(steps))


@pytest.mark.parametrize("seed", range(8))
def test_kernels_of_a_range_are_those_of_its_innermost_launches(build, seed):
    rows = program(np.random.default_rng(seed))
    expected = {}
    for one in rows["marker"]:
        if one["name_id"] == STEP:
            inner = next(
                m
                for m in rows["marker"]
                if m is not one and one["start"] <= m["start"] < one["start"] + one["duration"]
            )
            modules = {k["correlation"] for k in inside(rows, inner)}
            for k in inside(rows, one):
                owner = inner if k["correlation"] in modules else one
                key = NAMES[owner["name_id"] - 1], NAMES[k["name_id"] - 1]
                expected.setdefault(key, []).append(k["duration"])
    told = range_kernels(build(names=NAMES, **rows)).tables["kernels"].to_pylist()
    assert {(r["range"], r["kernel"]): (r["count"], r["total"], r["min"], r["max"]) for r in told} == {
        key: (len(d), sum(d), min(d), max(d)) for key, d in expected.items()
    }
    assert sum(r["share"] for r in told) == pytest.approx(100)


@pytest.mark.parametrize("seed", range(8))
def test_sequences_count_what_instances_launch_in_order(build, seed):
    rows = program(np.random.default_rng(seed), steps=12)
    expected = {}
    for one in rows["marker"]:
        mine = inside(rows, one)
        name = "step" if one["name_id"] == STEP else "nn.Module: Norm"
        key = name, " → ".join(NAMES[k["name_id"] - 1] for k in mine)
        count, total = expected.get(key, (0, 0))
        expected[key] = count + 1, total + sum(k["duration"] for k in mine)
    told = sequences(build(names=NAMES, **rows)).tables["sequences"].to_pylist()
    assert {(r["operator"], r["sequence"]): (r["times"], r["total"]) for r in told} == expected
    assert all(r["mean"] == pytest.approx(r["total"] / r["times"]) for r in told)
    assert all(r["launch"] == 5 * r["times"] * r["kernels"] for r in told)
    assert [r["total"] for r in told] == sorted((r["total"] for r in told), reverse=True)


def test_of_operators_that_launched_the_same_kernels_the_outermost_is_told(build):
    rows = {"marker": [marker(EPOCH, 50, STEP), marker(EPOCH + 1, 40, NORM_0)],
            "launch": [launch(EPOCH + 2, 3, 1), launch(EPOCH + 8, 3, 2)],
            "kernel": [kernel(EPOCH + 9, 4, ADD, correlation=1), kernel(EPOCH + 15, 4, MUL, correlation=2)]}  # fmt: skip
    told = sequences(build(names=NAMES, **rows)).tables["sequences"].to_pylist()
    assert [(r["operator"], r["times"]) for r in told] == [("step", 1)]


def test_without_ranges_there_is_a_note_instead_of_an_empty_answer(build):
    result = sequences(build(names=NAMES, kernel=[kernel(EPOCH, 5, GEMM)]))
    assert not len(result.tables["sequences"])
    assert any("no operators and no ranges" in f.text for f in result.findings)
