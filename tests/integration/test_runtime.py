"""The native runtime in real processes: handshake, control word, exit, death, fork, a launcher that dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.launcher_stand_in import RECORD, STOP, Launcher, finish, line, say, wait_until
from tests.unit.native import segment_reader

START = "assert ws.ws_start(None) == 0\n"
COUNTERS = """
def count(n, name=b'x'):
    for i in range(n):
        ws.ws_counter(name, ctypes.c_double(i), b'1', -1)
"""


@pytest.fixture
def launcher(library: Path) -> Iterator[Launcher]:
    """A launcher that dies with its programs."""
    launcher = Launcher(library)
    yield launcher
    launcher.close()


def values(recording: segment_reader.Recording, name: str = "x") -> list[float]:
    """The values of one counter in the order they were written."""
    return [row["value"] for row in recording["Counter"] if recording.strings[int(row["name"])] == name]


def test_everything_a_program_wrote_is_in_its_segments(launcher: Launcher) -> None:
    program = launcher.start(
        START
        + COUNTERS
        + """
count(5000)
ws.ws_push(b'outer', None); ws.ws_push(b'inner', b'{"step": 1}'); ws.ws_pop(); ws.ws_pop()
ws.ws_emit(b'event', ctypes.c_uint64(5), ctypes.c_uint64(7), b'kind', None)
ws.ws_instant(b'why', b'warpsight.trigger')
ws.ws_memory(1, ctypes.c_uint64(4096), ctypes.c_uint64(64), b'pool', b'tag', 3, 0)
"""
    )
    recorded = launcher.accept()
    finish(program)
    recording = launcher.drain(recorded)
    assert values(recording) == list(range(5000))
    markers = [
        (r["phase"], r["id"], r["source"], recording.strings.get(int(r["name"]))) for r in recording["Marker"]
    ]
    assert markers == [
        (1, 0, 2, "outer"),
        (1, 1, 2, "inner"),
        (2, 1, 2, None),
        (2, 0, 2, None),
        (5, 0, 2, "why"),
    ]
    event = recording["UserEvent"][0]
    assert (event["start"], event["duration"], recording.strings[int(event["kind"])]) == (5, 7, "kind")
    assert [(r["operation"], r["address"], r["bytes"], r["category"]) for r in recording["Memory"]] == [
        (1, 4096, 64, 3)
    ]
    assert recording.losses() == []
    assert recording.pids == {program.pid}


def test_process_thread_and_clock_rows_say_who_recorded(launcher: Launcher) -> None:
    extra = {"RANK": "3", "WORLD_SIZE": "8", "CUDA_TEST": "yes", "SLURM_JWT": "secret", "PRIVATE": "secret"}
    program = launcher.start(
        START
        + """
def work():
    ctypes.CDLL(None).prctl(15, b'worker', 0, 0, 0)
    ws.ws_counter(b'x', ctypes.c_double(1), b'1', -1)
thread = threading.Thread(target=work); thread.start(); thread.join()
""",
        extra,
    )
    recorded = launcher.accept()
    finish(program)
    recording = launcher.drain(recorded)
    (process,) = recording["Process"]
    text = {
        name: recording.strings.get(int(process[name]), "")
        for name in ("command", "environment", "executable")
    }
    assert (process["pid"], process["parent"], process["rank"], process["world_size"]) == (
        program.pid,
        os.getpid(),
        3,
        8,
    )
    assert text["command"].split("\0")[:2] == [sys.executable, "-c"]
    assert "CUDA_TEST=yes\n" in text["environment"]
    assert "secret" not in text["environment"]
    assert Path(text["executable"]).exists()
    names = {recording.strings[int(row["name"])] for row in recording["Thread"]}
    assert {"worker", "warpsight"} <= names
    assert len(recording["Clock"]) >= 2
    assert all(row["realtime"] > row["monotonic"] > 0 for row in recording["Clock"])


def test_the_control_word_starts_and_stops_recording(launcher: Launcher) -> None:
    program = launcher.start(
        START
        + COUNTERS
        + """
for name in iter(sys.stdin.readline, ''):
    count(10, name.strip().encode()); print(ws.ws_recording(), flush=True)
""",
        {"WARPSIGHT": "dormant"},
    )
    recorded = launcher.accept()
    say(program, "dormant")
    assert line(program) == "0"
    for control, name, answer in ((RECORD, "on", "1"), (0, "off", "0"), (RECORD, "again", "1")):
        recorded.set_header("control", control)
        wait_until(lambda c=control: recorded.header("control_ack") == c, "the control word is followed")
        say(program, name)
        assert line(program) == answer
    finish(program)
    recording = launcher.drain(recorded)
    assert [len(values(recording, n)) for n in ("dormant", "on", "off", "again")] == [0, 10, 0, 10]
    assert recorded.header("state") == 4


def test_stop_ends_the_recording_and_another_can_follow_in_the_same_process(launcher: Launcher) -> None:
    program = launcher.start(
        COUNTERS
        + """
