"""Conversion that was interrupted at any point loses no row and writes none twice."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.capture.recordings import Recording, kernels, launches
from warpsight.capture import converter as module
from warpsight.capture.converter import Converter
from warpsight.capture.journal import Commit, Journal
from warpsight.capture.recover import recover
from warpsight.errors import TraceError
from warpsight.model.storage import manifest, store
from warpsight.model.trace import StoredTrace


class Crash(Exception):
    """The converter died here."""


def record(recording: Recording, segments: int = 10) -> None:
    """Segments in which each kernel comes one segment after its launch, and ranges span three segments."""
    arena = recording.process(1)
    for number in range(segments + 1):
        with recording.file(arena) as out:
            if number < segments:
                out.write("Api", launches(1 + 100 * number, 100))
            if number:
                out.write("Kernel", kernels(1 + 100 * (number - 1), 100))
            out.write(
                "Marker",
                {
                    "time": [1000 * number],
                    "phase": [1 if number % 4 < 2 else 2],
                    "id": [(0, 1, 1, 0)[number % 4]],
                    "name": 12,
                    "source": 1,
                },
            )


def check(root: Path, segments: int = 10) -> None:
    """Everything is there once, joined, and nothing is reported lost."""
    with StoredTrace(root, path=str(root)) as trace:
        assert trace.sql(
            "SELECT count(*), count(DISTINCT correlation), count(stack), count(start) FROM kernel"
        ).fetchall() == [(100 * segments,) * 4]
        assert trace.tables["launch"] == 100 * segments
        assert trace.manifest["rows"]["kernel"] == 100 * segments
        assert trace.tables["name"] == 2
        lost = [row for row in trace.loss.to_pylist() if row["severity"] != "note"]
        assert lost == []


CRASHES = {
    "before the journal": (Journal, "commit", True),
    "while a round is written and the next has begun": (Journal, "save", False),
    "after the journal, before the segments are deleted": (Journal, "commit", False),
    "while parts are written": (Converter, "_write_definitions", False),
    "before the manifest": (manifest, "write", True),
    "after the manifest": (manifest, "write", False),
}


@pytest.mark.parametrize("place", CRASHES)
@pytest.mark.parametrize("occurrence", [1, 2])
def test_a_crash_anywhere_is_recovered_without_loss_or_duplicates(
    recording: Recording, monkeypatch: pytest.MonkeyPatch, place: str, occurrence: int
) -> None:
    record(recording)
    owner, name, before = CRASHES[place]
    original: Callable[..., object] = getattr(owner, name)
    calls = 0

    def crash(*args: object, **kwargs: object) -> object:
        nonlocal calls
        calls += 1
        if calls == occurrence and before:
            raise Crash
        result = original(*args, **kwargs)
        if calls == occurrence:
            raise Crash
        return result

    converter = Converter(recording.root)
    # what a process leaves when it dies on the spot: no going back to the last commit
    monkeypatch.setattr(Converter, "_load", lambda self: None)
    monkeypatch.setattr(owner, name, crash)
    try:
        converter.convert(enough_bytes=0)
        converter.finish()
    except Crash:
        pass
    converter.close()
    monkeypatch.undo()
    recover(recording.root)
    check(recording.root)
    assert not (recording.root / "raw").exists()


def test_recovering_twice_changes_nothing(recording: Recording) -> None:
    record(recording)
    assert recover(recording.root)["recovered"]
    before = {path: path.read_bytes() for path in recording.root.rglob("*") if path.is_file()}
    assert not recover(recording.root)["recovered"]
    assert before == {path: path.read_bytes() for path in recording.root.rglob("*") if path.is_file()}


def test_a_recovered_trace_says_that_it_was(recording: Recording) -> None:
    record(recording)
    (recording.root / "recording.json").write_text(
        json.dumps({"pid": 2**22 + 1, "settings": {"stacks": "both"}})
    )
    recover(recording.root)
    with StoredTrace(recording.root, path="") as trace:
        assert "recovered" in trace.loss.column("cause")[0].as_py()
        assert trace.manifest["settings"] == {"stacks": "both"}
        assert trace.manifest["processes"][0]["exit"] == "unknown"


def test_a_file_that_was_being_written_is_recovered(recording: Recording) -> None:
    arena = recording.process(1)
    with recording.file(arena, suffix=".open") as out:
        out.write("Api", launches(1, 5))
        out.write("Kernel", kernels(1, 5))
    recover(recording.root)
    with StoredTrace(recording.root, path="") as trace:
        assert trace.tables["kernel"] == 5


def test_a_recording_in_use_is_left_alone(recording: Recording) -> None:
    arena = recording.process(1)
    with recording.file(arena, suffix=".open"):
        path = next((recording.root / "raw" / arena).glob("data*.open"))
        holder = subprocess.Popen(
            [sys.executable, "-c", f"f=open({str(path)!r},'ab');print(1,flush=True);input()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert holder.stdout
        holder.stdout.readline()
        with pytest.raises(TraceError, match=f"still being written by process {holder.pid}"):
            recover(recording.root)
        holder.communicate(b"\n")
    converter = Converter(recording.root)
    with pytest.raises(TraceError, match="being converted by another process"):
        recover(recording.root)
    converter.close()


def test_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="not a recording"):
        recover(tmp_path)


def test_a_full_disk_keeps_the_raw_data_and_the_next_attempt_succeeds(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(recording)
    converter = Converter(recording.root)
    with monkeypatch.context() as full:

        def no_space(*args: object, **kwargs: object) -> int:
            raise OSError(28, "No space left on device")

        full.setattr("warpsight.model.storage.store.write_part", no_space)
        answer = module._answer(converter, '{"do": "finish"}')
    assert "No space left on device" in answer["error"]
    assert "warpsight recover" in answer["error"]
    assert len(list((recording.root / "raw").glob("*/data-*.seg"))) == 11
    assert not list(recording.root.glob("table=*/**/*.parquet"))
    assert "finished" in module._answer(converter, '{"do": "finish"}')
    check(recording.root)


def test_a_part_that_cannot_be_written_ends_its_round_though_the_next_has_begun(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts are written while later segments are converted: what those gave must not be kept without the earlier ones."""
    record(recording)
    converter = Converter(recording.root)
    write = store.write_part
    with monkeypatch.context() as full:

        def no_space_for_the_last_of_a_round(path: Path, *args: Any) -> int:
            if path.parent.parent.name == "table=kernel" and store.part_number(path) == 8:
                raise OSError(28, "No space left on device")
            return write(path, *args)

        full.setattr("warpsight.model.storage.store.write_part", no_space_for_the_last_of_a_round)
        answer = module._answer(converter, '{"do": "finish"}')
    assert "No space left on device" in answer["error"]
    assert len(list((recording.root / "raw").glob("*/data-*.seg"))) == 11
    assert "finished" in module._answer(converter, '{"do": "finish"}')
    check(recording.root)


