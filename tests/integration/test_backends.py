"""`record --backend` of vendors' recorders: stand-ins on PATH note how they were called and leave what the real ones do."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.unit.formats.stored import stored
from warpsight.ui.cli import parser

GOLDEN = Path(__file__).parents[1] / "golden/formats"
#: Notes the arguments, one a line; `$@` is left alone.
NOTES = """#!/bin/bash
printf '%s\\n' "$@" > "$NOTED"
"""
#: As nsys does: options up to the first that is none, then the program; the report is a file at --output.
NSYS = """
if [ "$1" = export ]; then
  for one; do case "$one" in --output=*) cp "$GOLDEN/nsys/every_table.sqlite" "${one#--output=}";; esac; done; exit 0
fi
shift
while [ $# -gt 0 ]; do case "$1" in --output=*) out="${1#--output=}";; -*) ;; *) break;; esac; shift; done
"$@"; code=$?
echo report > "$out.nsys-rep"
exit $code
"""
ROCPROF = """
while [ "$1" != -- ]; do [ "$1" = --output-directory ] && out="$2"; shift; done; shift
"$@"; code=$?
mkdir -p "$out/node1"; cp "$GOLDEN/rocprof/by_schema.json" "$out/node1/77_results.json"
exit $code
"""
XCTRACE = """
if [ "$1" = export ]; then
  case "$*" in *--toc*) echo '<trace-toc><run number="1"><info><target><process return-exit-status="7"/></target>'\
