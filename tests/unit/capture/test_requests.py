"""What the converter's process answers, line by line, and what a recording folder says of who still writes it."""

from __future__ import annotations

import io
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.unit.capture.recordings import Recording, kernels, launches
from warpsight.capture import converter as module
from warpsight.capture import recover as recovering
from warpsight.errors import TraceError


@pytest.fixture
def served(recording: Recording, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """A function that serves lines in this process: exit code and answers."""
    monkeypatch.setattr(module.allocator, "keep_freed_memory", lambda _: None)
    monkeypatch.setattr(module, "keep_pandas_out", lambda: None)

    def serve(*lines: str, arguments: tuple[str, ...] = ()) -> tuple[int, list[dict[str, Any]]]:
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(line + "\n" for line in lines)))
        mask = os.umask(0o022)
        try:
            code = module.main(list(arguments or (str(recording.root),)))
        finally:
            os.umask(mask)
        return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return serve


def filled(recording: Recording) -> None:
    arena = recording.process(1)
    with recording.file(arena) as out:
        out.write("Api", launches(1, 10))
        out.write("Kernel", kernels(1, 10))


def test_requests_are_answered_until_the_trace_is_finished(recording: Recording, served: Any) -> None:
    filled(recording)
    finish = {"do": "finish", "settings": {"a": 1}, "overhead": {"b": 2}, "topology": {"c": 3}, "color": "red",
              "loss": [{"cause": "killed", "count": 4}],
              "processes": [{"arena": f"{1:016x}", "pid": 1, "exit": "killed by 9", "end": 77}]}  # fmt: skip
    code, answers = served(
        '{"do": "convert"}', "nonsense", '{"do": "dance"}', json.dumps(finish), '{"do": "convert"}'
    )
    assert code == 0
    assert [next(iter(answer)) for answer in answers] == ["converted", "error", "error", "finished"]
    assert answers[0] == {"converted": 0, "kernels": 0}  # too little to begin with
    assert answers[2] == {"error": "unknown request 'dance'"}
    assert answers[3]["finished"]["rows"]["kernel"] == 10
    assert (answers[3]["finished"]["processes"], answers[3]["finished"]["devices"]) == (1, 1)
    assert answers[3]["finished"]["bytes"] == sum(
        p.stat().st_size for p in recording.root.glob("table=*/**/*.parquet")
    )
    manifest = json.loads((recording.root / "manifest.json").read_text())
    assert (manifest["settings"], manifest["overhead"], manifest["topology"]) == (
        {"a": 1},
        {"b": 2},
        {"c": 3},
    )
    assert [(row["source"], row["cause"], row["count"]) for row in manifest["loss"]] == [
        ("launcher", "killed", 4)
    ]
    assert (manifest["processes"][0]["exit"], manifest["processes"][0]["end"]) == ("killed by 9", 77)
    assert not (recording.root / "raw").exists()


def test_a_recording_of_a_program_that_did_nothing_can_be_finished(tmp_path: Path, served: Any) -> None:
    root = tmp_path / "new.warp"
    root.mkdir()
    code, (answer,) = served('{"do": "finish"}', arguments=(str(root),))
    assert (code, answer["finished"]["rows"]) == (0, {})
    assert (root / "manifest.json").exists()


def test_the_folder_may_come_with_the_first_line(recording: Recording, served: Any) -> None:
    filled(recording)
    first = json.dumps({"do": "open", "folder": str(recording.root)})
    code, answers = served(first, '{"do": "finish"}', arguments=("-",))
    assert (code, answers[0]["finished"]["rows"]["kernel"]) == (0, 10)
    assert served(arguments=("-",)) == (0, [])
    assert served("nonsense", arguments=("-",)) == (0, [])


def test_a_folder_that_cannot_be_converted_is_an_answer_and_an_exit_code(
    recording: Recording, served: Any
) -> None:
    filled(recording)
    other = module.Converter(recording.root)
    code, answers = served('{"do": "finish"}')
    assert (code, answers) == (1, [{"error": f"{recording.root} is being converted by another process"}])
    other.close()
    assert served()[0] == 0  # the end of its input is no error, and unlocks the folder
    module.Converter(recording.root).close()


def test_a_log_of_kernels_is_asked_for_with_the_folder(
    recording: Recording, served: Any, tmp_path: Path
) -> None:
    filled(recording)
    log = tmp_path / "kernels.ndjson"
    log.touch()
    _, answers = served(
        '{"do": "convert"}', '{"do": "finish"}', arguments=(str(recording.root), str(log), "none")
    )
    assert answers[0] == {"converted": 1, "kernels": 10}  # its readers want to see kernels at once
    assert len(log.read_text().splitlines()) == 10


def told(recording: Recording, **content: Any) -> None:
    (recording.root / "recording.json").write_text(json.dumps(content))


def test_what_a_killed_recording_left_is_told_in_its_trace(recording: Recording) -> None:
    filled(recording)
    told(recording, pid=1 << 30, settings={"a": 1}, arenas="")
    seen: list[int] = []
    found = recovering.recover(recording.root, seen.append)
    assert (found["recovered"], found["rows"]["kernel"], seen) == (True, 10, [10])
    manifest = json.loads((recording.root / "manifest.json").read_text())
    assert manifest["settings"] == {"a": 1}
    assert manifest["processes"][0]["exit"] == "unknown"
    lost = {row["severity"]: row["cause"] for row in manifest["loss"]}
    assert set(lost) == {"note", "lost"}
    assert lost["lost"].startswith("there was no space in memory")
    again = recovering.recover(recording.root, seen.append)
    assert (again["recovered"], again["rows"], len(seen)) == (False, found["rows"], 1)


def test_only_a_warpsight_that_still_runs_keeps_a_recording(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(recording)
    told(recording, pid=os.getppid(), arenas="/dev/shm/nothing-of-ours")
    commands = {"one": b"python\0-m\0warpsight\0record", "other": b"bash"}
    monkeypatch.setattr(Path, "read_bytes", lambda self: commands["one"])
    with pytest.raises(TraceError, match=f"still being recorded by process {os.getppid()}; stop that first"):
        recovering._check_ended(recording.root)
    monkeypatch.setattr(Path, "read_bytes", lambda self: commands["other"])
    recovering._check_ended(recording.root)
    monkeypatch.setattr(Path, "read_bytes", lambda self: commands["one"])
    assert not recovering._is_recorder(os.getpid())  # this one recovers
    monkeypatch.undo()
    assert not recovering._is_recorder(1 << 30)
    assert recovering._adopt(recording.root) == []


def test_the_socket_of_a_launcher_that_is_gone_goes_with_its_folder(tmp_path: Path) -> None:
    folder, arenas = tmp_path / "launcher", str(tmp_path)
    folder.mkdir()
    (folder / "arenas").symlink_to(arenas)
    plain = folder / "plain"
    plain.write_text("")
    for other in (None, 7, "\0", str(plain), str(folder / "nothing")):
        recovering._remove_socket(other, arenas)
    assert plain.exists()
    plain.unlink()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "s"))
        recovering._remove_socket(str(folder / "s"), "/another recording's")
        assert (folder / "s").exists()
        recovering._remove_socket(str(folder / "s"), arenas)
    assert not folder.exists()


@pytest.mark.parametrize("content", ["nonsense", "[]", '{"settings": 7}'])
def test_damaged_notes_about_a_recording_are_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "recording.json").write_text(content)
    assert recovering._settings(tmp_path) == {}
    assert recovering._recording(tmp_path / "nowhere") == {}
