"""`record --backend rocm` through librocprofiler-sdk, whose stand-in (tests/standin/rocm) tells what its GPU did."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.recorded import TIMEOUT, Recorded, environment, launcher
from tests.standin import recording

SOURCES = recording.SOURCES / "rocm"
#: Launches from functions of its own, on two threads, and says for each kernel which functions were on the stack.
PYTHON = """
import ctypes, json, sys, threading
hip = ctypes.CDLL("libamdhip64.so.6")
class Dim3(ctypes.Structure):
    _fields_ = [(axis, ctypes.c_uint32) for axis in "xyz"]
def launch(name):
    hip.hipLaunchKernel(name, Dim3(4, 2, 1), Dim3(128, 1, 1), None, ctypes.c_size_t(0), None)
def layer(name, depth):
    return layer(name, depth - 1) if depth else launch(name)
def step():
    for i in range(20):
        layer(b"shallow", 1)
        layer(b"deep", 5)
def backward():
    launch(b"of_thread")
step()
one = threading.Thread(target=backward)
one.start()
one.join()
hip.hipDeviceSynchronize()
"""


@dataclass(frozen=True)
class Machine:
    """A machine with the stand-in, and no rocprofv3 unless a test installs one."""

    standin: Path
    library: Path
    folder: Path

    def environment(self, **more: str) -> dict[str, str]:
        clean = {k: v for k, v in environment(self.library).items() if not k.startswith("ROC")}
        return {**clean, "LD_LIBRARY_PATH": str(self.standin), "ROCM_STANDIN_LOG": str(self.folder / "log.txt"),
                "PATH": f"{self.folder}/bin:/usr/bin:/bin", **more}  # fmt: skip

    def record(self, *arguments: str, **more: str) -> Recorded:
        """Record into t.warp; arguments are those behind `record -o t.warp`."""
        path = self.folder / "t.warp"
        done = subprocess.run(launcher("-o", str(path), *arguments), env=self.environment(**more), cwd=self.folder,
                              capture_output=True, text=True, timeout=TIMEOUT, check=False)  # fmt: skip
        return Recorded(done.returncode, done.stdout, done.stderr, path)

    def program(self, *steps: str) -> list[str]:
        return ["--", str(self.standin / "program"), *steps]

    def account(self) -> list[tuple[str, int, int, int]]:
        """(name, start, duration, correlation) of the kernels that the stand-in's GPU ran."""
        rows = [line.split() for line in (self.folder / "log.txt").read_text().splitlines()]
        return [(row[1], int(row[2]), int(row[3]), int(row[4])) for row in rows if row[0] == "kernel"]


@pytest.fixture(scope="session")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if recording.compiler() is None:
        pytest.skip("building the stand-in needs a C++ compiler")
    folder = tmp_path_factory.mktemp("rocm")
    subprocess.run([SOURCES / "build.sh", folder], check=True)
    return folder


@pytest.fixture
def machine(standin: Path, library: Path, tmp_path: Path) -> Machine:
    return Machine(standin, library, tmp_path)


def test_the_trace_holds_what_the_gpu_did(machine: Machine) -> None:
    done = machine.record(
        "--backend",
        "rocm",
        *machine.program("init", "launch:_Z3addPfS_i:500", "launch:mul:100", "copy:4096:1", "sync"),
    )
    assert done.code == 0, done.err
    assert "untested on AMD's hardware" in done.err
    columns = "SELECT name, start, duration, correlation FROM kernel ORDER BY start"
    assert done.sql(columns) == machine.account()
    assert done.sql("SELECT DISTINCT demangled FROM kernel ORDER BY 1") == [
        ("add(float*, float*, int)",),
        ("mul",),
    ]
    assert done.sql("SELECT count(*) FROM launch JOIN kernel USING (process, correlation) WHERE launch.name = kernel.name"
                    ) == [(600,)]  # fmt: skip
    assert done.sql("SELECT bytes, kind, source_address, destination_address FROM memcpy") == [
        (4096, "HtoD", 0x500, 0xD00)
    ]
    assert (
        done.sql("SELECT platform, vendor, name FROM device ORDER BY index")
        == [("rocm", "AMD", "Stand-in Instinct (gfx942)")] * 2
    )
    assert done.sql("SELECT sum(count) FROM loss WHERE severity <> 'note'") == [(None,)]


