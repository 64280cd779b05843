"""What goes wrong around a recording: the program behaves as without us, and what was recorded before is readable."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.recorded import TIMEOUT, Recorded, environment, launcher, program, record


@pytest.mark.parametrize(
    ("end", "code", "told"),
    [
        ("sys.exit(3)", 3, "exit 3"),
        ("os._exit(4)", 4, "exit 4"),
        ("raise RuntimeError('uncaught')", 1, "exit 1"),
        *((f"os.kill(os.getpid(), {int(number)}); time.sleep(30)", 128 + number, f"signal {int(number)}")
          for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT)),
        ("signal.signal(2, signal.SIG_DFL); os.kill(os.getpid(), 2); time.sleep(30)", 130, "signal 2"),
    ],
)  # fmt: skip
def test_the_programs_end_is_the_launchers(
    library: Path, tmp_path: Path, end: str, code: int, told: str
) -> None:
    done = record(library, tmp_path / "a.warp", program(end))
    assert (done.code, done.events, done.exits) == (code, 100, [told])
    by = signal.Signals(code - 128).name if code > 130 else ""
    assert f"the program was ended by {by}" in done.err if by else "ended by" not in done.err


def test_a_preloaded_librarys_signal_handlers_are_left_to_it(library: Path, tmp_path: Path) -> None:
    """Python cannot put such a handler back once it has replaced it."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (tmp_path / "handlers.c").write_text(
        "#include <signal.h>\nstatic void quiet(int n) {}\n"
        "__attribute__((constructor)) static void begin(void) { signal(SIGUSR1, quiet); signal(SIGINT, quiet); }\n"
    )
    preloaded = tmp_path / "handlers.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", preloaded, tmp_path / "handlers.c"], check=True, timeout=TIMEOUT
    )
    done = record(library, tmp_path / "a.warp", program(), LD_PRELOAD=str(preloaded))
    assert (done.code, done.events) == (0, 100), done.err


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2]
)
def test_a_signal_to_the_launcher_reaches_the_program(
    library: Path, tmp_path: Path, number: signal.Signals
) -> None:
    wait = (f"signal.signal({int(number)}, lambda *_: sys.exit(9))\nprint('ready', flush=True)\n"
            "while True: time.sleep(0.05)")  # fmt: skip
    child = _start(library, tmp_path / "a.warp", program(wait))
    _await_line(child, "ready")
    child.send_signal(number)
    assert child.wait(timeout=TIMEOUT) == 9
    assert _finished(child, tmp_path / "a.warp").events == 100


def test_a_program_that_ignores_sigterm_is_waited_for(library: Path, tmp_path: Path) -> None:
    wait = "signal.signal(15, signal.SIG_IGN)\nprint('ready', flush=True)\nsys.stdin.readline(); sys.exit(6)"
    child = _start(library, tmp_path / "a.warp", program(wait))
    _await_line(child, "ready")
    child.terminate()
    time.sleep(0.5)
    assert child.poll() is None
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.close()
    assert child.wait(timeout=TIMEOUT) == 6
    assert _finished(child, tmp_path / "a.warp").events == 100


