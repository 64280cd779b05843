"""The drainer alone: taking over, full disks, hostile arenas, limits. Each in a process of its own."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.native import segment_reader

PRELUDE = """
import ctypes, os, resource, signal, struct, sys
from ctypes import c_char_p, c_int, c_uint64, c_void_p
ws = ctypes.CDLL(sys.argv[1])
ws.ws_drain_open.restype, ws.ws_drain_open.argtypes = c_void_p, [c_int, c_char_p, c_uint64]
for name in ("rotate", "close"): getattr(ws, "ws_drain_" + name).argtypes = [c_void_p]
ws.ws_drain_poll.argtypes = ws.ws_drain_statistic.argtypes = [c_void_p, c_int]
ws.ws_drain_statistic.restype = ws.ws_statistics.restype = c_uint64
COUNTER = struct.Struct("<QdIIiI")
raw = os.fsencode(sys.argv[2])
def count(first, last):
    accepted = 0
    for i in range(first, last):
        accepted += ws.ws_write_row(29, COUNTER.pack(i, i, name, 0, -1, 3), COUNTER.size) == 0
    return accepted
fd = ws.ws_arena_create(None)
assert fd >= 0
name = ws.ws_intern(b"x", 1)
"""


def run(library: Path, directory: Path, code: str, returncode: int = 0) -> str:
    """Run `code` in a process with an arena of its own; what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + code, str(library), str(directory)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == returncode, done.stderr
    return done.stdout.strip()


def times(recording: segment_reader.Recording) -> list[float]:
    """What the counters count: their order of writing."""
    return [row["time"] for row in recording["Counter"]]


def test_a_second_drainer_goes_on_where_the_first_stopped(library: Path, tmp_path: Path) -> None:
    run(
        library,
        tmp_path,
        """
count(0, 5000)
first = ws.ws_drain_open(fd, raw, 0); ws.ws_drain_poll(first, 1); ws.ws_drain_close(first)
count(5000, 9000)
second = ws.ws_drain_open(fd, raw, 0); ws.ws_drain_close(second)
""",
    )
    assert times(segment_reader.read(tmp_path)) == list(range(9000))
    numbers = [int(p.name.split("-")[1][:6]) for p in tmp_path.iterdir()]
    assert len(numbers) == len(set(numbers)) == 4


def test_a_drainer_that_was_killed_is_replaced_without_loss_or_repeats(library: Path, tmp_path: Path) -> None:
    run(
        library,
        tmp_path,
        """
count(0, 5000)
script = '''
import ctypes, os, signal, sys
ws = ctypes.CDLL(sys.argv[1]); ws.ws_drain_open.restype = ctypes.c_void_p
ws.ws_drain_open.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_uint64]
ws.ws_drain_poll.argtypes = [ctypes.c_void_p, ctypes.c_int]
drainer = ws.ws_drain_open(int(sys.argv[3]), os.fsencode(sys.argv[2]), 0)
ws.ws_drain_poll(drainer, 1)
os.kill(os.getpid(), signal.SIGKILL)
'''
import subprocess
done = subprocess.run([sys.executable, "-c", script, sys.argv[1], sys.argv[2], str(fd)], pass_fds=[fd])
assert done.returncode == -signal.SIGKILL
assert any(name.endswith(b".open") for name in os.listdir(raw))
count(5000, 9000)
second = ws.ws_drain_open(fd, raw, 0); ws.ws_drain_close(second)
""",
    )
    assert times(segment_reader.read(tmp_path)) == list(range(9000))
    assert not list(tmp_path.glob("*.open"))


def test_numbers_go_on_after_all_segments_were_converted_and_deleted(library: Path, tmp_path: Path) -> None:
    out = run(
        library,
        tmp_path,
        """
drainer = ws.ws_drain_open(fd, raw, 0)
count(0, 10); ws.ws_drain_poll(drainer, 1); ws.ws_drain_close(drainer)
before = set(os.listdir(raw))
for name_ in before: os.unlink(os.path.join(raw, name_))
count(10, 20)
drainer = ws.ws_drain_open(fd, raw, 0); ws.ws_drain_close(drainer)
print(before & set(os.listdir(raw)), len(os.listdir(raw)) > 0)
""",
    )
    assert out == "set() True"


def test_a_checkpoint_makes_open_blocks_readable_at_once(library: Path, tmp_path: Path) -> None:
    out = run(
        library,
        tmp_path,
        """
drainer = ws.ws_drain_open(fd, raw, 0)
count(0, 3); print(ws.ws_drain_poll(drainer, 0), ws.ws_drain_poll(drainer, 1) > 0)
count(3, 6); ws.ws_drain_poll(drainer, 1); ws.ws_drain_rotate(drainer)
print(sorted(n.split(b".")[-1] for n in os.listdir(raw)))
count(6, 9); ws.ws_drain_poll(drainer, 1)
os._exit(0)
""",
    )
    # the open one has room for what may be lost
    assert out.splitlines() == ["0 True", "[b'open', b'seg', b'seg']"]
    assert times(segment_reader.read(tmp_path)) == list(range(9))