def test_a_pattern_that_matched_nothing_is_told_by_our_recorder_of_rocm(machine: Machine) -> None:
    options = ("--backend", "rocm", "--kernels", "m*", "--kernels", "gemm*")
    done = machine.record(*options, *machine.program("init", "launch:mul:2", "sync"))
    assert done.sql("SELECT source, cause FROM loss WHERE cause LIKE '%pattern%'") == [
        ("rocm", "kernel pattern 'gemm*' matched no kernel")
    ]


def test_kernels_carry_the_python_stack_of_their_launch(machine: Machine) -> None:
    program = machine.folder / "train.py"
    program.write_text(PYTHON)
    done = machine.record("--backend", "rocm", "--", sys.executable, str(program))
    assert done.code == 0, done.err
    stacks = Counter(
        (name, tuple(functions))
        for name, functions in done.sql(
            """
            WITH RECURSIVE walk AS (
              SELECT id AS stack, parent, frame, 0 AS level FROM stack
              UNION ALL SELECT walk.stack, up.parent, up.frame, level + 1 FROM walk JOIN stack AS up ON up.id = walk.parent)
            SELECT any_value(kernel.name), list(frame.function ORDER BY level DESC)
            FROM kernel JOIN walk USING (stack) JOIN frame ON frame.id = walk.frame
            GROUP BY kernel.process, kernel.correlation
            """
        )
    )
    thread = [key for key in stacks if key[0] == "of_thread"]
    assert [(key[1][-2:], stacks[key]) for key in thread] == [(("backward", "launch"), 1)]
    shallow = ("<module>", "step", *["layer"] * 2, "launch")
    deep = ("<module>", "step", *["layer"] * 6, "launch")
    assert {key: count for key, count in stacks.items() if key not in thread} == {
        ("shallow", shallow): 20, ("deep", deep): 20,
    }  # fmt: skip


def test_native_stacks_end_in_the_programs_own_function(machine: Machine) -> None:
    done = machine.record(
        "--backend", "rocm", "--stacks", "native", *machine.program("init", "launch:add:10", "sync")
    )
    assert done.code == 0, done.err
    assert done.sql("SELECT count(DISTINCT stack), count(stack) FROM kernel")[0][1] == 10
    modules = {Path(row[0]).name for row in done.sql("SELECT DISTINCT file FROM frame")}
    assert {"program", "libamdhip64.so.6"} <= modules


def test_a_kernel_that_never_ended_is_a_row_without_times(machine: Machine) -> None:
    done = machine.record(
        "--backend", "rocm", *machine.program("init", "launch:add:5", "launch:stuck:2", "sync")
    )
    assert done.code == 0, done.err
    assert done.sql("SELECT name, count(*), count(start) FROM kernel GROUP BY name ORDER BY name") == [
        ("add", 5, 5), ("stuck", 2, 0),
    ]  # fmt: skip
    assert done.sql("SELECT source, sum(count) FROM loss WHERE severity <> 'note' GROUP BY source") == [
        ("rocprofiler-sdk", 2)
    ]


def test_lost_times_are_counted_once(machine: Machine) -> None:
    done = machine.record("--backend", "rocm", *machine.program("init", "launch:add:100", "sync"),
                          ROCM_STANDIN="zero_every=10")  # fmt: skip
    assert done.sql("SELECT count(*), count(start) FROM kernel") == [(100, 90)]
    assert done.sql("SELECT source, cause, sum(count) FROM loss WHERE severity <> 'note' GROUP BY ALL") == [
        ("rocprofiler-sdk", "timestamps of a kernel were zero", 10)
    ]


def test_what_was_done_before_a_kill_is_kept(machine: Machine) -> None:
    done = machine.record("--backend", "rocm", *machine.program(
        "init", "launch:add:200", "sync", "delivered", "launch:lost:3", "kill"))  # fmt: skip
    assert done.code == 137
    assert done.sql("SELECT name, count(*), count(start) FROM kernel GROUP BY name ORDER BY name") == [
        ("add", 200, 200), ("lost", 3, 0),
    ]  # fmt: skip


def test_stopping_and_going_on_after_a_while(machine: Machine) -> None:
    done = machine.record("--backend", "rocm", "--for", "1", *machine.program(
        "init", "launch:add:50", "sync", "until:0", "launch:after:50", "sync"))  # fmt: skip
    assert done.code == 0, done.err
    assert done.sql("SELECT name, count(*) FROM kernel GROUP BY name") == [("add", 50)]


