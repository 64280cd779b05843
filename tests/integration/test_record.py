"""`warpsight record`: options, output, what the summary says, several processes in one trace."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

import warpsight.model
from tests.integration.recorded import PROGRAM, TIMEOUT, Recorded, environment, launcher, program, record


def test_events_of_a_program_are_in_the_trace(library: Path, tmp_path: Path) -> None:
    done = record(library, tmp_path / "a.warp", program())
    assert (done.code, done.events, done.exits) == (0, 100, ["exit 0"])
    assert "recorded" in done.err
    assert "1 process" in done.err
    assert done.out == ""


def test_without_a_name_the_trace_is_the_programs_and_an_earlier_one_is_replaced_only_with_force(
    library: Path, tmp_path: Path
) -> None:
    manifest = tmp_path / "true.warp" / "manifest.json"

    def record(*options: str) -> None:
        command = [sys.executable, "-m", "warpsight", "record", *options, "--", "true"]
        done = subprocess.run(command, cwd=tmp_path, env=environment(library), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    record()
    first = manifest.stat().st_mtime_ns
    record()
    assert sorted(found.name for found in tmp_path.iterdir()) == ["true-2.warp", "true.warp"]
    assert manifest.stat().st_mtime_ns == first
    record("-f")
    assert manifest.stat().st_mtime_ns > first
    assert sorted(found.name for found in tmp_path.iterdir()) == ["true-2.warp", "true.warp"]


def test_nothing_of_the_recording_remains_beside_the_trace(library: Path, tmp_path: Path) -> None:
    done = record(library, tmp_path / "a.warp", program())
    left = {entry.name for entry in done.path.iterdir() if not entry.name.startswith("table=")}
    assert left == {"manifest.json"}
    assert stat.S_IMODE(done.path.stat().st_mode) == 0o700
    assert stat.S_IMODE((done.path / "manifest.json").stat().st_mode) == 0o600


def test_settings_and_cost_are_in_the_manifest(library: Path, tmp_path: Path) -> None:
    done = record(
        library, tmp_path / "a.warp", program(), "--stacks", "off", "--counters", "off", "--sample", "off"
    )
    with warpsight.model.open(done.path) as trace:
        settings, overhead = trace.manifest["settings"], trace.manifest["overhead"]
    assert (settings["stacks"], settings["counters"], settings["sample"]) == ("off", "off", 0)
    assert settings["command"][0] == sys.executable
    assert overhead["launcher_cpu_ns"] > 0
    assert done.sql("SELECT count(*) FROM sample") == [(0,)]
    assert done.sql("SELECT count(stack) FROM user_event") == [(0,)]


def test_the_program_is_sampled_from_outside(library: Path, tmp_path: Path) -> None:
    busy = "\ndef spin():\n    end = time.monotonic() + 2\n    while time.monotonic() < end: pass\nspin()"
    done = record(library, tmp_path / "a.warp", program(busy))
    found = done.sql("SELECT count(*) FROM sample s JOIN stack k ON s.stack = k.id JOIN frame f ON k.frame = f.id "
                     "WHERE f.function LIKE '%spin%'")  # fmt: skip
    assert found[0][0] > 5


def test_stdin_stdout_and_inherited_descriptors_are_the_programs(library: Path, tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"from outside")
    os.close(writer)
    child = [sys.executable, "-c", f"import os, sys; print(sys.stdin.read(), os.read({reader}, 99))"]
    done = subprocess.run(launcher("-q", "-o", str(tmp_path / "a.warp"), "--", *child), input="piped", capture_output=True,
                          text=True, timeout=TIMEOUT, env=environment(library), pass_fds=(reader,), check=False)  # fmt: skip
    os.close(reader)
    assert done.stdout == "piped b'from outside'\n"
    assert done.stderr == ""


def test_double_dash_is_optional_and_options_behind_the_program_are_its_own(
    library: Path, tmp_path: Path
) -> None:
    command = launcher("-o", str(tmp_path / "a.warp"), "echo", "--stacks", "-q")
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT, env=environment(library), check=False
    )
    assert done.stdout == "--stacks -q\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--stack"], "--stack"),
        (["--stacks", "perl"], "--stacks must be one of"),
        (["--sample", "often"], "--sample must be a number"),
        (["--counters", "-3"], "--counters takes"),
        (["--stack-depth", "0"], "--stack-depth"),
        ([], "no program"),
    ],
)
def test_wrong_options_are_usage_errors_and_leave_nothing(
    library: Path, tmp_path: Path, options: list[str], message: str
) -> None:
    command = launcher("-o", "a.warp", *options, *(["--", "true"] if options else []))
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, env=environment(library), cwd=tmp_path,
                          check=False)  # fmt: skip
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_options_can_come_from_the_environment(library: Path, tmp_path: Path) -> None:
    done = record(library, tmp_path / "a.warp", program(), WARPSIGHT_STACKS="off", WARPSIGHT_SAMPLE="off")
    assert done.sql("SELECT count(stack) FROM user_event") == [(0,)]


def test_another_tools_injection_is_not_overwritten(library: Path, tmp_path: Path) -> None:
    done = record(library, tmp_path / "a.warp", program(), CUDA_INJECTION64_PATH="/opt/other/libtool.so")
    assert done.code == 2
    assert "/opt/other/libtool.so" in done.err
    assert not done.path.exists()


def test_delay_and_for_bound_what_is_recorded(library: Path, tmp_path: Path) -> None:
    talk = "\nwhile time.monotonic() < begin + 6:\n    ws.emit('late', kind='late'); time.sleep(0.01)"
    done = record(
        library,
        tmp_path / "a.warp",
        program("begin = time.monotonic()" + talk),
        "--delay",
        "4",
        "--for",
        "0.5",
    )
    assert done.code == 0
    assert done.events == 0
    ((count, span),) = done.sql(
        "SELECT count(*), max(start) - min(start) FROM user_event WHERE kind = 'late'"
    )
    assert count > 0
    assert span < 2e9


def test_a_bounded_trace_ends_while_the_program_goes_on(library: Path, tmp_path: Path) -> None:
    talk = (
        "import random\nbegin = time.monotonic()\n"
        "while ws.statistics() and time.monotonic() < begin + 20:\n"
        "    for i in range(2000): ws.emit(random.randbytes(16).hex(), kind='noise', x=random.random())\n"
        "print('went on')"
    )
    done = record(library, tmp_path / "a.warp", program(talk), "--max-size", "1", "--sample", "off")
    assert done.code == 0
    assert done.out == "went on\n"
    assert any(
        "--max-size" in cause for (cause,) in done.sql("SELECT cause FROM loss WHERE severity = 'ended'")
    )


def test_strict_tells_loss_only_where_the_program_succeeded(library: Path, tmp_path: Path) -> None:
    emitted = tmp_path / "emitted"
    daemon = f"import warpsight as ws, time; ws.emit('x'); open({str(emitted)!r}, 'w'); time.sleep(60)"
    slow = (f"subprocess.Popen([sys.executable, '-c', {daemon!r}],"
            " stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"  # else its end would be waited for by who reads them
            f"while not os.path.exists({str(emitted)!r}): time.sleep(0.05)\nsys.exit({{}})")  # fmt: skip
    good = record(library, tmp_path / "a.warp", program(slow.format(0)), "--strict", "--wait", "0.1")
    emitted.unlink()
    bad = record(library, tmp_path / "b.warp", program(slow.format(7)), "--strict", "--wait", "0.1")
    assert (good.code, bad.code) == (3, 7)


def test_children_of_all_kinds_are_in_the_same_trace(library: Path, tmp_path: Path) -> None:
    script = tmp_path / "main.py"
    script.write_text(
        "import multiprocessing, subprocess, sys, os\nimport warpsight as ws\n"
        "def work(name):\n    ws.emit(name, kind='worker')\n"
        "if __name__ == '__main__':\n"
        "    ws.emit('main', kind='worker')\n"
        "    for method in ('spawn', 'fork'):\n"
        "        p = multiprocessing.get_context(method).Process(target=work, args=(method,)); p.start(); p.join()\n"
        "        assert p.exitcode == 0\n"
        "    subprocess.run([sys.executable, '-c', \"import warpsight as ws; ws.emit('sub', kind='worker')\"], check=True)\n"
        "    os.execv(sys.executable, [sys.executable, '-c', \"import warpsight as ws; ws.emit('exec', kind='worker')\"])\n"
    )
    done = record(library, tmp_path / "a.warp", [sys.executable, str(script)])
    names = {name for (name,) in done.sql("SELECT name FROM user_event WHERE kind = 'worker'")}
    assert done.code == 0
    assert names == {"main", "spawn", "fork", "sub", "exec"}
    assert "exec" in done.exits


def test_a_nested_record_joins(library: Path, tmp_path: Path) -> None:
    inner = launcher("-o", str(tmp_path / "inner.warp"), "--", *program())
    done = record(library, tmp_path / "outer.warp", inner)
    assert (done.code, done.events) == (0, 100)
    assert not (tmp_path / "inner.warp").exists()
    assert "joins the enclosing recording, which has its own options: -o given here has no effect" in done.err


def test_a_nested_record_says_which_of_its_options_are_the_outer_ones(library: Path, tmp_path: Path) -> None:
    inner = launcher("--strict", "--export", "chrome", "--max-size", "5", "--", *program())
    done = record(library, tmp_path / "outer.warp", inner)
    assert (done.code, done.events) == (0, 100)
    assert "--export, --strict, --max-size given here have no effect" in done.err
    plain = record(library, tmp_path / "plain.warp", launcher("--", *program()), WARPSIGHT_STRICT="1")
    assert plain.code == 0 and "no effect" not in plain.err


def test_ranks_of_a_job_give_one_trace(library: Path, tmp_path: Path) -> None:
    path = tmp_path / "job.warp"
    ranks = [
        subprocess.Popen(
            launcher("-o", str(path), "-f", "--", *program(f"time.sleep({1 + rank}); sys.exit({rank})")),
            env=environment(library, TORCHELASTIC_RUN_ID="job-1", RANK=str(rank), WORLD_SIZE="2"),
            stderr=subprocess.PIPE,
        )
        for rank in range(2)
    ]
    codes = [rank.wait(timeout=TIMEOUT) for rank in ranks]
    for rank in ranks:
        assert rank.stderr is not None
        rank.stderr.close()
    done = Recorded(0, "", "", path)
    assert codes == [0, 1]
    assert done.events == 200
    assert sorted(done.sql("SELECT rank FROM process")) == [(0,), (1,)]


def test_variables_of_print_env_record_what_a_shell_starts(library: Path, tmp_path: Path) -> None:
    path = tmp_path / "shell.warp"
    helper = tmp_path / "program.py"
    helper.write_text(PROGRAM)
    record_line = f"{sys.executable} -m warpsight.ui.cli record --print-env -o {path}"
    script = f'set -e; eval "$({record_line})"; {sys.executable} {helper}; {sys.executable} {helper}'
    subprocess.run(
        ["bash", "-c", script],
        env=environment(library),
        timeout=TIMEOUT,
        check=True,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + TIMEOUT
    while not (path / "manifest.json").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert Recorded(0, "", "", path).events == 200


def test_interrupt_from_the_terminal_reaches_the_program_once(library: Path, tmp_path: Path) -> None:
    counting = (
        "hits = []\nsignal.signal(signal.SIGINT, lambda *_: hits.append(1))\nprint('ready', flush=True)\n"
        "end = time.monotonic() + 30\nwhile not hits and time.monotonic() < end: time.sleep(0.05)\n"
        "time.sleep(1); print(len(hits), flush=True); sys.exit(5)"
    )
    master, slave = os.openpty()
    child = subprocess.Popen(launcher("-o", str(tmp_path / "a.warp"), "--", *program(counting)), env=environment(library),
                             stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             preexec_fn=_own_terminal)  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    os.write(master, b"\x03")
    out, _ = child.communicate(timeout=TIMEOUT)
    os.close(master)
    os.close(slave)
    assert (out, child.returncode) == ("1\n", 5)


def _own_terminal() -> None:
    import fcntl
    import termios

    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