def test_the_converter_process_speaks_lines_of_json(recording: Recording) -> None:
    record(recording)
    requests = "\n".join(
        ['{"do": "convert"}', "nonsense", '{"do": "dance"}', '{"do": "finish", "settings": {"a": 1}}']
    )
    done = subprocess.run(
        [sys.executable, "-m", "warpsight.capture.converter", str(recording.root)],
        input=requests + "\n",
        capture_output=True,
        text=True,
        env={**os.environ},
        timeout=120,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [next(iter(answer)) for answer in answers] == ["converted", "error", "error", "finished"]
    assert answers[3]["finished"]["rows"]["kernel"] == 1000
    check(recording.root)


def _lock_that_is_a_link(root: Path, victim: Path) -> None:
    (root / "raw" / "lock").symlink_to(victim)


def _table_that_is_a_link(root: Path, victim: Path) -> None:
    (root / "table=kernel").symlink_to(victim.parent)


def _segments_of_another_place(root: Path, victim: Path) -> None:
    journal = Journal(root / "raw")
    commit = Commit(converted=[str(victim)])
    journal.save(commit, {})
    journal.commit(commit)


def _another_socket(root: Path, victim: Path) -> None:
    victim.unlink()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(victim))
    (root / "recording.json").write_text(json.dumps({"socket": str(victim), "arenas": "/dev/shm/x"}))


