"""Folders of arenas in memory: which of them a new recording removes."""

import os
import subprocess
import sys
import time

import pytest

from warpsight.capture import arena_files

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