def test_what_a_killed_launcher_leaves_is_recovered(library: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.warp"
    wait = "print('ready', flush=True); sys.stdin.readline()\nfor i in range(50): ws.emit('after', kind='after')\nprint('done')"
    child = _start(library, path, program(wait))
    _await_line(child, "ready")
    child.kill()
    child.wait(timeout=TIMEOUT)
    time.sleep(1.5)  # the program notices within half a second and drains for itself
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.close()
    _await_line(child, "done")  # the program went on
    assert child.stdout is not None
    assert child.stdout.read() == ""  # and has ended: nobody holds its output any more
    recover = subprocess.run([sys.executable, "-m", "warpsight.ui.cli", "recover", str(path)], env=environment(library),
                             capture_output=True, text=True, timeout=TIMEOUT, check=False)  # fmt: skip
    assert recover.returncode == 0, recover.stderr
    done = _finished(child, path)
    assert done.events == 100
    assert done.sql("SELECT count(*) FROM user_event WHERE kind = 'after'") == [(50,)]


def test_a_child_forked_without_exec_neither_harms_nor_delays(library: Path, tmp_path: Path) -> None:
    fork = ("pid = os.fork()\nif pid == 0:\n    time.sleep(0.2); os._exit(0)\n"
            "assert os.waitpid(pid, 0)[1] == 0; sys.exit(2)")  # fmt: skip
    done = record(library, tmp_path / "a.warp", program(fork))
    assert (done.code, done.events) == (2, 100)


def test_a_daemon_left_behind_is_waited_for_only_so_long(library: Path, tmp_path: Path) -> None:
    emitted = tmp_path / "emitted"
    daemon = f"import warpsight as ws, time; ws.emit('daemon', kind='daemon'); open({str(emitted)!r}, 'w'); time.sleep(60)"
    # Its output is its own: whoever reads the program's would wait for its end.
    leave = (f"subprocess.Popen([sys.executable, '-c', {daemon!r}], start_new_session=True,"
             " stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
             f"while not os.path.exists({str(emitted)!r}): time.sleep(0.05)")  # fmt: skip
    done = record(library, tmp_path / "a.warp", program(leave), "--wait", "0.5")
    assert done.code == 0
    assert "waiting up to 0.5 s for 1 process" in done.err
    assert done.sql("SELECT count(*) FROM user_event WHERE kind = 'daemon'") == [(1,)]
    assert any(
        "still running" in cause for (cause,) in done.sql("SELECT cause FROM loss WHERE severity = 'ended'")
    )


def test_a_program_that_closes_all_descriptors_goes_on_being_recorded(library: Path, tmp_path: Path) -> None:
    close = "os.closerange(3, 4096); time.sleep(1)\nfor i in range(20): ws.emit('after', kind='after')\n"
    close += "time.sleep(1); os._exit(8)"
    done = record(library, tmp_path / "a.warp", program(close))
    assert (done.code, done.events) == (8, 100)
    assert done.sql("SELECT count(*) FROM user_event WHERE kind = 'after'") == [(20,)]


def test_a_program_without_any_gpu_leaves_an_empty_trace(library: Path, tmp_path: Path) -> None:
    done = record(library, tmp_path / "a.warp", ["true"])
    assert done.code == 0
    assert "no process used a GPU" in done.err
    assert done.sql("SELECT count(*) FROM kernel") == [(0,)]


def test_a_program_that_is_not_there_or_not_executable(library: Path, tmp_path: Path) -> None:
    missing = record(library, tmp_path / "a.warp", ["./no-such-program"])
    plain = tmp_path / "plain"
    plain.write_text("text")
    denied = record(library, tmp_path / "b.warp", [str(plain)])
    assert (missing.code, denied.code) == (127, 126)
    assert "not found" in missing.err
    assert not missing.path.exists()
    assert not denied.path.exists()


def test_an_existing_trace_is_replaced_only_on_request(library: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.warp"
    assert record(library, path, program()).code == 0
    refused = record(library, path, program("print('ran')"))
    assert (refused.code, refused.out) == (1, "")
    assert "-f" in refused.err
    assert Recorded(0, "", "", path).events == 100
    assert record(library, path, program(), "-f").code == 0


def test_force_does_not_remove_what_is_no_trace(library: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("years of work")
    assert record(library, mine, program(), "-f").code == 1
    assert (mine / "thesis.tex").exists()


def test_output_through_a_link_or_without_a_parent_is_refused(library: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link.warp").symlink_to(tmp_path / "elsewhere")
    link = record(library, tmp_path / "link.warp", program("print('ran')"), "-f")
    orphan = record(library, tmp_path / "no" / "a.warp", program("print('ran')"))
    assert (link.code, orphan.code) == (1, 1)
    assert "symbolic link" in link.err
    assert "does not exist" in orphan.err
    assert link.out == orphan.out == ""


@pytest.fixture
def small_disk(tmp_path: Path):
    """A file system of 2 MB."""
    place = tmp_path / "small"
    place.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", place], check=False).returncode
    ):
        pytest.skip("mounting a small file system needs root")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_a_read_only_place_is_refused_before_the_program_runs(library: Path, small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    done = record(library, small_disk / "a.warp", program("print('ran')"))
    assert (done.code, done.out) == (1, "")
    assert "read-only" in done.err


def test_a_disk_that_fills_up_costs_rows_but_not_the_program(library: Path, small_disk: Path) -> None:
    flood = ("import random\nfor i in range(60000): ws.emit(random.randbytes(24).hex(), kind='noise')\n"
             "time.sleep(1); print('went on'); sys.exit(11)")  # fmt: skip
    done = record(library, small_disk / "a.warp", program(flood), "--sample", "off")
    assert (done.code, done.out) == (11, "went on\n")
    assert "no space left" in done.err.lower()


@pytest.mark.parametrize("code", [0, 12])
def test_a_killed_converter_is_replaced(library: Path, tmp_path: Path, code: int) -> None:
    path = tmp_path / "a.warp"
    kill = ("parent = os.getppid()\n"
            "kids = [k for k in open(f'/proc/{parent}/task/{parent}/children').read().split() if int(k) != os.getpid()]\n"
            "[os.kill(int(k), 9) for k in kids if b'capture.converter' in open(f'/proc/{k}/cmdline', 'rb').read()]\n"
            f"sys.exit({code})")  # fmt: skip
    done = record(library, path, program(kill))
    assert done.code == code
    assert done.events == 100


def _start(library: Path, path: Path, command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(launcher("-o", str(path), "--", *command), env=environment(library), text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # fmt: skip


def _await_line(child: subprocess.Popen[str], line: str) -> None:
    assert child.stdout is not None
    assert child.stdout.readline() == line + "\n"


def _finished(child: subprocess.Popen[str], path: Path) -> Recorded:
    for pipe in (child.stdin, child.stdout):
        if pipe is not None and not pipe.closed:
            pipe.close()
    return Recorded(child.returncode, "", "", path)