'</info><data><table schema="metal-gpu-intervals"/></data></run></trace-toc>'; exit;; esac
  while [ $# -gt 0 ]; do [ "$1" = --output ] && cp "$GOLDEN/instruments/metal.xml" "$2"; shift; done; exit
fi
while [ "$1" != --launch ]; do [ "$1" = --output ] && out="$2"; shift; done; shift 2
"$@"
mkdir "$out"
exit 0
"""
MCTRACER = """
while [ "$1" != -- ]; do [ "$1" = --odname ] && out="$2"; shift; done; shift
"$@"
cp "$GOLDEN/mctracer/mctracer.json" "$out/warpsight-1.json"
exit 0
"""
MSPROF = """
while [ $# -gt 0 ]; do case "$1" in --output=*) out="${1#--output=}";; -*) ;; *) break;; esac; shift; done
"$@"
mkdir -p "$out/PROF_1"; cp "$GOLDEN/msprof/msprof_1.db" "$out/PROF_1/"
exit 0
"""
TOOLS = {
    "nsys": ("nsys", NSYS), "rocm": ("rocprofv3", ROCPROF), "metal": ("xctrace", XCTRACE), "maca": ("mcTracer", MCTRACER),
    "ascend": ("msprof", MSPROF),
}  # fmt: skip
#: A program with awkward arguments that ends with 7.
PROGRAM = [
    "/bin/sh",
    "-c",
    'test "$1" = "two  words" && test "$2" = "*" && exit 7; exit 99',
    "x",
    "two  words",
    "*",
]


def of_vendor(*arguments: str) -> list[str]:
    """Arguments of `record` with the vendor's recorder chosen where our own would be taken on a machine that can run it."""
    options = arguments[: arguments.index("--")]
    own = "--backend" in options and options[options.index("--backend") + 1] in ("rocm", "maca")
    return [*(("--recorder", "vendor") if own else ()), *arguments]


class Done(NamedTuple):
    """How a recording ended."""

    returncode: int
    stderr: str


class Machine:
    """A folder with stand-ins on PATH."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.capture = capture
        self.noted = folder / "noted"
        (folder / "bin").mkdir()
        # Libraries that our own recorders of ROCm and MACA would be taken for.
        self.libraries = folder / "bin/lib"
        self.libraries.mkdir()
        for name in ("librocprofiler-sdk.so.1", "libmcpti.so"):
            (self.libraries / name).touch()

    def install(self, tool: str, body: str) -> None:
        """Put a stand-in on PATH; calls that export are not noted."""
        path = self.folder / "bin" / tool
        path.write_text(NOTES.replace("printf", '[ "$1" = export ] || printf') + body)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def environment(self) -> dict[str, str]:
        return {
            **os.environ, "PATH": f"{self.folder}/bin:/usr/bin:/bin", "NOTED": str(self.noted), "GOLDEN": str(GOLDEN),
            "WARPSIGHT_MCPTI": str(self.libraries / "libmcpti.so"), "LD_LIBRARY_PATH": str(self.libraries),
        }  # fmt: skip

    def record(self, *arguments: str) -> Done:
        """`warpsight record` in this process: what it returns and says."""
        code = parser.run(["record", *of_vendor(*arguments)])
        return Done(code, self.capture.readouterr().err)

    def arguments(self) -> list[str]:
        return self.noted.read_text().splitlines()


@pytest.fixture
def machine(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path, capfd)
    monkeypatch.chdir(tmp_path)
    for name, value in made.environment().items():
        monkeypatch.setenv(name, value)
    return made


@pytest.mark.parametrize("backend", list(TOOLS))
def test_the_recording_becomes_a_trace_and_the_program_keeps_arguments_and_exit_code(
    backend: str, machine: Machine
) -> None:
    machine.install(*TOOLS[backend])
    done = machine.record("--backend", backend, "-o", "out.warp", "--", *PROGRAM)
    assert done.returncode == 7, done.stderr
    ((kernels,),) = stored(machine.folder / "out.warp", "select count(*) from kernel")
    assert kernels > 0
    assert f"out.warp: {kernels} kernels" in done.stderr
    manifest = json.loads((machine.folder / "out.warp/manifest.json").read_text())
    assert manifest["source"]["format"] in ("nsys", "rocprof", "instruments", "mctracer", "msprof")
    assert {path.name for path in machine.folder.iterdir()} == {
        "bin",
        "noted",
        "out.warp",
    }  # nothing else stays


def test_each_recorder_gets_its_arguments_in_its_own_order(machine: Machine) -> None:
    for backend, (tool, body) in TOOLS.items():
        machine.install(tool, body)
        extra = ["--for", "3"] if backend in ("nsys", "rocm", "metal", "ascend") else []
        done = machine.record(
            "--backend",
            backend,
            "--backend-args",
            "--own='a b'",
            *extra,
            "-o",
            f"{backend}.warp",
            "--",
            "/bin/true",
            "-x",
        )
        assert done.returncode in (0, 7), done.stderr
        found = [
            part for part in machine.arguments() if not part.startswith(("--output=", str(machine.folder)))
        ]
        expected = {
            "nsys": ["profile", "--force-overwrite=true", "--trace=cuda,nvtx,osrt", "--duration=3", "--kill=none", "--own=a b",
                     "/bin/true", "-x"],
            "rocm": ["--output-directory", "--output-format", "json", "--runtime-trace", "--collection-period", "0:3000:1",
                     "--collection-period-unit", "msec", "--own=a b", "--", "/bin/true", "-x"],
            "metal": ["record", "--template", "Metal System Trace", "--output", "--time-limit", "3000ms", "--target-stdout",
                      "-", "--own=a b", "--launch", "--", "/bin/true", "-x"],
        }.get(backend)  # fmt: skip
        if expected:
            assert found == expected
        else:  # the program's exit code is told apart from the recorder's by a Python that passes its arguments on
            assert found[-2:] == ["/bin/true", "-x"]
            teller = next(part for part in found if part.endswith("/exit_code.py"))
            assert found.index("--own=a b") < found.index(teller)
            assert not any(" " in part for part in found[found.index("--own=a b") + 1 :])


def test_a_template_and_kept_files(machine: Machine) -> None:
    machine.install(*TOOLS["metal"])
    done = machine.record(
        "--backend", "metal", "--template", "GPU Driver", "--keep", "-o", "m.warp", "--", "/bin/true"
    )
    assert done.returncode == 7  # what the recording says of the program
    found = machine.arguments()
    assert found[found.index("--template") + 1] == "GPU Driver"
    assert (machine.folder / "m.metal/run.trace").is_dir()
    assert "m.metal: what xctrace wrote" in done.stderr


@pytest.mark.parametrize("backend", list(TOOLS))
def test_without_the_recorder_the_program_is_not_run_and_what_is_missing_is_said(
    backend: str, machine: Machine
) -> None:
    done = machine.record("--backend", backend, "-o", "out.warp", "--", "/bin/sh", "-c", "touch ran")
    assert done.returncode == 1
    assert f"--backend {backend} runs {TOOLS[backend][0]}, which is not installed here" in done.stderr
    assert not (machine.folder / "ran").exists()
    assert not (machine.folder / "out.warp").exists()


def test_a_recorder_that_leaves_nothing_does_not_cost_the_exit_code(machine: Machine) -> None:
    machine.install("rocprofv3", 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    done = machine.record("--backend", "rocm", "-o", "out.warp", "--", "/bin/sh", "-c", "exit 5")
    assert done.returncode == 5
    assert "out.warp was not made: rocprofv3 left no recording" in done.stderr
    assert not (machine.folder / "out.warp").exists()


def test_a_recording_that_cannot_be_read_stays(machine: Machine) -> None:
    body = 'while [ "$1" != -- ]; do [ "$1" = --output-directory ] && out="$2"; shift; done; shift\n'
    machine.install("rocprofv3", body + 'echo "{\\"rocprofiler-sdk-tool\\": 5}" > "$out/1_results.json"\n')
    done = machine.record("--backend", "rocm", "-o", "out.warp", "--", "/bin/true")
    assert done.returncode == 1
    assert "is not the expected JSON" in done.stderr
    assert (machine.folder / "out.rocm/1_results.json").is_file()


def test_options_of_our_own_recorders_are_refused_not_ignored(machine: Machine) -> None:
    machine.install(*TOOLS["maca"])
    done = machine.record("--backend", "maca", "--stacks", "native", "-o", "x.warp", "--", "/bin/true")
    assert done.returncode == 2
    assert "--stacks is an option of warpsight's own recorders" in done.stderr
    done = machine.record("--backend", "maca", "--for", "3", "-o", "x.warp", "--", "/bin/true")
    assert done.returncode == 2
    assert "mcTracer takes no --for" in done.stderr
    done = machine.record("--backend", "cuda", "--keep", "-o", "x.warp", "--", "/bin/true")
    assert done.returncode == 2
    assert "--keep goes with --backend nsys" in done.stderr
    assert not machine.noted.exists()


def test_an_existing_trace_is_refused_before_the_program_runs(machine: Machine) -> None:
    machine.install(*TOOLS["rocm"])
    (machine.folder / "out.warp").mkdir()
    done = machine.record("--backend", "rocm", "-o", "out.warp", "--", "/bin/true")
    assert done.returncode == 1
    assert "exists already" in done.stderr
    assert not machine.noted.exists()


def test_a_signal_reaches_the_program_and_what_was_recorded_is_imported(machine: Machine) -> None:
    body = TOOLS["rocm"][1].replace('"$@"; code=$?', '"$@" & child=$!; trap "kill -TERM $child" TERM; touch "$NOTED.up"\n'
                                    'wait $child; wait $child; code=$?')  # fmt: skip
    machine.install("rocprofv3", body)
    command = [
        sys.executable,
        "-m",
        "warpsight",
        "record",
        "--recorder",
        "vendor",
        "--backend",
        "rocm",
        "-o",
        "out.warp",
        "--",
        "/bin/sleep",
        "60",
    ]
    child = subprocess.Popen(
        command, cwd=machine.folder, env=machine.environment(), stderr=subprocess.PIPE, text=True
    )
    up = Path(f"{machine.noted}.up")
    while not up.exists() and child.poll() is None:
        time.sleep(0.01)
    child.send_signal(signal.SIGTERM)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 128 + signal.SIGTERM, said
    assert stored(machine.folder / "out.warp", "select count(*) from kernel") == [(1,)]


#: A recorder that ends the one process it started when it is told to end, by a signal or a key.
PASSES = '"$@" & child=$!; trap "kill -TERM $child" TERM INT; touch "$NOTED.up"; wait $child; wait $child\n'
#: Says its process id in a file, then waits to be ended.
WAITS = ["/bin/sh", "-c", "echo $$ > pid; exec /bin/sleep 60"]


def started(machine: Machine, backend: str, **options: object) -> subprocess.Popen[str]:
    """A recording whose program waits to be ended."""
    tool, body = TOOLS[backend]
    machine.install(tool, body.replace('"$@"\n', PASSES))
    arguments = of_vendor("--backend", backend, "-o", "out.warp", "--", *WAITS)
    command = [sys.executable, "-m", "warpsight", "record", *arguments]
    child = subprocess.Popen(command, cwd=machine.folder, env=machine.environment(), stderr=subprocess.PIPE, text=True,
                             **options)  # type: ignore[call-overload]  # fmt: skip
    pid = machine.folder / "pid"
    while child.poll() is None and not (pid.exists() and pid.read_text().strip()):
        time.sleep(0.01)
    return child


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("backend", ["maca", "ascend"])
def test_a_signal_ends_the_program_of_a_recorder_that_hides_its_exit_code(
    machine: Machine, backend: str
) -> None:
    child = started(machine, backend)
    child.send_signal(signal.SIGTERM)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 128 + signal.SIGTERM, said
    assert not alive(int((machine.folder / "pid").read_text()))
    assert stored(machine.folder / "out.warp", "select count(*) > 0 from kernel") == [(True,)]


def test_an_interrupt_from_elsewhere_reaches_a_program_on_a_terminal(machine: Machine) -> None:
    """A key on the terminal reaches the recorder by itself; `kill -INT` of us does not."""
    master, slave = pty.openpty()
    child = started(machine, "maca", stdin=slave)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=60)
    os.close(slave)
    os.close(master)
    assert child.returncode == 128 + signal.SIGTERM, said  # what the recorder made of it


@pytest.mark.parametrize("backend", list(TOOLS))
def test_a_program_that_cannot_start_has_the_shells_exit_code(machine: Machine, backend: str) -> None:
    machine.install(*TOOLS[backend])
    (machine.folder / "script").write_text("not executable")
    for program, code, what in (("nosuch", 127, "not found"), ("./nosuch", 127, "not found"),
                                ("./script", 126, "cannot be run"), ("./", 126, "cannot be run")):  # fmt: skip
        done = machine.record("--backend", backend, "-o", "out.warp", "--", program)
        assert (done.returncode, what in done.stderr) == (code, True), (program, done)
        assert len(done.stderr.splitlines()) == 1
    assert not machine.noted.exists()
    assert sorted(p.name for p in machine.folder.iterdir()) == ["bin", "script"]  # nothing is left behind


@pytest.mark.parametrize("backend", ["nsys", "rocm", "maca", "ascend"])
def test_a_program_killed_by_a_signal_has_the_shells_exit_code(machine: Machine, backend: str) -> None:
    machine.install(*TOOLS[backend])
    done = machine.record("--backend", backend, "-o", "out.warp", "--", "/bin/sh", "-c", "kill -KILL $$")
    assert done.returncode == 128 + signal.SIGKILL
    assert (machine.folder / "out.warp/manifest.json").exists()


@pytest.mark.parametrize("backend", list(TOOLS))
def test_a_place_that_cannot_be_written_is_said_before_the_program_runs(
    machine: Machine, backend: str
) -> None:
    machine.install(*TOOLS[backend])
    (machine.folder / "file").write_text("")
    for place in ("file/out.warp", "/proc/nowhere/out.warp"):
        done = machine.record("--backend", backend, "-o", place, "--", "/bin/true")
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == 1 and place in done.stderr, done.stderr
    assert not machine.noted.exists()


def test_from_python(machine: Machine) -> None:
    import warpsight as ws

    machine.install(*TOOLS["rocm"])
    path = machine.folder / "out.warp"
    done = ws.run(PROGRAM, path, backend="rocm", backend_args=["--own", "a b"], keep=True, duration=2.0)
    assert done.returncode == 7
    assert "a b" in machine.arguments()
    assert "0:2000:1" in machine.arguments()
    assert (machine.folder / "out.rocm").is_dir()
    assert shutil.which("rocprofv3") == str(machine.folder / "bin/rocprofv3")


TOY_TABLE = """
from warpsight.machine.backends.backend import Backend
BACKENDS = (Backend("toy", "a toy", "toy_backend", ("tool",), program="toyprof", tool_options=("duration",)),)
"""
TOY_TOOL = """
from warpsight.recorder.external.tool import Tool, on_path
TOOL = Tool(
    advice="build it",
    find=lambda: on_path("toyprof"),
    arguments=lambda request, folder, program: [f"{request.duration:g}", str(folder / "toy.json"), *program],
    outputs=lambda folder: list(folder.glob("toy.json")),
    form="chrome",
)
"""
TOY = """
out="$2"; shift 2
"$@"; code=$?
echo '[{"ph": "X", "name": "toy_kernel", "cat": "kernel", "pid": 0, "tid": 7, "ts": 5, "dur": 2,
  "args": {"device": 0, "stream": 7, "correlation": 1}}]' > "$out"
