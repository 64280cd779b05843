"""`ws.top`: looks at a running recording as data, until it ends."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import warpsight as ws
from tests.unit.capture.recordings import Recording
from warpsight.api import live as api
from warpsight.recorder import output
from warpsight.recorder.live import recording as live

SECOND = 10**9
NOW = 5_000 * SECOND


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recording:
    """A recording of an hour with ten kernels in its last second, by a clock that stands still."""
    made = Recording(tmp_path / "run.warp")
    made.root.mkdir()
    output.announce(made.root, "/nowhere", "")
    monkeypatch.setattr(live.time, "monotonic_ns", lambda: NOW + live.LAG_NS)
    hour_later = time.time() + 3_600
    monkeypatch.setattr(live.time, "time", lambda: hour_later)
    monkeypatch.setattr(api.time, "sleep", lambda seconds: None)
    with made.file(made.process(1)) as out:
        out.write_strings({50: "a<b>"})
        start = [NOW - SECOND + n for n in range(0, 1_000, 100)]
        rows = {
            "start": start,
            "end": [one + 10 for one in start],
            "name": 50,
            "device": 0,
            "context": 1,
            "stream": 7,
            "shape": 1,
        }
        out.write("Kernel", rows)
    return made


def test_a_snapshot_has_what_top_shows_and_prints_as_it_does(recording: Recording) -> None:
    shown = next(ws.top(str(recording.root), window=2))
    assert (shown.kernels, [(one.name, one.count, one.time_ns) for one in shown.top]) == (
        5,
        [("a<b>", 10, 100)],
    )
    lines = str(shown).splitlines()
    assert lines[0].startswith(str(recording.root)) and lines[-1].split() == [
        "100",
        "ns",
        "100.0%",
        "5",
        "a<b>",
    ]
    assert "a&lt;b&gt;" in shown._repr_html_()
    assert shown.to_json()["top"][0]["count"] == 10


def test_the_snapshots_end_with_the_recording(recording: Recording) -> None:
    looks = ws.top(str(recording.root))
    assert next(looks).recording
    (recording.root / output.RECORDING).unlink()
    assert [one.recording for one in looks] == [False]


def test_what_is_not_recorded_is_an_error_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ws.UsageError, match="nothing is being recorded"):
        ws.top()
    (tmp_path / "old.warp").mkdir()
    with pytest.raises(ws.WarpsightError, match="not being recorded"):
        ws.top("old.warp")
