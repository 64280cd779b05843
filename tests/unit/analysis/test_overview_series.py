"""Lines of memory and counters against a dictionary that plays every allocation and free."""

import numpy as np
import pytest

from tests.unit.analysis.conftest import EPOCH
from warpsight.analysis.stats.overview_series import counters, memory


def operation(time, kind, address, size=None, device=0, allocator="cudaMalloc", process=0):
    return {"time": time, "operation": kind, "address": address, "bytes": size, "kind": "device", "device": device,
            "allocator": allocator, "process": process}  # fmt: skip


def random_operations(seed, count=400):
    """Allocations and frees with reused addresses, frees of what was never seen, two devices in one space of addresses."""
    rng = np.random.default_rng(seed)
    rows, live = [], []
    for i in range(count):
        at = EPOCH + i * 10
        if live and rng.random() < 0.45:
            address, device = live.pop(int(rng.integers(len(live))))
            rows.append(operation(at, "free", address, device=device))
        elif rng.random() < 0.05:
            rows.append(operation(at, "free", 999_999, device=int(rng.integers(2))))
        else:
            device = int(rng.integers(2))
            key = (device << 40 | int(rng.integers(40)) * 256, device)
            if key not in live:
                live.append(key)
                rows.append(operation(at, "allocate", key[0], int(rng.integers(1, 1 << 20)), key[1]))
    return rows


def played(rows, device):
    held, level, out = {}, 0, []
    for row in rows:
        if row["device"] != device:
            continue
        if row["operation"] == "allocate":
            held[row["address"]] = row["bytes"]
            level += row["bytes"]
        else:
            level -= held.pop(row["address"], 0)
        out.append((row["time"], level))
    return out


@pytest.mark.parametrize("seed", [0, 1])
def test_memory_in_use_is_what_playing_the_operations_gives(build, seed):
    rows = random_operations(seed)
    series = {s.device: s for s in memory(build(memory=rows))}
    for device in (0, 1):
        expected = played(rows, device)
        assert series[device].time.tolist() == [t for t, _ in expected]
        assert series[device].value.tolist() == [level for _, level in expected]


def test_few_points_keep_the_peak_and_the_end(build):
    rows = random_operations(3)
    (series,) = (s for s in memory(build(memory=rows), points=20) if s.device == 0)
    levels = [level for _, level in played(rows, 0)]
    assert len(series.time) <= 20
    assert (series.high.max(), series.low.min(), series.value[-1]) == (max(levels), min(levels), levels[-1])


def test_counters_are_averaged_with_their_extremes(build):
    rng = np.random.default_rng(1)
    values = rng.integers(0, 100, 1_000).astype(float)
    rows = [{"time": EPOCH + i, "name": "power", "value": v, "unit": "W", "device": 0, "source": "nvml"}
            for i, v in enumerate(values.tolist())]  # fmt: skip
    rows.append({"time": EPOCH, "name": "loss", "value": 2.5, "unit": "1", "device": None, "source": "user"})
    rows.append(
        {
            "time": EPOCH + 1,
            "name": "loss",
            "value": float("nan"),
            "unit": "1",
            "device": None,
            "source": "user",
        }
    )
    found = {s.name: s for s in counters(build(counter=rows), points=10)}
    power = found["power"]
    assert power.value == pytest.approx(values.reshape(10, 100).mean(axis=1))
    assert power.low.tolist() == values.reshape(10, 100).min(axis=1).tolist()
    assert power.high.tolist() == values.reshape(10, 100).max(axis=1).tolist()
    assert (found["loss"].value.tolist(), found["loss"].unit, found["loss"].device) == ([2.5], "", None)


def test_nothing_recorded_gives_no_lines(build):
    trace = build()
    assert (memory(trace), counters(trace)) == ([], [])