exit $code
"""


def test_a_backend_of_another_package_records(machine: Machine) -> None:
    """A folder with a table and a tool, and an entry point: nothing of warpsight's own is touched."""
    package, info = machine.folder / "site/toy_backend", machine.folder / "site/toy_backend-1.0.dist-info"
    package.mkdir(parents=True)
    info.mkdir()
    (package / "__init__.py").write_text(TOY_TABLE)
    (package / "tool.py").write_text(TOY_TOOL)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-backend\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[warpsight.backends]\ntoy = toy_backend\n")
    machine.install("toyprof", TOY)
    source = Path(parser.__file__).parents[3]
    environment = {**machine.environment(), "PYTHONPATH": f"{source}:{package.parent}"}
    command = [sys.executable, "-m", "warpsight.ui.cli", "record", "--backend", "toy"]

    def record(*options: str) -> subprocess.CompletedProcess[str]:
        arguments = [*command, *options, "-o", "toy.warp", "--", *PROGRAM]
        return subprocess.run(
            arguments, env=environment, cwd=machine.folder, capture_output=True, text=True, check=False
        )

    refused = record("--delay", "3")
    assert refused.returncode == 2 and "toyprof takes no --delay" in refused.stderr
    done = record("--for", "5")
    assert done.returncode == 7, done.stderr
    assert machine.arguments()[0] == "5"
    assert stored(machine.folder / "toy.warp", "select count(*) from kernel") == [(1,)]