def test_a_file_size_limit_loses_counted_rows_and_never_blocks_the_writer(
    library: Path, tmp_path: Path
) -> None:
    out = run(
        library,
        tmp_path,
        """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (256 * 1024, resource.RLIM_INFINITY))
drainer = ws.ws_drain_open(fd, raw, 0)
accepted = 0
for i in range(40):
    accepted += count(i * 1000, i * 1000 + 1000)
    ws.ws_drain_poll(drainer, 0)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
for _ in range(3): ws.ws_drain_poll(drainer, 1)
print(accepted, ws.ws_drain_statistic(drainer, 4), ws.ws_drain_statistic(drainer, 5))
ws.ws_drain_close(drainer)
""",
    )
    accepted, unwritten, error = map(int, out.split())
    recording = segment_reader.read(tmp_path)
    assert unwritten > 0
    assert error == 27  # EFBIG
    assert len(times(recording)) + unwritten == accepted == 40000
    cause = "blocks could not be written: the file size limit was reached"
    assert sum(count for source, told, count in recording.losses() if told == cause) == unwritten


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_full_disk_loses_counted_rows_and_keeps_what_was_written(library: Path, tmp_path: Path) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tmp_path], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a tmpfs: {mounted.stderr.decode().strip()}")
    try:
        out = run(
            library,
            tmp_path,
            """
drainer = ws.ws_drain_open(fd, raw, 0)
accepted = 0
for i in range(100):
    accepted += count(i * 1000, i * 1000 + 1000)
    ws.ws_drain_poll(drainer, 0)
print(accepted, ws.ws_drain_poll(drainer, 1) < 0)
print(ws.ws_drain_statistic(drainer, 2) > 0, ws.ws_drain_statistic(drainer, 5))
ws.ws_drain_close(drainer)
""",
        )
        recording = segment_reader.read(tmp_path)
    finally:
        subprocess.run(["umount", tmp_path], check=True)
    assert out.splitlines() == ["100000 True", "True 28"]  # ENOSPC
    rows = times(recording)
    assert len(rows) > 10000
    assert rows[:10000] == list(range(10000))
    assert rows == sorted(set(rows))
    assert recording.damaged == 0
    assert len(rows) + sum(count for _, _, count in recording.losses()) == 100_000


def test_a_scribbled_arena_neither_crashes_nor_hangs_the_drainer(library: Path, tmp_path: Path) -> None:
    out = run(
        library,
        tmp_path,
        """
import random
random.seed(5)
count(0, 20000)
for attempt in range(200):
    where = random.choice([random.randrange(24, 104), random.randrange(4096, 4096 + 3 * 128),
                           1052672 + random.randrange(0, 3 * 65536, 65536) + random.randrange(64)])
    os.pwrite(fd, random.randbytes(random.choice([1, 4, 8])), where)
    drainer = ws.ws_drain_open(fd, raw, 0)
    if drainer:
        ws.ws_drain_poll(drainer, attempt % 2); ws.ws_drain_close(drainer)
print("alive")
""",
    )
    assert out == "alive"


def test_what_is_no_sound_arena_is_refused(library: Path, tmp_path: Path) -> None:
    out = run(
        library,
        tmp_path,
        """
unsealed = os.memfd_create("x", os.MFD_ALLOW_SEALING); os.ftruncate(unsealed, 4 << 20)
os.pwrite(unsealed, os.pread(fd, 4096, 0), 0)
file = os.open(__import__("tempfile").mktemp(), os.O_RDWR | os.O_CREAT); os.ftruncate(file, 4 << 20)
refused = [ws.ws_drain_open(bad, raw, 0) for bad in (-1, 0, unsealed, file)]
print(refused, ws.ws_drain_open(fd, b"/proc/nowhere", 0))
""",
    )
    assert out == "[None, None, None, None] None"


@pytest.mark.parametrize("limit", ["FSIZE", "AS"])
def test_a_resource_limit_makes_a_smaller_arena_instead_of_none(
    library: Path, tmp_path: Path, limit: str
) -> None:
    bytes_ = 64 << 20 if limit == "FSIZE" else 700 << 20
    which = getattr(resource, f"RLIMIT_{limit}")
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            PRELUDE
            + """
print(os.fstat(fd).st_size < 2 << 30, count(0, 1000), ws.ws_statistics(0))
""",
            str(library),
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(which, (bytes_, bytes_)),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "True 1000 1000"


def test_rows_of_a_wrong_size_are_refused(native: ctypes.CDLL) -> None:
    assert native.ws_write_row(29, b"", 0) == 0  # no arena in this process: a no-op
