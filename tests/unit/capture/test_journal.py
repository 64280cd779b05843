"""A commit names what is safe: the rest is removed after a crash, as often as it is tried."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from warpsight.capture.journal import Commit, Journal
from warpsight.model.storage import store


def part(root: Path, number: int, process: int | None = 0) -> Path:
    path = store.part_path(root, "kernel", process, number)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"rows")
    return path


def test_parts_of_no_commit_and_segments_of_one_go(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    (raw / "1").mkdir(parents=True)
    kept = [part(tmp_path, 3), part(tmp_path, 2, None), part(tmp_path, 1)]
    gone = [part(tmp_path, 4), part(tmp_path, 11, None)]
    half = kept[0].with_name("." + kept[0].name)
    half.write_bytes(b"ro")
    (raw / "1" / "data-1.seg").write_bytes(b"")
    (raw / "1" / "data-2.seg").write_bytes(b"")
    commit = Commit(part=3, converted=["1/data-1.seg", "1/data-0.seg"])  # the last is gone already
    for _ in range(2):
        Journal(raw).roll_back(tmp_path, commit)
        assert all(path.exists() for path in kept)
        assert not any(path.exists() for path in (*gone, half))
        assert [path.name for path in (raw / "1").iterdir()] == ["data-2.seg"]


def test_what_was_saved_is_loaded_and_older_arrays_go_with_the_commit(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert journal.load() == (Commit(), {})
    commits = [Commit(part=number, rows={"kernel": number}, converted=["1/a.seg"]) for number in (1, 2)]
    for commit in commits:
        journal.save(
            commit,
            {"1f": {"threads": np.array([commit.part]), "a/b": np.zeros(2)}, "20": {"pid": np.array([7])}},
        )
    assert journal.load() == (Commit(), {})  # saved is not committed
    journal.commit(commits[0])
    assert {path.name for path in tmp_path.glob("*.npz")} == {"journal-000001.npz", "journal-000002.npz"}
    journal.commit(commits[1])
    assert {path.name for path in tmp_path.glob("*.npz")} == {"journal-000002.npz"}
    commit, states = Journal(tmp_path).load()
    assert commit == commits[1]
    assert {arena: {name: values.tolist() for name, values in state.items()} for arena, state in states.items()} == {
        "1f": {"threads": [2], "a/b": [0.0, 0.0]}, "20": {"pid": [7]},
    }  # fmt: skip