@pytest.mark.parametrize(
    "plant", [_lock_that_is_a_link, _table_that_is_a_link, _segments_of_another_place, _another_socket]
)
def test_recovering_what_another_user_made_changes_nothing_outside(
    recording: Recording, tmp_path: Path, plant: Callable[[Path, Path], None]
) -> None:
    record(recording, segments=1)
    victim = tmp_path / "elsewhere" / "part-000009.parquet"
    victim.parent.mkdir()
    victim.write_text("precious")
    plant(recording.root, victim)
    before = victim.lstat()
    with contextlib.suppress(TraceError):
        recover(recording.root)
    assert victim.lstat() == before


@pytest.mark.parametrize(
    "content",
    ["", "[", "[]", "[" * 100_000, '{"part": "x"}', '{"more": 1}', '{"devices": [1]}', '{"losses": [{}]}', '{"rows": {"a": "b"}}',
     '{"converted": [1], "arrays": "a.npz"}', '{"arrays": "absent.npz"}', "\xff"],
)  # fmt: skip
def test_a_damaged_journal_is_one_message_and_costs_nothing_more(recording: Recording, content: str) -> None:
    record(recording, segments=1)
    (recording.root / "raw" / "journal.json").write_bytes(content.encode("latin-1"))
    files = sorted(recording.root.rglob("*.seg"))
    with pytest.raises(TraceError, match="is damaged"):
        recover(recording.root)
    assert sorted(recording.root.rglob("*.seg")) == files


@pytest.mark.parametrize("content", [b"", b"PK\3\4"])
def test_arrays_of_a_journal_that_a_power_cut_left_empty(recording: Recording, content: bytes) -> None:
    record(recording, segments=1)
    journal = Journal(recording.root / "raw")
    commit = Commit()
    journal.save(commit, {})
    journal.commit(commit)
    (recording.root / "raw" / commit.arrays).write_bytes(content)
    with pytest.raises(TraceError, match="is damaged"):
        recover(recording.root)


def test_a_round_is_on_disk_before_its_segments_are_removed(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(recording)
    kept: set[int] = set()
    sync, unlink = os.fsync, Path.unlink

    def removed(path: Path, missing_ok: bool = False) -> None:
        if path.suffix == ".seg":
            written = [
                *recording.root.glob("table=*/**/*.parquet"),
                *(recording.root / "raw").glob("journal*"),
            ]
            assert {file.stat().st_ino for file in written if store_or_journal(file)} <= kept
        unlink(path, missing_ok)

    def store_or_journal(file: Path) -> bool:
        """Whether the commit before the removal names it; the next round may be under way."""
        committed = json.loads((recording.root / "raw" / "journal.json").read_text())
        return (file.suffix == ".npz" and file.name == committed["arrays"]) or file.suffix == ".json" \
            or (file.suffix == ".parquet" and store.part_number(file) <= committed["part"])  # fmt: skip

    def synced(number: int) -> None:
        kept.add(os.fstat(number).st_ino)
        sync(number)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "unlink", removed)
    Converter(recording.root).convert(enough_bytes=0)
    assert not list((recording.root / "raw").glob("*/data-*.seg"))


def test_a_part_that_a_power_cut_left_empty_is_named_and_files_of_others_stay(recording: Recording) -> None:
    record(recording, segments=1)
    mine = recording.root / "table=kernel" / "part-mine.parquet"
    damaged = recording.root / "table=name" / "part-000000.parquet"
    for file in (mine, damaged):
        file.parent.mkdir()
        file.write_text("")
    with pytest.raises(TraceError, match="part-000000"):
        recover(recording.root)
    assert mine.exists()


WILD = {
    "Flow": {"kind": (1 << 32) - 1},
    "Clock": {"monotonic": 1 << 63, "realtime": 1 << 63},
    "Loss": {"count": (1 << 64) - 1},
    "Process": {"parent": (1 << 32) - 1, "time": (1 << 64) - 1},
}


@pytest.mark.parametrize("kind", WILD)
def test_numbers_that_a_program_wrote_over_the_recorders_cost_no_other_row(
    recording: Recording, kind: str
) -> None:
    record(recording, segments=1)
    with recording.file(f"{1:016x}") as out:
        out.write(kind, {name: [value] for name, value in WILD[kind].items()})
    Converter(recording.root).convert(enough_bytes=0)
    recover(recording.root)
    with StoredTrace(recording.root, path=str(recording.root)) as trace:
        assert trace.tables["kernel"] == 100