def test_beginning_after_a_while_still_names_the_kernels(machine: Machine) -> None:
    done = machine.record("--backend", "rocm", "--delay", "1", *machine.program(
        "init", "launch:before:50", "sync", "until:1", "launch:before:20", "sync"))  # fmt: skip
    assert done.code == 0, done.err
    assert done.sql("SELECT name, count(*) FROM kernel GROUP BY name") == [("before", 20)]


def test_a_program_that_waits_for_it_can_be_attached_to(machine: Machine) -> None:
    environment = machine.environment(ROCP_TOOL_LIBRARIES=str(machine.library), WARPSIGHT="dormant")
    steps = machine.program(
        "init", "launch:add:50", "sync", "say:ready", "until:1", "launch:add:20", "sync", "line"
    )[1:]
    program = subprocess.Popen(
        steps, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "ready\n"
    command = [sys.executable, "-m", "warpsight.ui.cli", "attach", str(program.pid), "-o", "t.warp"]
    attached = subprocess.Popen(
        command, env=machine.environment(), cwd=machine.folder, stderr=subprocess.PIPE, text=True
    )
    assert attached.stderr is not None
    assert "recording process" in attached.stderr.readline()
    program.communicate("go on\n", timeout=TIMEOUT)
    said = attached.communicate(timeout=TIMEOUT)[1]
    assert (program.returncode, attached.returncode) == (0, 0), said
    trace = Recorded(0, "", "", machine.folder / "t.warp")
    assert trace.sql("SELECT name, count(*) FROM kernel GROUP BY name") == [("add", 20)]


def install(machine: Machine) -> None:
    """A rocprofv3 that only says it was called."""
    place = machine.folder / "bin/rocprofv3"
    place.parent.mkdir()
    place.write_text('#!/bin/sh\necho "rocprofv3 was called"\nexit 3\n')
    place.chmod(0o755)


@pytest.mark.parametrize(
    "options",
    [["--recorder", "vendor"], ["--backend-args", "--hip-trace"], ["--keep"]],
    ids=lambda options: options[0],
)
def test_rocprofv3_runs_where_it_is_asked_for(machine: Machine, options: list[str]) -> None:
    install(machine)
    done = machine.record("--backend", "rocm", *options, *machine.program("init"))
    assert "rocprofv3 was called" in done.out
    assert done.code == 3


def test_rocprofv3_runs_where_the_library_is_not(machine: Machine) -> None:
    install(machine)
    done = machine.record("--backend", "rocm", "--", "/bin/true", LD_LIBRARY_PATH="")
    assert "rocprofv3 was called" in done.out


def test_our_own_recorder_is_refused_without_the_library(machine: Machine) -> None:
    done = machine.record("--backend", "rocm", "--recorder", "own", "--", "/bin/true", LD_LIBRARY_PATH="")
    assert done.code == 1
    assert "librocprofiler-sdk" in done.err
    assert not done.path.exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--backend", "rocm", "--recorder", "mine"], "--recorder must be one of auto, own, vendor"),
        (["--backend", "cuda", "--recorder", "vendor"], "--backend cuda has one recorder"),
        (["--backend", "nsys", "--recorder", "own"], "--backend nsys has one recorder"),
        (["--backend", "rocm", "--recorder", "own", "--keep"], "--keep goes with --recorder vendor"),
        (
            ["--backend", "rocm", "--recorder", "vendor", "--stacks", "native"],
            "--stacks is an option of warpsight's own",
        ),
    ],
)
def test_options_that_would_do_nothing_are_refused(machine: Machine, arguments: list[str], says: str) -> None:
    done = machine.record(*arguments, *machine.program("init"))
    assert done.code == 2
    assert says in done.err


def test_the_library_is_found_below_rocm_path(machine: Machine) -> None:
    place = machine.folder / "rocm/lib"
    place.mkdir(parents=True)
    for name in ("librocprofiler-sdk.so.1", "librocprofiler-sdk.so"):
        shutil.copy(machine.standin / "librocprofiler-sdk.so.1", place / name)
    rest = machine.folder / "rest"
    rest.mkdir()
    for name in ("libamdhip64.so.6", "librocprofiler-register.so.0"):
        shutil.copy(machine.standin / name, rest / name)
    done = machine.record("--backend", "rocm", "--recorder", "own", *machine.program("init", "launch:add:4", "sync"),
                          LD_LIBRARY_PATH=str(rest), ROCM_PATH=str(machine.folder / "rocm"))  # fmt: skip
    assert f"{place}/librocprofiler-sdk.so" in done.err


