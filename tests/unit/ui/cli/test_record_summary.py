"""The summary after a recording: places as a reader would type them, in the width of the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsight.recorder.summary import RecordingSummary
from warpsight.ui.cli.record import record_summary
from warpsight.ui.cli.record.record_highlights import Highlights


@pytest.mark.parametrize(
    ("folder", "shown"), [(".", "run.warp"), ("below", "below/run.warp"), ("..", "{}/run.warp")]
)
def test_places_below_the_working_directory_are_relative(tmp_path, monkeypatch, capsys, folder, shown):
    here = tmp_path / "here"
    (here / "below").mkdir(parents=True)
    monkeypatch.chdir(here)
    monkeypatch.setenv("COLUMNS", "60")
    first = (
        f"all of it in train ({here}/train.py:24), and that for a long time in forward ({here}/train.py:10)"
    )
    monkeypatch.setattr(record_summary, "highlights", lambda path: Highlights((), 1, 0.5, 1, None, first))
    record_summary.print_summary(RecordingSummary((here / folder).resolve() / "run.warp", 1, 1, {}, {}, 1))
    said = capsys.readouterr().err
    place = shown.format(Path(tmp_path).resolve())
    assert said.endswith(f"  look:       warpsight open {place}; warpsight analyze {place}\n")
    assert "(train.py:24)" in said and f"({here}" not in said
    where = said.index("  first:")
    assert all(len(line) <= 60 for line in said[where : said.index("  own cost:")].splitlines())


def test_one_of_something_is_not_many(tmp_path: Path) -> None:
    rows = {"kernel": 1, "memcpy": 1, "launch": 1, "api": 1, "stack": 1, "sample": 2}
    text = "\n".join(record_summary.lines(RecordingSummary(tmp_path, 1, 1, {"rows": rows}, {}, 1), None))
    assert "1 process\n" in text
    assert "1 kernel, 1 copy or set\n" in text
    assert "1 launch, 1 other call, 1 stack, 2 samples" in text


def test_a_recording_of_nothing_leads_to_what_can_be_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record_summary.print_summary(RecordingSummary(tmp_path / "run.warp", 1, 1, {}, {}, 0))
    said = capsys.readouterr().err
    assert "no process used a GPU" in said and "warpsight open" not in said
    assert said.endswith("  look:       warpsight doctor says what can be recorded here\n")
