"""A journal keeps every whole line, drops one that was cut off, and belongs to one experiment."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsight.errors import WarpsightError
from warpsight.race.journal import ExperimentJournal


def test_lines_are_there_again_after_every_possible_cut(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with ExperimentJournal(path, {"a": (1,)}) as journal:
        for number in range(3):
            journal.append({"n": number})
    whole = path.read_bytes()
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        with ExperimentJournal(path, {"a": (1,)}) as journal:
            assert [line["n"] for line in journal.lines] == list(
                range(max(0, whole[:length].count(b"\n") - 1))
            )
            journal.append({"n": 9})
        assert path.read_bytes().endswith(b'\n{"n":9}\n')


def test_another_experiment_and_damage_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    ExperimentJournal(path, {"a": 1, "b": 2}).close()
    with pytest.raises(WarpsightError, match=r"another experiment \(b, c differs\)"):
        ExperimentJournal(path, {"a": 1, "c": 2})
    path.write_bytes(b'{"a":1,"b":2}\n\xff\n{}\n')
    with pytest.raises(WarpsightError, match="line 2: is damaged"):
        ExperimentJournal(path, {"a": 1, "b": 2})
    with pytest.raises(WarpsightError, match="cannot be written"):
        ExperimentJournal(tmp_path / "no" / "journal.jsonl", {})


def test_a_journal_is_open_once(tmp_path: Path) -> None:
    with ExperimentJournal(tmp_path / "j", {}), pytest.raises(WarpsightError, match="in use"):
        ExperimentJournal(tmp_path / "j", {})
    ExperimentJournal(tmp_path / "j", {}).close()
