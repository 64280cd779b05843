"""Clocks and power against sums over every nanosecond."""

import numpy as np
import pytest

from tests.unit.analysis.conftest import EPOCH, device, kernel
from warpsight.analysis.base import series
from warpsight.analysis.base.series import Series
from warpsight.analysis.stats.clocks import clocks


def counter(time, name, value, unit, number=0):
    return {"time": time, "name": name, "value": value, "unit": unit, "device": number, "source": "nvml"}


@pytest.fixture
def rows():
    rng = np.random.default_rng(5)
    start, duration = rng.integers(0, 3_000, 60), rng.choice([0, 5, 100, 400], 60)
    names, streams = rng.integers(1, 5, 60), rng.integers(7, 9, 60)
    kernels = [kernel(EPOCH + int(t), int(d), int(n), stream=int(s))
               for t, d, n, s in zip(start, duration, names, streams, strict=True)]  # fmt: skip
    times = EPOCH + np.arange(200, 3_000, 137)
    readings = [(int(t), float(c), float(p)) for t, c, p in zip(
        times, rng.integers(900, 1_981, len(times)), rng.integers(100, 700, len(times)), strict=True)]  # fmt: skip
    return kernels, readings


def test_each_device_has_its_own_series_in_base_units_and_so_has_what_belongs_to_none(build):
    rng = np.random.default_rng(7)
    rows = [counter(EPOCH + i, str(rng.choice(["power", "Power", "other"])), float(rng.integers(1, 900)),
                    str(rng.choice(["W", "mW", "kW"])), rng.choice([0, 3, None])) for i in range(300)]  # fmt: skip
    factor = {"W": 1.0, "mW": 1e-3, "kW": 1e3}
    expected = {}
    for row in rows:
        if row["name"].lower() == "power":
            expected.setdefault(row["device"], []).append((row["time"], row["value"] * factor[row["unit"]]))
    found = series.load(build(counter=rows), ("power",))
    assert {
        d: list(zip(s.time.tolist(), s.value.tolist(), strict=True)) for d, s in found.items()
    } == expected
    assert series.load(build(), ("power",)) == {}


def held(readings, column, t):
    """The reading that holds at a moment; the last one holds for 137 ns."""
    before = [r for r in readings if r[0] <= t]
    if not before or t >= readings[-1][0] + 137:
        return None
    return before[-1][column]


def test_lost_time_energy_and_means_are_sums_over_every_nanosecond(build, rows):
    kernels, readings = rows
    trace = build(device=[device(0, clock_khz=1_980_000)], kernel=kernels,
                  counter=[counter(t, "sm_clock", c, "MHz") for t, c, _ in readings]
                  + [counter(t, "power", p * 1000, "mW") for t, _, p in readings])  # fmt: skip
    tables = clocks(trace).tables
    (row,) = tables["devices"].to_pylist()
    moments = range(min(k["start"] for k in kernels), max(k["start"] + k["duration"] for k in kernels))
    running = {t: [k for k in kernels if k["start"] <= t < k["start"] + k["duration"]] for t in moments}
    computing = [t for t in moments if any(k["name_id"] != 3 for k in running[t])]
    clock = {t: held(readings, 1, t) for t in moments}
    power = {t: held(readings, 2, t) for t in moments}
    judged = [t for t in computing if clock[t] is not None]
    assert (row["busy"], row["measured"]) == (len(computing), len(judged))
    assert row["mean_clock"] == pytest.approx(np.mean([clock[t] for t in judged]))
    assert row["lost"] == pytest.approx(sum(1 - clock[t] / 1_980 for t in judged))
    assert row["energy"] == pytest.approx(sum(p for p in power.values() if p is not None) / 1e9)
    busy_energy = sum(power[t] or 0 for t in moments if running[t]) / 1e9
    assert row["busy_energy"] == pytest.approx(busy_energy)
    found = {r["name"]: r for r in tables["kernels"].to_pylist()}
    assert sum(r["energy"] for r in found.values()) == pytest.approx(busy_energy)
    gemm = [k for k in kernels if k["name_id"] == 1]
    energy = sum(
        (power[t] or 0) * sum(k["name_id"] == 1 for k in running[t]) / len(running[t])
        for t in moments
        if running[t]
    )
    assert found["gemm"]["energy"] == pytest.approx(energy / 1e9)
    own = [
        clock[t] for k in gemm for t in range(k["start"], k["start"] + k["duration"]) if clock[t] is not None
    ]
    assert found["gemm"]["mean_clock"] == pytest.approx(np.mean(own))
    assert "sampled for" in clocks(trace).findings[0].text


def test_throttle_reasons_cost_what_was_lost_while_they_held(build):
    trace = build(device=[device(0, clock_khz=2_000_000)], kernel=[kernel(0, 1_000)],
                  counter=[counter(t, "sm_clock", c, "MHz") for t, c in ((0, 2_000), (200, 1_000), (600, 2_000), (1_000, 2_000))]
                  + [counter(t, "throttle_software_power_cap", v, "1") for t, v in ((0, 0), (200, 1), (600, 0), (1_000, 0))]
                  + [counter(t, "throttle_gpu_idle", 1, "1") for t in (0, 1_000)])  # fmt: skip
    tables = clocks(trace).tables
    assert tables["reasons"].to_pylist() == [
        {
            "device": 0,
            "reason": "software_power_cap",
            "time": 400,
            "busy_time": 400,
            "share": 0.4,
            "lost": 200,
        }
    ]
    (row,) = tables["devices"].to_pylist()
    assert (row["lost"], row["lost_share"], row["lowest_clock"]) == (200, 0.2, 1_000)


def test_without_a_maximum_the_highest_clock_seen_is_taken_and_said(build):
    trace = build(device=[device(0)], kernel=[kernel(0, 100)],
                  counter=[counter(t, "sm_clock", c, "MHz") for t, c in ((0, 500), (50, 1_000), (100, 1_000))])  # fmt: skip
    (row,) = clocks(trace).tables["devices"].to_pylist()
    assert (row["maximum"], row["maximum_known_by"], row["lost"]) == (1_000, "highest seen", 25)


def test_without_samples_nothing_is_claimed(build):
    result = clocks(build(device=[device(0, clock_khz=1_000)], kernel=[kernel(0, 100)]))
    (row,) = result.tables["devices"].to_pylist()
    assert (row["lost"], row["energy"], row["mean_clock"]) == (None, None, None)
    assert "not known" in result.findings[0].text


def test_a_series_is_a_step_function():
    series = Series(np.array([10, 20, 40]), np.array([1.0, 3.0, 5.0]), 60)
    at = np.array([0, 10, 15, 20, 30, 40, 50, 60, 99])
    assert series.integral(at).tolist() == [0, 0, 5, 10, 40, 70, 120, 170, 170]
    assert series.covered(at).tolist() == [0, 0, 5, 10, 20, 30, 40, 50, 50]
