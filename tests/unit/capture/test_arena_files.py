"""Folders of arenas in memory: which of them a new recording removes."""

import contextlib
import errno
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from warpsight.capture import arena_files
from warpsight.errors import TraceError

DAY = 24 * 3600


@pytest.fixture
def memory(tmp_path, monkeypatch):
    monkeypatch.setattr(arena_files, "_MEMORY", tmp_path)
    return tmp_path


def left(memory, name, age_s, content=b"rows"):
    folder = memory / f"{arena_files.PREFIX}{name}"
    folder.mkdir(mode=0o700)
    if content:
        (folder / "1").write_bytes(content)
        os.utime(folder / "1", (time.time() - age_s,) * 2)
    return folder


def test_arenas_that_nobody_recovered_within_a_day_are_removed(memory):
    old, young = left(memory, "old", 2 * DAY), left(memory, "young", DAY / 2)
    made = arena_files.create()
    assert made is not None
    assert made.is_dir()
    assert not old.exists()
    assert young.exists()


def test_what_is_in_use_empty_or_not_ours_stays(memory):
    empty = left(memory, "empty", 0, b"")
    used = left(memory, "used", 2 * DAY)
    other = memory / "something-else"
    other.mkdir()
    (memory / f"{arena_files.PREFIX}link").symlink_to(other)
    code = "import mmap,sys; f=open(sys.argv[1],'r+b'); m=mmap.mmap(f.fileno(),0); print(1,flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, str(used / "1")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as user:
        user.stdout.readline()
        arena_files.create()
        user.stdin.close()
    assert used.exists()
    assert empty.exists()
    assert other.exists()


@pytest.mark.parametrize(
    ("code", "refused"), [(0, False), (errno.EINVAL, False), (errno.ENOSPC, True), (errno.EACCES, True)]
)
def test_rows_in_memory_are_drained_unless_their_process_died_while_it_made_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int, refused: bool
) -> None:
    asked: list[bytes] = []

    def adopt(descriptor: int, folder: bytes) -> int:
        os.fstat(descriptor)
        asked.append(folder)
        return -code

    monkeypatch.setattr(arena_files._native, "load", lambda: SimpleNamespace(ws_drain_adopt=adopt))
    (tmp_path / "arena").write_bytes(b"")
    with pytest.raises(OSError, match=os.strerror(code)) if refused else contextlib.nullcontext():
        arena_files._drain(tmp_path / "arena", tmp_path / "raw")
    assert asked == [os.fsencode(tmp_path / "raw")]


def test_rows_in_memory_stay_where_there_is_no_library(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def missing() -> None:
        raise OSError("no library")

    monkeypatch.setattr(arena_files._native, "load", missing)
    with pytest.raises(TraceError, match="cannot be read: no library"):
        arena_files._drain(tmp_path / "arena", tmp_path)