def in_process(machine: Machine, text: str) -> Recorded:
    """A Python program with the stand-in's HIP that records itself into own.warp."""
    text = f"import warpsight as ws\n{PYTHON.partition('def layer')[0]}\n{text}"
    done = subprocess.run([sys.executable, "-c", text], env=machine.environment(), cwd=machine.folder, capture_output=True,
                          text=True, timeout=TIMEOUT, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return Recorded(0, done.stdout, done.stderr, machine.folder / "own.warp")


def test_a_program_that_records_itself_before_it_uses_rocm(machine: Machine) -> None:
    done = in_process(machine, "with ws.record('own.warp', backend='rocm'):\n"
                               "    for i in range(30): launch(b'add')\n    hip.hipDeviceSynchronize()\n")  # fmt: skip
    assert done.sql("SELECT name, count(*), count(stack) FROM kernel GROUP BY name") == [("add", 30, 30)]


def test_a_recording_that_begins_too_late_says_so(machine: Machine) -> None:
    done = in_process(machine, "launch(b'before')\n"
                               "with ws.record('own.warp', backend='rocm'):\n"
                               "    for i in range(30): launch(b'add')\n    hip.hipDeviceSynchronize()\n")  # fmt: skip
    assert done.sql("SELECT count(*) FROM kernel") == [(0,)]
    (cause,) = done.sql("SELECT cause FROM loss WHERE source = 'rocm'")
    assert "used ROCm before the recording began" in cause[0]


def test_two_recordings_of_one_process(machine: Machine) -> None:
    done = in_process(machine, "for name in ('first', 'own'):\n"
                               "    with ws.record(name + '.warp', backend='rocm'):\n"
                               "        for i in range(10): launch(name.encode())\n        hip.hipDeviceSynchronize()\n"
                               "    launch(b'between')\n")  # fmt: skip
    first = Recorded(0, "", "", machine.folder / "first.warp")
    for trace, name in ((first, "first"), (done, "own")):
        assert trace.sql("SELECT name, count(*) FROM kernel GROUP BY name") == [(name, 10)]
        assert trace.sql("SELECT count(*) FROM device") == [(2,)]


def test_ws_run_takes_a_recorder_too(machine: Machine) -> None:
    text = ("import warpsight as ws\n"
            f"done = ws.run([{str(machine.standin / 'program')!r}, 'init', 'launch:add:6', 'sync', 'exit:9'], 'own.warp',\n"
            "              backend='rocm', recorder='own', stacks='native')\n"
            "assert done.returncode == 9, done\n")  # fmt: skip
    subprocess.run(
        [sys.executable, "-c", text],
        env=machine.environment(),
        cwd=machine.folder,
        timeout=TIMEOUT,
        check=True,
    )
    done = Recorded(0, "", "", machine.folder / "own.warp")
    assert done.sql("SELECT count(*), count(stack) FROM kernel") == [(6, 6)]


def test_a_users_own_tool_stays_in_the_list(machine: Machine) -> None:
    """It comes first, and a colon is behind ours: what follows the last one is not looked at."""
    done = machine.record("--backend", "rocm", "--", "/usr/bin/env", ROCP_TOOL_LIBRARIES="/opt/theirs.so")
    assert f"ROCP_TOOL_LIBRARIES=/opt/theirs.so:{os.path.realpath(machine.library)}:" in done.out


def test_doctor_tells_whether_rocm_can_be_recorded(machine: Machine) -> None:
    command = [sys.executable, "-m", "warpsight.ui.cli", "doctor", "--json"]
    found = {}
    for name, folder in (("with", str(machine.standin)), ("without", "")):
        done = subprocess.run(command, env=machine.environment(LD_LIBRARY_PATH=folder), capture_output=True, text=True,
                              timeout=TIMEOUT, check=False)  # fmt: skip
        rows = json.loads(done.stdout)
        rows = rows["checks"] if isinstance(rows, dict) else rows
        found[name] = [row for row in rows if row["feature"] == "ROCm recording"]
    (there,) = found["with"]
    assert there["state"] == "degraded"
    assert "untested on AMD's hardware" in there["why"]
    assert str(machine.standin) in there["why"]
    assert found["without"] == []  # no AMD GPU here