for round in range(3):
    assert ws.ws_start(None) == 0
    count(10, b'round')
    assert ws.ws_stop() == 0 and ws.ws_recording() == 0
    count(10, b'between')
"""
    )
    recorded = [launcher.accept() for _ in range(3)]
    finish(program)
    recordings = [launcher.drain(each) for each in recorded]
    assert [values(r, "round") for r in recordings] == [list(range(10))] * 3
    assert [values(r, "between") for r in recordings] == [[]] * 3
    assert len({arena for r in recordings for arena in r.arenas}) == 3
    assert all(each.header("state") == 3 for each in recorded)


def test_a_stop_from_the_launcher_closes_the_connection(launcher: Launcher) -> None:
    program = launcher.start(
        START + "print(flush=True); sys.stdin.readline(); print(ws.ws_recording(), flush=True)"
    )
    recorded = launcher.accept()
    line(program)
    recorded.set_header("control", STOP)
    assert recorded.connection.recv(16) == b""
    say(program)
    assert finish(program)[0].strip() == "0"


def test_a_flush_request_is_answered(launcher: Launcher) -> None:
    program = launcher.start(START + "sys.stdin.readline()")
    recorded = launcher.accept()
    recorded.set_header("flush_request", 7)
    wait_until(lambda: recorded.header("flush_done") == 7, "the flush is done")
    say(program)
    finish(program)


@pytest.mark.parametrize(
    "end", ["os.kill(os.getpid(), 9)", "os._exit(3)", "os.kill(os.getpid(), 11)", "os.abort()"]
)
def test_a_sudden_end_keeps_every_committed_row(launcher: Launcher, end: str) -> None:
    program = launcher.start(START + COUNTERS + "count(3000)\n" + end)
    recorded = launcher.accept()
    program.wait(60)
    assert program.returncode in (-signal.SIGKILL, 3, -signal.SIGSEGV, -signal.SIGABRT)
    assert values(launcher.drain(recorded)) == list(range(3000))


def test_exit_codes_and_signal_masks_stay_the_programs_own(launcher: Launcher) -> None:
    program = launcher.start(
        START
        + """
import signal
print(signal.pthread_sigmask(signal.SIG_BLOCK, []) == set(), flush=True)
sys.exit(42)
"""
    )
    launcher.accept()
    assert finish(program, 42)[0].strip() == "True"


def test_threads_of_the_recorder_leave_the_programs_signals_alone_but_not_their_own_faults(
    launcher: Launcher,
) -> None:
    """A thread that has blocked its own SIGSEGV is killed without the program's handler, or a core file's reason."""
    program = launcher.start(
        START
        + """
import glob
def line(path, key):
    return next(line.split()[1] for line in open(path) if line.startswith(key))
own = [path for path in glob.glob("/proc/self/task/*/status") if line(path, "Name").startswith("warpsight")]
masks = {int(line(path, "SigBlk"), 16) for path in own}
number = lambda name: 1 << signal.Signals[name] - 1
import signal
print(len(own), all(mask & number(name) for mask in masks for name in ("SIGINT", "SIGTERM", "SIGUSR1", "SIGCHLD", "SIGPROF")),
      any(mask & number(name) for mask in masks for name in ("SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE")), flush=True)
"""
    )
    launcher.accept()
    threads, blocks, blocks_faults = finish(program)[0].split()
    assert int(threads) >= 1
    assert (blocks, blocks_faults) == ("True", "False")


def test_a_forked_child_writes_nothing_and_exits_as_ever(launcher: Launcher) -> None:
    program = launcher.start(
        START
        + COUNTERS
        + """
count(100)
for i in range(20):
    pid = os.fork()
    if pid == 0:
        count(100, b'child'); ws.ws_push(b'child', None)
        assert ws.ws_recording() == 0 and ws.ws_statistics(0) == 0
        sys.exit(i)
    assert os.waitpid(pid, 0)[1] == i << 8
count(100)
"""
    )
    recorded = launcher.accept()
    finish(program)
    recording = launcher.drain(recorded)
    assert values(recording) == list(range(100)) * 2
    assert values(recording, "child") == []
    assert recording.pids == {program.pid}
    assert launcher.nobody_connects()


def test_a_forked_child_can_start_a_recording_of_its_own(launcher: Launcher) -> None:
    program = launcher.start(
        START
        + COUNTERS
        + """
count(10)
pid = os.fork()
if pid == 0:
    assert ws.ws_start(None) == 0
    count(20)
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
count(10)
"""
    )
    parent, child = launcher.accept(), launcher.accept()
    finish(program)
    assert values(launcher.drain(parent)) == list(range(10)) * 2
    assert values(launcher.drain(child)) == list(range(20))
    assert parent.pid == program.pid != child.pid


def test_fork_and_exec_records_the_new_program_by_itself(launcher: Launcher) -> None:
    inner = (
        "import ctypes, os; ws = ctypes.CDLL(os.environ['WARPSIGHT_LIBRARY']); "
        "ws.ws_start(None); ws.ws_push(b'inner', None)"
    )
    program = launcher.start(
        START
        + f"""
