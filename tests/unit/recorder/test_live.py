"""`top`'s view of segments that are still being written, against the rows that were put into them."""

import io
import itertools
import json
import os
import time

import numpy as np
import pytest

from tests.unit.capture.recordings import Recording
from warpsight.errors import UsageError, WarpsightError
from warpsight.recorder import output
from warpsight.recorder.live import recording as live
from warpsight.ui.render.live.view import write

SECOND = 10**9


def text(shown):
    """What `top` prints into a pipe."""
    stream = io.StringIO()
    write(shown, stream)
    return stream.getvalue()


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


def test_blocks_of_a_ring_count_in_whatever_files_they_are(recording, now):
    """The first file of an arena stays open and gets blocks that are newer than those of later files."""
    arena = recording.process(1)
    first = recording.file(arena, suffix=".open")
    with recording.file(arena) as out:
        kernels(out, [now - SECOND] * 3, [now - SECOND + 10] * 3)
    with first as out:
        kernels(out, [now - SECOND] * 5, [now - SECOND + 10] * 5)
    assert follow(recording).look().kernels == 4


def test_stacks_are_those_of_the_calls_that_asked_for_the_work(recording, now):
    arena = recording.process(1)
    with recording.file(arena) as out:
        ids = [1, 2, 3]
        out.write(
            "Api", {"start": [5, 6, now - SECOND], "flags": [1, 1, 0], "correlation": ids, "stack": [2, 1, 2]}
        )
        out.write(
            "Kernel",
            {"start": now - SECOND, "end": [now - SECOND + 700, now - SECOND + 200, now - SECOND + 50], "name": [12, 13, 12],
             "correlation": [1, 2, 9], "device": 0},
        )  # fmt: skip
        out.write(
            "Memcpy", {"start": [now - SECOND], "end": [now - SECOND + 50], "bytes": [7], "correlation": [3]}
        )
        out.write(
            "Sample",
            {"time": [now - 5, now - 6, 7], "stack": [2, 1, 1], "state": [ord("R"), ord("S"), ord("R")]},
        )
    follower = follow(recording)
    shown = follower.look()
    main, step = "main (train.py:10)", "step (train.py:20)"
    assert {one.frames: one.weight for one in shown.stacks} == {
        (main, step, "forward"): 700,
        (main, "backward"): 200,
        ("[no host stack]", "forward"): 50,
        (main, step, "copy"): 50,
    }
    assert sum(one.share for one in shown.stacks) == pytest.approx(1)
    assert {one.frames: one.weight for one in shown.samples} == {
        (main, step, "running"): 1,
        (main, "waiting"): 1,
    }
    assert follower.look(stacks=1).stacks[0].weight == 700  # calls are remembered longer than the window


def test_the_recent_share_is_that_since_the_look_before(recording, now, monkeypatch):
    arena = recording.process(1)
    with recording.file(arena) as out:
        kernels(out, [now - SECOND], [now - SECOND // 2])
    follower = follow(recording)
    assert follower.look().recent["0 H200"] == pytest.approx(0.25)
    monkeypatch.setattr(live.time, "monotonic_ns", lambda: now + SECOND // 2 + live.LAG_NS)
    shown = follower.look()
    assert shown.recent["0 H200"] == 0 and shown.busy["0 H200"] == pytest.approx(0.25)
