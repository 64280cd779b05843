"""Ctrl-C ends a verb even while its threads compute or wait for input, and leaves no temporary files."""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from benchmarks.synthetic_trace import Plan, make
from tests.integration.recorded import TIMEOUT, environment, launcher, program
from tests.integration.standin_programs import children
from tests.unit.debug.test_sanitizer import STAND_IN, report
from warpsight.model.workers import workers
from warpsight.recorder.environment import SOCKET

#: A verb in the middle of work: a temporary folder, and a thread that waits for something that never comes.
STUCK = """
import os, sys, tempfile, threading
from warpsight.model.workers import workers
from warpsight.ui.cli import app
app.end_soon_after_interrupt()
folder = tempfile.TemporaryDirectory(prefix="kept-")
with workers(1) as pool:
    pool.submit(os.read, 0, 1)
    print(folder.name, flush=True)
    threading.Event().wait()
"""
#: Sends itself Ctrl-C when a module is looked for.
EARLY = """
import os, runpy, signal, sys
class Finder:
    def find_spec(self, name, *rest):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)
module, sys.argv = sys.argv[1], ["warpsight", *sys.argv[2:]]
sys.meta_path.insert(0, Finder())
RUN
"""
#: How `python -m warpsight` and the installed script begin.
BEGINNINGS = {
    "module": 'runpy.run_module("warpsight", run_name="__main__")',
    "script": "from warpsight.__main__ import main; sys.exit(main())",
}
#: Says who it is, and stays.
STAYING = "import os, time; print('at', os.getpid(), flush=True); time.sleep(600)"
#: Reads a job with a worker, which waits for a pipe that is never written.
WORKERS = """
import os, sys, tempfile
from warpsight.cluster.executor import LocalExecutor
from warpsight.ui.cli import app
from tests.integration.stuck_item import stay
app.end_soon_after_interrupt()
try:
    list(LocalExecutor(2).map(stay, [sys.argv[1]] * 2))
except KeyboardInterrupt:
    sys.exit(130)
"""
#: Sends Ctrl-C to the whole group of processes, as a terminal does, while a worker starts: a module that Python loads first.
STARTING = """
import os, signal, sys
if "--multiprocessing-fork" in sys.orig_argv:
    os.killpg(0, signal.SIGINT)
"""
#: A thread that writes, and a function for the end of the process that never returns.
ENDLESS = """
import atexit, sys, threading
from warpsight.api import files
from warpsight.ui.cli import app
from pathlib import Path
app.end_soon_after_interrupt()
atexit.register(threading.Event().wait)
def work():
    with files.binary(Path(sys.argv[1]) / "out"), files.folder(Path(sys.argv[1]) / "folder", ".csv"):
        print("working", flush=True)
        threading.Event().wait()
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""
ENDING = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
HELLO = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},'
    '"clientInfo":{"name":"x","version":"1"}}}\n'
)


def started(*command):
    return subprocess.Popen([sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)  # fmt: skip


def interrupted(process, number=signal.SIGINT):
    """What it prints to standard error before it ends, with its input still open."""
    process.send_signal(number)
    code = process.wait(60)
    told = process.stderr.read()
    for pipe in (process.stdin, process.stdout, process.stderr):
        pipe.close()
    return code, told


@ENDING
def test_threads_that_wait_do_not_hold_up_the_end_and_temporary_files_go(number):
    process = started("-c", STUCK)
    folder = process.stdout.readline().strip()
    assert os.path.isdir(folder)
    code, _ = interrupted(process, number)
    assert code == 128 + number
    assert not os.path.exists(folder)


@ENDING
def test_unfinished_output_goes_although_a_function_for_the_end_never_returns(number, tmp_path):
    """DuckDB registers one that waits for its statement; the thread that writes may not come to its own cleaning."""
    process = started("-c", ENDLESS, str(tmp_path))
    assert process.stdout.readline() == "working\n"
    assert len(os.listdir(tmp_path)) == 2
    assert interrupted(process, number)[0] == 128 + number
    assert os.listdir(tmp_path) == []


def test_a_server_that_waits_for_its_client_ends():
    pytest.importorskip("mcp")
    process = started("-m", "warpsight", "mcp")
    process.stdin.write(HELLO)
    process.stdin.flush()
    assert '"id":1' in process.stdout.readline()
    code, told = interrupted(process)
    assert code == 130 and "Traceback" not in told


def test_a_request_that_a_recording_does_not_answer_ends(tmp_path):
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(path)
        listening.listen()
        recorded = subprocess.Popen(["sleep", "600"], env={**os.environ, SOCKET: path})
        try:
            process = started("-m", "warpsight", "trigger", str(recorded.pid))
            connection, _ = listening.accept()
            with connection:
                connection.recv(4096)
                assert interrupted(process) == (130, "")
        finally:
            recorded.kill()
            recorded.wait()


def test_an_error_does_not_wait_for_workers():
    go, jobs = threading.Event(), []

    def fail():
        with workers(1) as pool:
            jobs.extend([pool.submit(go.wait), pool.submit(int)])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not jobs[0].done() and jobs[1].cancelled()
    go.set()
    assert jobs[0].result(60)


@pytest.mark.parametrize("beginning", BEGINNINGS)
@pytest.mark.parametrize(
    "module", ["warpsight.ui.cli", "warpsight.ui.cli.app", "textwrap", "typer", "warpsight.api", "pyarrow"]
)
def test_ctrl_c_while_modules_are_loaded_prints_nothing(module, beginning, tmp_path):
    code = EARLY.replace("RUN", BEGINNINGS[beginning])
    trace = make(tmp_path / "t.warp", Plan(kernels=30))
    done = subprocess.run([sys.executable, "-c", code, module, "stats", str(trace)], capture_output=True, text=True,
                          timeout=TIMEOUT)  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_the_package_loads_nothing_before_the_command_line_takes_ctrl_c():
    code = "import os, sys; before = {*sys.modules}; import warpsight.__main__; print(sorted({*sys.modules} - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT)
    assert done.stdout == "['warpsight', 'warpsight.__main__']\n"


def test_the_second_ctrl_c_while_the_trace_is_written_leaves_it_to_recover(library, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    environ = environment(library, TMPDIR=str(own))
    path = tmp_path / "run.warp"
    process = subprocess.Popen(launcher("-o", str(path), "--", *program("print(flush=True); input()")), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ)  # fmt: skip
    process.stdout.readline()
    (converter,) = (
        one for one in children(process.pid) if b"converter" in Path(f"/proc/{one}/cmdline").read_bytes()
    )
    os.kill(converter, signal.SIGSTOP)  # the trace is not written before we say so
    process.stdin.close()  # the program ends
    said = ""
    while "Ctrl-C again" not in said and process.poll() is None:
        process.send_signal(signal.SIGINT)
        if select.select([process.stderr], [], [], 0.1)[0]:
            said += os.read(process.stderr.fileno(), 4096).decode()
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
    said += process.stderr.read()
    for pipe in (process.stdout, process.stderr):
        pipe.close()
    with contextlib.suppress(ProcessLookupError):  # it was stopped, and nobody is left to wake it
        os.kill(converter, signal.SIGKILL)
    assert process.returncode == 130, said
    assert f"warpsight recover {path}" in said and "Traceback" not in said.partition("Ctrl-C again")[2]
    assert not [one for one in os.listdir(own) if not one.startswith("warpsight-locks")]
    done = subprocess.run([sys.executable, "-m", "warpsight", "recover", str(path)], capture_output=True, text=True,
                          env=environ, timeout=TIMEOUT)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (path / "manifest.json").exists() and not (path / "raw").exists()


#: Prints how many threads of the launcher, apart from its first, could take Ctrl-C.
TAKERS = """
import glob, os, signal
launcher = os.getppid()
def takes(status):
    blocked = next(line.split()[1] for line in open(status) if line.startswith("SigBlk"))
    return not int(blocked, 16) >> signal.SIGINT - 1 & 1
