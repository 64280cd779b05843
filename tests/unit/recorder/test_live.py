"""`top`'s view of segments that are still being written, against the rows that were put into them."""

import itertools
import json
import os
import time

import numpy as np
import pytest

from tests.unit.capture.recordings import Recording
from warpsight.errors import UsageError, WarpsightError
from warpsight.recorder import live, output
from warpsight.ui.render.live_view import text

SECOND = 10**9


@pytest.fixture
def recording(tmp_path):
    """A folder that this process says it records to."""
    made = Recording(tmp_path / "run.warp")
    made.root.mkdir()
    output.announce(made.root, "/nowhere", "")
    return made


@pytest.fixture
def now(monkeypatch):
    """A clock that stands still, and a recording that began an hour ago."""
    at = 5_000 * SECOND
    monkeypatch.setattr(live.time, "monotonic_ns", lambda: at + live.LAG_NS)
    return at


def kernels(out, start, end, name=1, device=0):
    out.write(
        "Kernel",
        {"start": start, "end": end, "name": name, "device": device, "context": 1, "stream": 7, "shape": 1},
    )


def follow(recording, window_s=2.0):
    seen = live.Live(recording.root, window_s)
    seen._first = 0  # the recording is older than the window
    return seen


def test_rates_busy_share_and_top_are_those_of_the_window(recording, now):
    arena = recording.process(1)
    rng = np.random.default_rng(1)
    start = now - 3 * SECOND + np.sort(rng.integers(0, 3 * SECOND, 500))
    end = start + rng.integers(1_000, 20_000_000, 500)
    name = rng.integers(12, 14, 500)
    with recording.file(arena) as out:
        kernels(out, start.tolist(), end.tolist(), name.tolist())
        kernels(out, [0], [0])  # its times were lost
        out.write("Api", {"start": start.tolist(), "duration": 5, "flags": 1, "function": 211, "domain": 1})
        out.write("Api", {"start": [now - SECOND], "duration": 5, "flags": 0, "function": 1, "domain": 1})
        out.write(
            "Memcpy",
            {
                "start": [now - SECOND, now - 3 * SECOND],
                "end": [now, now - 2 * SECOND - 1],
                "bytes": [4096, 7],
                "device": 1,
            },
        )
    shown = follow(recording).look()
    begin = now - 2 * SECOND
    inside = (end > begin) & (start < now)
    assert shown.kernels == ((start >= begin) & inside).sum() / 2
    assert shown.launches == ((start >= begin) & (start < now)).sum() / 2
    assert (shown.copies, shown.copied) == (0.5, 2048)
    edges = sorted({begin, now, *np.clip(start, begin, now).tolist(), *np.clip(end, begin, now).tolist()})
    covered = sum(b - a for a, b in itertools.pairwise(edges) if ((start <= a) & (end >= b)).any())
    assert shown.busy["0 H200"] == pytest.approx(covered / (2 * SECOND))
    assert shown.busy["1"] == pytest.approx(0.5)
    spent = {
        n: int((np.minimum(end, now) - np.maximum(start, begin))[inside & (name == n)].sum())
        for n in (12, 13)
    }
    assert {k.name: k.time_ns for k in shown.top} == {"forward": spent[12], "backward": spent[13]}
    assert sum(k.share for k in shown.top) == pytest.approx(1)
    assert shown.processes == (1,)


def test_a_growing_file_is_read_once(recording, now):
    arena = recording.process(1)
    follower = follow(recording)
    with recording.file(arena, suffix=".open") as out:
        kernels(out, [now - SECOND] * 3, [now - SECOND + 10] * 3)
        assert follower.look().kernels in (0, 1.5)
        kernels(out, [now - SECOND] * 5, [now - SECOND + 10] * 5)
    assert follower.look().kernels == 4
    path = next((recording.root / "raw" / arena).glob("data-*.open"))
    path.rename(path.with_name(path.name.removesuffix(".open")))
    assert follower.look().kernels == 4
    next((recording.root / "raw" / arena).glob("data-*.seg")).unlink()  # the converter has taken it
    assert follower.look().kernels == 4


def test_counters_are_the_latest_and_losses_add_up(recording, now):
    arena = recording.process(1)
    (recording.root / "raw" / "journal.json").write_text(
        json.dumps(
            {
                "losses": [
                    {"source": "ring", "cause": "full", "count": 3, "severity": "lost"},
                    {"source": "x", "cause": "told", "count": 9, "severity": "note"},
                ]
            }
        )
    )
    with recording.file(arena) as out:
        out.write_strings({50: "power", 51: "W", 52: "ring", 53: "full"})
        out.write(
            "Counter",
            {"time": [1, 2], "value": [90.0, 450.0], "name": 50, "unit": 51, "device": 0, "source": 1},
        )
        out.write("Loss", {"time": [1, 2], "count": [4, 9], "cause": 53, "source": 52, "severity": [2, 1]})
    shown = follow(recording).look()
    assert [(c.name, c.value, c.unit, c.device) for c in shown.counters] == [("power", 450.0, "W", 0)]
    assert shown.lost == ((7, "ring: full"),)
    assert "LOST 7 ring: full" in text(shown)
    assert "power  450 W" in text(shown)


def test_finding_the_recording(recording, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert live.find(None).name == "run.warp"
    assert live.find(str(recording.root)) == recording.root
    (tmp_path / "old.warp").mkdir()
    with pytest.raises(WarpsightError, match="not being recorded"):
        live.find(str(tmp_path / "old.warp"))
    (recording.root / output.RECORDING).unlink()
    with pytest.raises(UsageError, match="nothing is being recorded"):
        live.find(None)
    with pytest.raises(UsageError, match="not a folder"):
        live.find(str(tmp_path / "nothing"))


def test_an_empty_recording_has_no_rates(recording, now):
    shown = follow(recording).look()
    assert (shown.kernels, shown.launches, shown.top, shown.busy) == (0, 0, (), {})
    assert shown.recording and str(os.getpid()) not in text(shown)
    assert time.time() - shown.elapsed_s > 0
