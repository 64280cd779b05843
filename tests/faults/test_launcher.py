"""A launcher in narrow places: whatever a shell takes away, exit code and behavior stay the program's."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.recorded import TIMEOUT, Recorded, environment, launcher, program

WRITE = "os.write(1, b'out\\n'); sys.exit(5)"


def shell(library: Path, path: Path, before: str, after: str = "", then: str = WRITE) -> Recorded:
    """`record` in a shell that did `before`, with redirections `after` it."""
    line = f"{before}\n{shlex.join(launcher('-o', str(path), '--', *program(then)))} {after}"
    done = subprocess.run(["bash", "-c", line], env=environment(library), capture_output=True, text=True, timeout=TIMEOUT,
                          check=False)  # fmt: skip
    return Recorded(done.returncode, done.stdout, done.stderr, path)


@pytest.mark.parametrize("limit", ["-n 16", "-n 20", "-n 32", "-v 3000000", "-v 6000000", "-f 1"])
def test_a_low_limit_costs_rows_at_most(library: Path, tmp_path: Path, limit: str) -> None:
    done = shell(library, tmp_path / "a.warp", f"ulimit {limit}")
    assert (done.code, done.out) == (5, "out\n"), done.err
    recorded = done.events if (tmp_path / "a.warp" / "manifest.json").is_file() else 0
    assert recorded == 100 or "lost" in done.err or "unrecorded" in done.err


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-", ">/dev/full", "2>/dev/full"])
def test_closed_and_full_standard_streams(library: Path, tmp_path: Path, closed: str) -> None:
    then = ("import errno\ntry: os.write(1, b'out\\n')\nexcept OSError as error: sys.exit(20 + (error.errno == errno.EBADF))\n"
            "sys.exit(5)")  # fmt: skip
    bare = subprocess.run(["bash", "-c", f"{shlex.join([sys.executable, '-c', 'import os, sys; ' + then])} {closed}"],
                          capture_output=True, check=False)  # fmt: skip
    done = shell(library, tmp_path / "a.warp", "", closed, then)
    assert done.code == bare.returncode
    assert done.events == 100


def test_a_stopped_launcher_goes_on(library: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.warp"
    running = subprocess.Popen(launcher("-o", str(path), "--", *program("print('up', flush=True); input(); sys.exit(5)")),
                               env=environment(library), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)  # fmt: skip
    assert running.stdout is not None
    assert running.stdout.readline() == "up\n"
    for _ in range(5):
        running.send_signal(signal.SIGSTOP)
        os.waitpid(running.pid, os.WUNTRACED)
        time.sleep(0.3)  # longer than it waits for a signal at a time
        running.send_signal(signal.SIGCONT)
        os.waitpid(running.pid, os.WCONTINUED)
    _, errors = running.communicate("\n", timeout=TIMEOUT)
    assert (running.returncode, Recorded(5, "", "", path).events) == (5, 100), errors


def test_ctrl_z_and_fg_in_a_shell(library: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.warp"
    then = "print('up', flush=True); input(); sys.exit(5)"
    line = shlex.join(launcher("-q", "-o", str(path), "--", *program(then)))
    # The commands come from a file: bash can lose a character that is typed while a job of its stops.
    script = tmp_path / "script.sh"
    script.write_text(f"{line}\necho stopped=$?\nfg\necho code=$?\n")
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe("bash", ["bash", "--norc", "-m", str(script)], environment(library))
    try:
        _hear(terminal, "up")
        assert 128 < int(_hear(terminal, r"stopped=(\d+)\s", "\x1a")) < 192
        assert _hear(terminal, r"code=(\d+)\s", "\n") == "5"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.close(terminal)
        os.waitpid(pid, 0)
    assert Recorded(5, "", "", path).events == 100


def _hear(terminal: int, wanted: str, typed: str = "") -> str:
    """What the terminal shows, by a pattern; `typed` once a second until it does."""
    seen = ""
    deadline = time.monotonic() + TIMEOUT
    while (found := re.search(wanted, seen)) is None:
        assert time.monotonic() < deadline, seen
        os.write(terminal, typed.encode())
        while select.select([terminal], [], [], 1)[0] and (part := os.read(terminal, 4096)):
            seen += part.decode()
            if re.search(wanted, seen):
                break
    return found[found.lastindex or 0]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting over /dev/shm needs root")
@pytest.mark.parametrize("size", ["64k", "64m"])
def test_a_small_shared_memory_is_left_alone(library: Path, tmp_path: Path, size: str) -> None:
    mount = f"mount -t tmpfs -o size={size} none /dev/shm && head -c 60k /dev/zero > /dev/shm/mine"
    line = f"{mount} && {shlex.join(launcher('-o', str(tmp_path / 'a.warp'), '--', *program(WRITE)))}"
    done = subprocess.run(["unshare", "-m", "bash", "-c", line], env=environment(library), capture_output=True, text=True,
                          timeout=TIMEOUT, check=False)  # fmt: skip
    if "unshare" in done.stderr:
        pytest.skip(f"no namespace of mounts: {done.stderr.strip()}")
    assert (done.returncode, done.stdout) == (5, "out\n"), done.stderr
    assert Recorded(5, "", "", tmp_path / "a.warp").events == 100


@pytest.fixture
def small_group() -> Iterator[Path]:
    """A control group of 256 MB; the file that takes process ids."""
    for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        group = Path(root) / f"warpsight-test-{os.getpid()}"
        with contextlib.suppress(OSError):
            group.mkdir()
            try:
                (group / limit).write_text("268435456")
            except OSError:
                group.rmdir()
                continue
            yield group / "cgroup.procs"
            group.rmdir()
            return
    pytest.skip("no control group for memory can be made here")


def test_a_memory_group_of_256_mb(library: Path, tmp_path: Path, small_group: Path) -> None:
    flood = "import array\nfor i in range(200_000): ws.emit('more', kind='flood', number=i)\nsys.exit(5)"
    done = shell(library, tmp_path / "a.warp", f"echo $$ > {small_group}", "", flood)
    assert done.code == 5, done.err
    assert done.events == 100
    kept = done.sql("SELECT count(*) FROM user_event WHERE kind = 'flood'")[0][0]
    lost = done.sql("SELECT sum(count) FROM loss WHERE severity <> 'note'")[0][0] or 0
    assert kept + lost >= 200_000


IGNORED = "mask = [s for s in open('/proc/self/status') if s.startswith('SigIgn')][0].split()[1]\n"
BLOCKED = "mask = [s for s in open('/proc/self/status') if s.startswith('SigBlk')][0].split()[1]\n"


@pytest.mark.parametrize(
    ("before", "seen", "then"),
    [
        (
            "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
            IGNORED,
            "int(mask, 16) >> (signal.SIGCHLD - 1) & 1",
        ),
        ("signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))", BLOCKED, "int(mask, 16) >> 34 & 1"),
    ],
    ids=["ends of children ignored", "all signals blocked"],
)
def test_signals_as_the_parent_left_them(
    library: Path, tmp_path: Path, before: str, seen: str, then: str
) -> None:
    path = tmp_path / "a.warp"
    command = launcher("-o", str(path), "--", *program(f"import signal\n{seen}sys.exit(5 + ({then}))"))
    parent = f"import os, signal, sys; {before}; os.execv(sys.argv[1], sys.argv[1:])"
    done = subprocess.run([sys.executable, "-c", parent, *command], env=environment(library), capture_output=True, text=True,
                          timeout=TIMEOUT, check=False)  # fmt: skip
    assert done.returncode == 6, done.stderr
    assert Recorded(done.returncode, done.stdout, done.stderr, path).events == 100