others = (one for one in glob.glob(f"/proc/{launcher}/task/*/status") if one.split("/")[4] != str(launcher))
print("takers", sum(map(takes, others)))
"""


@pytest.mark.parametrize("verb", [["record", "-q", "--ring", "5s"], ["watch"]], ids=["ring", "watch"])
def test_no_other_thread_of_a_launcher_takes_ctrl_c(verb, library, tmp_path):
    """It would end the launcher while it writes, instead of reaching the program."""
    command = [
        sys.executable,
        "-m",
        "warpsight",
        *verb,
        "-o",
        str(tmp_path / "out"),
        "--",
        sys.executable,
        "-c",
        TAKERS,
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(library), timeout=TIMEOUT)
    assert "takers 0" in done.stdout, done.stdout + done.stderr


@ENDING
@pytest.mark.parametrize(
    "verb", [["sanitize"], ["capsule", "record", "-o", "x.capsule"]], ids=lambda verb: verb[0]
)
def test_a_signal_ends_the_program_that_a_verb_runs(verb, number, library, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    tool = tmp_path / "bin" / "compute-sanitizer"
    tool.parent.mkdir()
    tool.write_text(
        STAND_IN.format(python=sys.executable, report=str(report("illegal_address.memcheck", tmp_path)))
    )
    tool.chmod(0o755)
    around = environment(library, TMPDIR=str(own), PATH=f"{tool.parent}:{os.environ['PATH']}")
    command = [sys.executable, "-m", "warpsight", *verb, "--", sys.executable, "-c", STAYING]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=around, cwd=tmp_path
    )
    program = int(process.stdout.readline().split()[1])
    process.send_signal(number)
    _, told = process.communicate(timeout=TIMEOUT)
    with pytest.raises(ProcessLookupError):
        os.kill(program, 0)
    if verb == ["sanitize"]:
        assert "Invalid __global__ write" in told  # the tool outlives its program, and reports
    else:
        assert process.returncode == 128 + number and "nothing was cut out" in told
    assert not os.listdir(own) and not [one for one in os.listdir(tmp_path) if one.startswith(".")]


@ENDING
def test_a_server_of_a_trace_leaves_no_copy_of_it(number, library, tmp_path):
    trace = make(tmp_path / "t.warp", Plan(kernels=30))
    own = tmp_path / "own"
    own.mkdir()
    command = [sys.executable, "-m", "warpsight", "open", str(trace), "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=environment(library, TMPDIR=str(own)))  # fmt: skip
    assert "http" in process.stdout.readline()
    while "Ctrl-C ends it" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(number)
    _, told = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0 and "Traceback" not in told
    assert not os.listdir(own)


@ENDING
def test_workers_end_with_the_verb_and_their_files_go(number, library, tmp_path):
    pipe, own = tmp_path / "pipe", tmp_path / "own"
    os.mkfifo(pipe)
    own.mkdir()
    paths = os.pathsep.join((environment(library)["PYTHONPATH"], str(Path(__file__).parents[2])))
    process = subprocess.Popen([sys.executable, "-c", WORKERS, str(pipe)], stderr=subprocess.PIPE, text=True,
                               env=environment(library, TMPDIR=str(own), PYTHONPATH=paths))  # fmt: skip
    with pipe.open() as told:  # until a worker has a temporary file, and says so
        worker = int(told.readline())
    process.send_signal(number)
    process.communicate(timeout=TIMEOUT)
    assert not os.path.exists(f"/proc/{worker}")
    assert not os.listdir(own)


def test_ctrl_c_while_workers_start_prints_nothing(library, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (tmp_path / "sitecustomize.py").write_text(STARTING)
    paths = os.pathsep.join(
        (str(tmp_path), environment(library)["PYTHONPATH"], str(Path(__file__).parents[2]))
    )
    done = subprocess.run([sys.executable, "-c", WORKERS, "nothing"], capture_output=True, text=True, timeout=TIMEOUT,
                          start_new_session=True, env=environment(library, TMPDIR=str(own), PYTHONPATH=paths))  # fmt: skip
    assert (done.returncode, done.stderr) == (130, "")
    assert not os.listdir(own)