import subprocess
ws.ws_push(b'outer', None)
assert subprocess.call([sys.executable, '-c', {inner!r}]) == 0
"""
    )
    outer, new = launcher.accept(), launcher.accept()
    finish(program)
    assert [r["source"] for r in launcher.drain(outer)["Marker"]] == [2]
    assert [r["source"] for r in launcher.drain(new)["Marker"]] == [2]


def test_the_process_drains_itself_when_the_launcher_dies(launcher: Launcher) -> None:
    program = launcher.start(
        START
        + COUNTERS
        + """
count(1000); print(flush=True); sys.stdin.readline()
count(100000, b'later')
"""
    )
    recorded = launcher.accept()
    line(program)
    handle = launcher.drainer(recorded)
    launcher.native.ws_drain_poll(handle, 1)  # then this launcher is never heard of again
    recorded.connection.close()
    wait_until(lambda: recorded.header("drainer") == program.pid, "the process drains its own rings")
    say(program)
    finish(program)
    recording = launcher.read(recorded)
    assert values(recording) == list(range(1000))
    assert (
        len(values(recording, "later"))
        + sum(count for _, cause, count in recording.losses() if "full" in cause)
        == 100000
    )
    assert any("launcher is gone" in cause for _, cause, _ in recording.losses())
    assert not list((launcher.raw / recorded.arena).glob("*.open"))


def test_a_launcher_that_dies_before_it_ever_drained_loses_nothing(launcher: Launcher) -> None:
    program = launcher.start(START + COUNTERS + "count(1000); print(flush=True); sys.stdin.readline()")
    recorded = launcher.accept()
    line(program)
    recorded.connection.close()
    wait_until(lambda: recorded.header("drainer") == program.pid, "the process drains its own rings")
    say(program)
    finish(program)
    assert values(launcher.read(recorded)) == list(range(1000))


def test_without_a_launcher_everything_is_a_no_op_and_no_descriptor_leaks(library: Path) -> None:
    code = """
import ctypes, os, sys
before = set(os.listdir('/proc/self/fd'))
ws = ctypes.CDLL(os.environ['WARPSIGHT_LIBRARY'])
threads = len(os.listdir('/proc/self/task'))
assert ws.ws_start(b'/nowhere/socket') < 0
assert [ws.ws_push(b'x', None), ws.ws_pop(), ws.ws_flush(10), ws.ws_recording()] == [0, 0, 0, 0]
assert ws.ws_counter(b'x', ctypes.c_double(1), b'1', -1) == 0
assert ws.ws_statistics(0) == 0
assert set(os.listdir('/proc/self/fd')) == before, os.listdir('/proc/self/fd')
assert len(os.listdir('/proc/self/task')) == threads
"""
    environment = {k: v for k, v in os.environ.items() if k != "WARPSIGHT_SOCKET"} | {
        "WARPSIGHT_LIBRARY": str(library)
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_refusal_is_said_once_with_its_reason(launcher: Launcher) -> None:
    program = launcher.start("print(ws.ws_start(None), ws.ws_recording())")
    launcher.accept(answer="no the recording is ending")
    out, err = finish(program)
    assert out.split() == ["-1", "0"]
    assert err.splitlines() == ["warpsight: the launcher refused this process: the recording is ending"]


def test_a_bad_setting_is_named_replaced_and_noted(launcher: Launcher) -> None:
    program = launcher.start(START, {"WARPSIGHT_STACK_DEPTH": "deep", "WARPSIGHT_ON_FULL": "panic"})
    recorded = launcher.accept()
    _, err = finish(program)
    assert [text.split("=")[0] for text in err.splitlines()] == [
        "warpsight: WARPSIGHT_STACK_DEPTH",
        "warpsight: WARPSIGHT_ON_FULL",
    ]
    causes = [cause for source, cause, _ in launcher.drain(recorded).losses() if source == "settings"]
    assert [cause.split("=")[0] for cause in causes] == ["WARPSIGHT_STACK_DEPTH", "WARPSIGHT_ON_FULL"]


def test_a_program_that_closes_all_descriptors_goes_on(launcher: Launcher) -> None:
    program = launcher.start(
        START
        + COUNTERS
        + """
os.closerange(3, 2048)
files = [os.open('/dev/null', os.O_RDONLY) for _ in range(600)]
count(100)
pid = os.fork()
if pid == 0:
    os.fstat(files[-1]); sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
for file in files: os.fstat(file)
"""
    )
    recorded = launcher.accept()
    finish(program)
    assert len(values(launcher.drain(recorded))) == 100
