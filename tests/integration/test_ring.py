"""The flight recorder: what a window holds, what triggers it, what stays on disk."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import warpsight.model
from tests.integration import standin_programs
from tests.integration.recorded import TIMEOUT, program
from tests.integration.standin_programs import Standin, child_named, until
from warpsight.errors import UsageError
from warpsight.recorder.ring import bound, triggers

#: Lets the program run until its first trace is written.
WAIT = """
import glob
end = time.monotonic() + 60
while not glob.glob({pattern!r}) and time.monotonic() < end:
    time.sleep(0.05)
"""
QUIET = ("--sample", "off", "--counters", "off")


@pytest.fixture(scope="module")
def standin(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Standin:
    return standin_programs.build(library, tmp_path_factory.mktemp("standin"))


def traces(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*-0*.warp") if (path / "manifest.json").is_file())


def then_wait(folder: Path, what: str) -> list[str]:
    """A program that does something and runs on until a trace of it is written."""
    return program(what + WAIT.format(pattern=str(folder / "*-001-*.warp" / "manifest.json")))


def test_only_the_last_seconds_are_kept_and_they_are_whole(standin: Standin, tmp_path: Path) -> None:
    steps = standin.program(
        "init", "launch:early:500", "sync", "rate:late:1000:7000", "launch:last:100", "sync"
    )
    done = standin.run("record", "-q", *QUIET, "--ring", "2s", "-o", str(tmp_path / "r.warp"), "--", *steps)
    assert done.returncode == 0, done.stderr
    with warpsight.model.open(tmp_path / "r.warp") as trace:
        counts = dict(trace.sql("SELECT name, count(*) FROM kernel GROUP BY 1").fetchall())
        joined, launches = trace.sql(
            "SELECT count(k.correlation), count(*) FROM launch l LEFT JOIN kernel k USING (process, correlation)"
        ).fetchall()[0]
        first, last = trace.sql("SELECT min(start), max(start) FROM launch").fetchall()[0]
        window, losses = trace.manifest["window"], trace.manifest["loss"]
    assert "early" not in counts
    assert counts["last"] == 100
    assert joined == launches
    assert 2e9 < last - first < 6.9e9
    assert window["reason"] == "the program ended"
    assert not [one for one in losses if one["severity"] != "note"]


def test_raw_data_stays_under_a_size(standin: Standin, tmp_path: Path) -> None:
    folder = tmp_path / "r.warp"
    steps = standin.program("init", "rate:work:40000:4000", "sync")
    running = standin.start("record", "-q", *QUIET, "--ring", "30s,8MB", "-o", str(folder), "--", *steps)
    most = 0
    while running.poll() is None:
        with contextlib.suppress(FileNotFoundError):  # what is listed may be removed
            most = max(most, sum(path.stat().st_size for path in (folder / "raw").rglob("data-*.seg")))
        time.sleep(0.1)
    assert running.returncode == 0
    one_second = 40_000 * 128
    assert one_second < most < 8_000_000 + 3 * one_second  # 20 MB were written
    with warpsight.model.open(folder) as trace:
        assert trace.manifest["window"]["short"]
        assert any("cut short" in one["cause"] for one in trace.manifest["loss"])


def test_a_program_asks_for_a_trace(standin: Standin, tmp_path: Path) -> None:
    command = then_wait(tmp_path, "ws.trigger('loss is nan')")
    done = standin.run("record", "-q", "--ring", "30s", "-o", str(tmp_path / "r.warp"), "--", *command)
    assert done.returncode == 0, done.stderr
    (made,) = traces(tmp_path)
    assert made.name == "r-001-program.warp"
    with warpsight.model.open(made) as trace:
        assert trace.manifest["window"]["reason"] == "program: loss is nan"
        assert trace.count("user_event") == 100


def test_a_command_and_a_signal_write_traces_while_the_program_runs(standin: Standin, tmp_path: Path) -> None:
    folder = tmp_path / "r.warp"
    steps = standin.program("init", "launch:work:1000", "sync", "rate:more:100:60000")
    running = standin.start("record", "-q", *QUIET, "--ring", "30s", "-o", str(folder), "--", *steps)
    pid = child_named(running.pid, "program")
    until(lambda: list((folder / "raw").rglob("data-*.seg")), "the first segment")
    answer = standin.run("trigger", str(pid), "--reason", "by hand", "--json")
    made = Path(json.loads(answer.stdout)["path"])
    with warpsight.model.open(made) as trace:
        assert trace.sql(
            "SELECT count(*) FROM kernel WHERE name = 'work' AND start IS NOT NULL"
        ).fetchall() == [(1000,)]
        assert trace.manifest["window"]["reason"] == "by hand"
    running.send_signal(signal.SIGUSR2)
    until(lambda: len(traces(tmp_path)) == 2, "the trace of the signal")
    running.send_signal(signal.SIGTERM)
    assert running.wait(TIMEOUT) == 128 + signal.SIGTERM
    assert [path.name for path in traces(tmp_path)] == ["r-001-by-hand.warp", "r-002-signal.warp"]


def test_a_slow_step_is_noticed(standin: Standin, tmp_path: Path) -> None:
    slow = "for n in range(30):\n    with ws.annotate('step'): time.sleep(0.5 if n == 20 else 0.005)"
    options = ("--ring", "30s", "--trigger", "slow-step=5:step", "-o", str(tmp_path / "r.warp"))
    done = standin.run("record", "-q", *options, "--", *then_wait(tmp_path, slow))
    assert done.returncode == 0, done.stderr
    (made,) = traces(tmp_path)
    with warpsight.model.open(made) as trace:
        assert trace.manifest["window"]["reason"].startswith("slow step: step took ")


def test_a_slow_iteration_is_noticed(standin: Standin, tmp_path: Path) -> None:
    slow = "for n in range(30):\n    time.sleep(0.5 if n == 20 else 0.005); ws.step()"
    options = ("--ring", "30s", "--trigger", "slow-step=5", "-o", str(tmp_path / "r.warp"))
    done = standin.run("record", "-q", *options, "--", *then_wait(tmp_path, slow))
    assert done.returncode == 0, done.stderr
    (made,) = traces(tmp_path)
    with warpsight.model.open(made) as trace:
        assert trace.manifest["window"]["reason"].startswith("slow step: iteration took ")


def test_a_worker_that_crashes_leaves_a_trace_while_the_program_goes_on(
    standin: Standin, tmp_path: Path
) -> None:
    worker = "import warpsight as ws, os, time; ws.emit('in worker'); time.sleep(1.5); os.abort()"
    command = then_wait(tmp_path, f"subprocess.run([sys.executable, '-c', {worker!r}])")
    done = standin.run("record", "-q", "--ring", "30s", "-o", str(tmp_path / "r.warp"), "--", *command)
    assert done.returncode == 0, done.stderr
    (made,) = traces(tmp_path)
    with warpsight.model.open(made) as trace:
        reason = trace.manifest["window"][
            "reason"
        ]  # which signal, only if its parent has not yet waited for it
        assert re.fullmatch(
            r"crash: process \d+ (ended by signal 6|was killed, aborted or left by _exit)", reason
        )
        assert trace.sql("SELECT count(*) FROM user_event WHERE name = 'in worker'").fetchall() == [(1,)]


def test_an_nccl_timeout_is_what_pytorch_writes(standin: Standin, tmp_path: Path) -> None:
    command = then_wait(tmp_path, "open(os.environ['TORCH_FR_DUMP_TEMP_FILE'] + '0', 'w').write('x')")
    done = standin.run("record", "-q", "--ring", "30s", "-o", str(tmp_path / "r.warp"), "--", *command)
    assert done.returncode == 0, done.stderr
    (made,) = traces(tmp_path)
    assert made.name == "r-001-nccl-timeout.warp"


def test_a_hang_is_a_trigger_and_a_long_kernel_below_the_limit_is_not(
    standin: Standin, tmp_path: Path
) -> None:
    steps = standin.program(
        "init", "stuck:1000", "sync", "launch:work:50", "sync", "stuck:9000", "sync", "launch:after:5", "sync"
    )
    options = ("--ring", "30s", "--trigger", "hang=3", "-o", str(tmp_path / "r.warp"))
    done = standin.run("record", "-q", *QUIET, *options, "--", *steps)
    assert done.returncode == 0, done.stderr
    (made,) = traces(tmp_path)
    assert made.name == "r-001-hang.warp"
    with warpsight.model.open(made) as trace:
        names = dict(trace.sql("SELECT name, count(start) FROM kernel GROUP BY 1").fetchall())
    assert names["work"] == 50
    assert "after" not in names


@pytest.mark.slow
def test_names_made_for_ever_do_not_grow_the_definitions(standin: Standin, tmp_path: Path) -> None:
    folder = tmp_path / "r.warp"
    then = ("for n in range(250_000):\n    ws.mark(f'step {n}')\n"
            "end = time.monotonic() + 20\nn = 0\n"
            "while time.monotonic() < end:\n    n += 1; ws.mark(f'late {n}'); time.sleep(0.001)")  # fmt: skip
    running = standin.start(
        "record", "-q", *QUIET, "--stacks", "off", "--ring", "1s", "-o", str(folder), "--", *program(then)
    )
    sizes = []
    while running.poll() is None:
        with contextlib.suppress(FileNotFoundError):  # what is listed may be removed
            sizes.append(sum(path.stat().st_blocks * 512 for path in (folder / "raw").rglob("definitions-*")))
        time.sleep(0.25)
    assert running.returncode == 0, running.stderr
    assert max(sizes) > 5_000_000  # 250,000 texts, most of one row each
    assert sizes[-1] < 0.5 * max(sizes)  # of which those that were written for one event are gone
    with warpsight.model.open(folder) as trace:
        unnamed = trace.sql("SELECT count(*) FROM user_event WHERE name IS NULL OR name = ''").fetchall()
        late = trace.sql("SELECT count(*) FROM user_event WHERE name LIKE 'late %'").fetchall()
    assert unnamed == [(0,)]
    assert late[0][0] > 100


@pytest.mark.parametrize("text", ["", "soon", "10", "500kB,x", "0.1s", "-5s", "1TB"])
def test_a_ring_of_no_size_is_refused(text: str) -> None:
    if text == "10":
        assert bound.parse(text).seconds == 10
        return
    with pytest.raises(UsageError):
        bound.parse(text)


def test_triggers_that_do_not_exist_are_refused() -> None:
    assert triggers.parse(("hang=90s", "slow-step=4:epoch*")).slow_pattern == "epoch*"
    for wrong in ("sometimes", "crash=1", "slow-step=0.5", "hang=soon"):
        with pytest.raises(UsageError):
            triggers.parse((wrong,))


def test_triggers_come_from_the_environment_too(tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "warpsight",
        "record",
        "-o",
        str(tmp_path / "t.warp"),
        "--ring",
        "30s",
        "--",
        "true",
    ]
    environment = {**os.environ, "WARPSIGHT_TRIGGER": "crash,sometimes"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert done.returncode == 2
    assert "sometimes" in done.stderr
