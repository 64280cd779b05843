"""MetaX' GPUs recorded in process: real programs whose MACA is a scripted stand-in (tests/standin/maca).

The stand-in writes down what happened; the trace must say the same.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.recorded import TIMEOUT, environment
from tests.standin import recording
from warpsight.model import open as open_trace
from warpsight.model.trace import StoredTrace
from warpsight.recorder.environment import recorder_variables
from warpsight.recorder.options.settings import Settings
from warpsight.recorder.unrecorded import Unrecorded
from warpsight_plugins.maca.in_process import PRELOAD

#: Far beyond what reading two clocks one after another can cost; days less than what a clock without a fit is off.
CLOSE_NS = 50_000_000
SOURCES = recording.SOURCES / "maca"

PYTHON = """
import ctypes, os, sys

class Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]

def load():
    return ctypes.CDLL("libmcruntime.so")

def step(maca, count):
    one = Dim3(4, 1, 1)
    for _ in range(count):
        maca.mcLaunchKernel(ctypes.c_char_p(b"from_python"), one, one, None, ctypes.c_size_t(0), None)

def train(maca):
    maca.mcInit(0)
    step(maca, 5)
    maca.mcDeviceSynchronize()
"""


@dataclass(frozen=True)
class Done:
    """A program that was recorded: what it wrote down, what it left and what was said."""

    code: int
    errors: str
    path: Path
    log: list[dict[str, Any]]

    def trace(self) -> StoredTrace:
        return open_trace(self.path)

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        with self.trace() as trace:
            return trace.sql(text).fetchall()

    def did(self, kind: str, **fields: Any) -> list[dict[str, Any]]:
        return [
            row for row in self.log if row["kind"] == kind and all(row[k] == v for k, v in fields.items())
        ]

    def losses(self) -> dict[str, tuple[str, int]]:
        rows = self.sql("SELECT cause, severity, count FROM loss WHERE source IN ('maca', 'mcpti')")
        return {cause: (severity, count) for cause, severity, count in rows}

    def loss(self, part: str) -> tuple[str, int]:
        found = [row for cause, row in self.losses().items() if part in cause]
        assert len(found) == 1, self.losses()
        return found[0]


class Maca:
    """The built stand-in, and `warpsight record --backend maca` of programs that use it."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.folder = folder
        self.library = library

    def environment(self, where: Path, says: str = "", **more: str) -> dict[str, str]:
        clean = {k: v for k, v in environment(self.library).items() if not k.startswith(("MACA", "LD_"))}
        own = {
            "MACA_PATH": str(self.folder),
            "MACA_LOG": str(where / "log"),
            "MACA_STANDIN": says,
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        }
        return {**clean, **own, **more}

    def record(self, where: Path, *steps: str, options: tuple[str, ...] = (), says: str = "",
               program: list[str] | None = None, **more: str) -> Done:  # fmt: skip
        """Run the program's steps, or another program, under the recorder."""
        where.mkdir(parents=True, exist_ok=True)
        path = where / "t.warp"
        command = [sys.executable, "-m", "warpsight.ui.cli", "record", "--backend", "maca", "-o", str(path), *options, "--",
                   *(program or [str(self.folder / "program"), *steps])]  # fmt: skip
        done = subprocess.run(command, env=self.environment(where, says, **more), cwd=where, capture_output=True, text=True,
                              timeout=TIMEOUT, check=False)  # fmt: skip
        log = where / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        return Done(done.returncode, done.stderr, path, [json.loads(line) for line in lines])

    def lacking(self, what: str) -> str:
        return str(self.folder / f"without_{what}" / "libmcpti.so")


@pytest.fixture(scope="session")
def maca(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Maca:
    if not library.with_name("libwarpsight_maca.so").is_file():
        pytest.skip("this build has no libwarpsight_maca.so")
    if recording.compiler() is None:
        pytest.skip("building the stand-in needs a C++ compiler")
    folder = tmp_path_factory.mktemp("maca")
    subprocess.run([SOURCES / "build.sh", folder], check=True)
    return Maca(folder, library)


def test_what_a_linked_program_did_is_what_the_trace_says(maca: Maca, tmp_path: Path) -> None:
    done = maca.record(tmp_path, "launch:saxpy:300", "copy:5000", "copy:70", "threads:3:40", "sync", "exit:7")
    assert done.code == 7, done.errors
    assert "untested on MetaX's hardware" in done.errors
    told = done.sql("SELECT name, correlation % 4294967296, duration, stream, grid_x, block_x FROM kernel")
    kernels = done.did("kernel")
    assert len(kernels) == 420
    assert sorted(told) == sorted(
        (k["name"], k["correlation"], k["duration"], k["stream"], k["grid"], k["block"]) for k in kernels
    )
    for table in ("memcpy", "memset"):
        rows = done.sql(f"SELECT correlation % 4294967296, bytes, duration FROM {table}")
        assert sorted(rows) == sorted((k["correlation"], k["bytes"], k["duration"]) for k in done.did(table))
        assert len(rows) == 2
    calls = Counter(row["name"] for row in done.did("call"))
    recorded = Counter(
        row[0] for row in done.sql("SELECT function FROM api UNION ALL SELECT function FROM launch")
    )
    assert recorded == calls
    joined = "SELECT count(*) FROM kernel k JOIN launch l USING (process, correlation) WHERE l.start <= k.start + 1000000"
    assert done.sql(joined) == [(420,)]
    assert done.sql("SELECT kind FROM sync ORDER BY start") == [("stream",), ("context",)]
    (device,) = done.sql("SELECT name, vendor, platform, pci, runtime FROM device")
    assert device == ("MetaX stand-in", "MetaX", "maca", "0000:0e:00.0", "MCPTI 18")
    assert [severity for severity, _ in done.losses().values()] == ["note", "note"]


def starts(done: Done) -> list[int]:
    """How far each kernel's start in the trace is from where the program had it, ns."""
    rows = done.sql("SELECT correlation % 4294967296, start FROM kernel")
    meant = {k["correlation"]: k["start"] for k in done.did("kernel")}
    return [start - meant[correlation] for correlation, start in rows]


@pytest.mark.parametrize("says", ["offset=1000", "offset=1790000000000000000"])
def test_times_are_on_our_clock_whatever_the_gpus_began_at(maca: Maca, tmp_path: Path, says: str) -> None:
    done = maca.record(tmp_path, "launch:saxpy:50", "sync", says=says)
    assert max(map(abs, starts(done))) < CLOSE_NS
    durations = done.sql("SELECT correlation % 4294967296, duration FROM kernel")
    assert sorted(durations) == sorted((k["correlation"], k["duration"]) for k in done.did("kernel"))


def test_a_clock_that_runs_faster_is_followed(maca: Maca, tmp_path: Path) -> None:
    steps = [step for number in range(6) for step in (f"launch:k{number}:20", "sleep:150", "flush")]
    done = maca.record(tmp_path, *steps, says="drift_ppm=50000")
    assert (
        max(map(abs, starts(done))) < CLOSE_NS
    )  # without the rate, 45 ms of 900 were off, and an offset more
    total = sum(row[0] for row in done.sql("SELECT duration FROM kernel"))
    device = sum(k["duration"] for k in done.did("kernel"))
    assert total < device * 0.99  # a device second is 0.95 of ours


def test_a_python_program_that_loads_the_runtime_late_has_python_stacks(maca: Maca, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(PYTHON + "train(load())\n")
    done = maca.record(
        tmp_path, program=[sys.executable, str(script)], LD_LIBRARY_PATH=str(maca.folder / "lib")
    )
    assert done.code == 0, done.errors
    assert done.sql("SELECT count(*), count(stack) FROM kernel WHERE name = 'from_python'") == [(5, 5)]
    with done.trace() as trace:
        ((stack,),) = trace.sql("SELECT DISTINCT stack FROM kernel").fetchall()
        frames = trace.stacks([stack])[stack]
    assert [frame.split(" ")[0] for frame in frames] == ["<module>", "train", "step"]
    assert frames[-1].endswith("train.py:13)"), frames


def test_a_framework_that_brings_the_runtime_is_recorded_from_its_first_call(
    maca: Maca, tmp_path: Path
) -> None:
    """Nobody looks a function of MACA up by name: the linker finds the preloaded ones first."""
    framework = str(maca.folder / "lib/libframework.so")
    script = f"import ctypes; f = ctypes.CDLL({framework!r}); f.framework_step(); f.framework_step()"
    done = maca.record(tmp_path, program=[sys.executable, "-c", script])
    assert done.code == 0, done.errors
    assert done.sql("SELECT name, count(*), count(stack) FROM kernel GROUP BY 1") == [
        ("from_framework", 2, 2)
    ]
    assert done.sql("SELECT count(*) FROM api WHERE function = 'mcMalloc'") == [(2,)]


def test_a_runtime_whose_file_name_has_a_version_is_known(maca: Maca, tmp_path: Path) -> None:
    versioned = tmp_path / "libmcruntime.so.3.5"
    shutil.copy(maca.folder / "lib/libmcruntime.so", versioned)
    script = tmp_path / "train.py"
    script.write_text(PYTHON.replace('"libmcruntime.so"', repr(str(versioned))) + "train(load())\n")
    done = maca.record(tmp_path, program=[sys.executable, str(script)])
    assert done.code == 0, done.errors
    assert done.sql("SELECT count(*), count(stack) FROM kernel") == [(5, 5)]


def test_stacks_of_compiled_programs_are_native(maca: Maca, tmp_path: Path) -> None:
    done = maca.record(tmp_path, "launch:saxpy:3", options=("--stacks", "native"))
    with done.trace() as trace:
        stacks = trace.stacks([row[0] for row in trace.sql("SELECT DISTINCT stack FROM kernel").fetchall()])
    assert stacks and all(any("main" in frame for frame in frames) for frames in stacks.values()), stacks
    assert all("mcLaunchKernel" in frames[-1] for frames in stacks.values()), (
        stacks
    )  # no frame of the tools library


def test_a_captured_launch_is_no_lost_kernel(maca: Maca, tmp_path: Path) -> None:
    done = maca.record(tmp_path, "graph:4", "launch:plain:1", "sync", options=("--stacks", "native"))
    assert done.sql("SELECT name, count(*), count(stack) FROM kernel GROUP BY 1 ORDER BY 1") == [
        ("in_graph", 4, 4),
        ("plain", 1, 1),
    ]
    assert done.sql("SELECT function, captured, count(*) FROM launch GROUP BY 1, 2 ORDER BY 1, 2") == [
        ("mcGraphLaunch", False, 4),
        ("mcLaunchKernel", False, 1),
        ("mcLaunchKernel", True, 1),
    ]
    assert {severity for severity, _ in done.losses().values()} == {"note"}


@pytest.mark.parametrize(
    ("api", "functions"),
    [
        ("launches", {"mcLaunchKernel"}),
        ("off", set()),
        ("mcMem*", {"mcLaunchKernel", "mcMemcpy", "mcMemset"}),
        ("all", {"mcLaunchKernel", "mcGetDevice", "mcMemcpy", "mcMemset", "mcMalloc", "mcFree"}),
    ],
)
@pytest.mark.parametrize("lacks", ["", "NAMES"])
def test_the_calls_that_were_asked_for_are_recorded(
    maca: Maca, tmp_path: Path, api: str, functions: set[str], lacks: str
) -> None:
    more = {"WARPSIGHT_MCPTI": maca.lacking(lacks)} if lacks else {}
    done = maca.record(tmp_path, "device", "launch:saxpy:3", "copy:10", options=("--api", api), **more)
    rows = done.sql("SELECT DISTINCT function FROM api UNION SELECT DISTINCT function FROM launch")
    assert {row[0] for row in rows} == functions
    assert done.sql("SELECT count(*) FROM kernel") == [(3,)]


def test_a_library_that_lacks_what_all_need_is_named(maca: Maca, tmp_path: Path) -> None:
    done = maca.record(tmp_path, "launch:saxpy:3", "exit:5", WARPSIGHT_MCPTI=maca.lacking("NEXT_RECORD"))
    assert done.code == 5
    assert done.loss("mcptiActivityGetNextRecord")[0] == "ended"


def test_without_callbacks_the_gpus_work_is_still_recorded(maca: Maca, tmp_path: Path) -> None:
    done = maca.record(tmp_path, "launch:saxpy:30", "sync", WARPSIGHT_MCPTI=maca.lacking("CALLBACKS"))
    assert done.sql("SELECT count(*), count(stack) FROM kernel") == [(30, 0)]
    assert done.loss("mcptiSubscribe")[0] == "lost"


def test_without_a_clock_the_trace_says_whose_times_it_has(maca: Maca, tmp_path: Path) -> None:
    done = maca.record(tmp_path, "launch:saxpy:4", "sync", WARPSIGHT_MCPTI=maca.lacking("CLOCK"))
    assert done.sql("SELECT count(*) FROM kernel") == [(4,)]
    assert done.loss("mcptiGetTimestamp")[0] == "lost"


def test_a_newer_version_is_read_where_18_has_its_fields(maca: Maca, tmp_path: Path) -> None:
    done = maca.record(tmp_path, "launch:saxpy:6", "sync", says="version=21")
    assert done.sql("SELECT count(*) FROM kernel WHERE name = 'saxpy' AND grid_x = 4") == [(6,)]
    assert done.loss("newer than 18")[0] == "note"


def test_an_older_version_is_left_to_mctracer(maca: Maca, tmp_path: Path) -> None:
    done = maca.record(tmp_path, "launch:saxpy:6", says="version=17")
    assert done.code == 1
    assert "mcTracer, which is not installed here" in done.errors
    assert not done.path.exists() and not done.log  # the program was not run
    own = maca.record(tmp_path, "launch:saxpy:6", options=("--recorder", "own"), says="version=17")
    assert own.code == 1 and "version 18 or newer" in own.errors


def test_a_library_that_cannot_be_loaded_costs_the_recording_not_the_program(
    maca: Maca, tmp_path: Path
) -> None:
    broken = tmp_path / "libmcpti.so"
    broken.write_text("not a library")
    done = maca.record(tmp_path, "launch:saxpy:3", "exit:4", WARPSIGHT_MCPTI=str(broken))
    assert done.code == 4 and len(done.did("kernel")) == 3
    assert done.loss("WARPSIGHT_MCPTI names a file that cannot be loaded")[0] == "ended"


def test_without_mcpti_mctracer_is_run(maca: Maca, tmp_path: Path) -> None:
    """As does every option that only mcTracer takes, wherever MCPTI is."""
    alone = tmp_path / "sdk/lib"
    alone.mkdir(parents=True)
    shutil.copy(maca.folder / "lib/libmcruntime.so", alone)
    done = maca.record(tmp_path, "launch:saxpy:3", MACA_PATH=str(tmp_path / "sdk"))
    assert done.code == 1 and "--backend maca runs mcTracer, which is not installed here" in done.errors
    kept = maca.record(tmp_path, "launch:saxpy:3", options=("--keep",))
    assert kept.code == 1 and "--backend maca runs mcTracer" in kept.errors


def test_a_program_killed_with_sigkill_leaves_what_was_handed_over(maca: Maca, tmp_path: Path) -> None:
    done = maca.record(tmp_path, "launch:saxpy:700", "sync", "flush", "signal:9")
    assert done.code == 137
    assert done.sql("SELECT count(*) FROM kernel WHERE duration IS NOT NULL") == [(700,)]
    assert done.sql("SELECT count(*) FROM launch") == [(700,)]
    assert done.sql("SELECT exit FROM process") == [("signal 9",)]


def test_a_forked_child_is_left_alone(maca: Maca, tmp_path: Path) -> None:
    done = maca.record(tmp_path, "launch:parent:5", "fork", "launch:parent:5", "sync")
    assert done.code == 0, done.errors
    assert Counter(k["name"] for k in done.did("kernel")) == {"parent": 10, "in_child": 1}
    assert done.sql("SELECT name, count(*) FROM kernel GROUP BY 1") == [("parent", 10)]


def test_a_subscription_of_somebody_else_is_waited_for(maca: Maca, tmp_path: Path) -> None:
    done = maca.record(tmp_path, "launch:saxpy:5", says="refuse_subscribe=1000000")
    assert done.code == 0
    assert done.loss("another profiler in this process")[0] == "lost"
    assert done.sql("SELECT count(*) FROM kernel") == [(0,)]


def test_what_mcpti_loses_is_counted(maca: Maca, tmp_path: Path) -> None:
    done = maca.record(tmp_path, "launch:saxpy:40", "sync", says="zero_every=10,drop=3")
    assert done.loss("timestamps of a kernel were zero") == ("lost", 4)
    assert done.loss("MCPTI had no buffer for these records") == ("lost", 3)
    assert done.sql("SELECT count(*), count(duration) FROM kernel") == [(40, 36)]


def test_records_that_make_no_sense_are_counted_not_believed(maca: Maca, tmp_path: Path) -> None:
    done = maca.record(
        tmp_path, "launch:saxpy:40", "sync", says="nonsense_every=20", options=("--api", "off")
    )
    assert done.loss("make no sense") == ("lost", 2)
    assert done.sql("SELECT count(*) FROM kernel") == [(38,)]


def test_kinds_that_mcpti_is_not_known_to_have_are_refused(maca: Maca, tmp_path: Path) -> None:
    done = maca.record(tmp_path, "launch:saxpy:2", "copy:10", options=("--trace", "kernel,memory,sync"))
    assert "memory (not known of MCPTI)" in next(c for c in done.losses() if "cannot" in c)
    assert (done.sql("SELECT count(*) FROM kernel"), done.sql("SELECT count(*) FROM memcpy")) == (
        [(2,)],
        [(0,)],
    )


def test_a_pattern_that_matched_nothing_is_told_by_our_recorder_of_maca(maca: Maca, tmp_path: Path) -> None:
    done = maca.record(tmp_path, "launch:saxpy:2", "sync", options=("--kernels", "sa*", "--kernels", "gemm*"))
    assert done.sql("SELECT source, cause FROM loss WHERE cause LIKE '%pattern%'") == [
        ("maca", "kernel pattern 'gemm*' matched no kernel")
    ]


def test_a_range_that_only_cuda_programs_can_give_is_refused(maca: Maca, tmp_path: Path) -> None:
    done = maca.record(tmp_path, "launch:saxpy:2", options=("--capture-range", "profiler-api"))
    assert done.code == 2 and "--capture-range profiler-api is the CUDA recorder's" in done.errors
    assert not done.log and not done.path.exists()


def test_a_program_of_another_kind_is_not_disturbed(maca: Maca, tmp_path: Path) -> None:
    script = "import ctypes, sys; assert ctypes.CDLL(None).getpid() > 0; sys.exit(9)"
    done = maca.record(tmp_path, program=[sys.executable, "-c", script])
    assert done.code == 9
    assert not done.losses()


def in_process(maca: Maca, where: Path, body: str) -> Done:
    """A Python program that records itself."""
    script = where / "own.py"
    script.write_text(PYTHON + "import warpsight as ws\n" + textwrap.dedent(body))
    done = subprocess.run([sys.executable, str(script)], cwd=where, capture_output=True, text=True, timeout=TIMEOUT, check=False,
                          env=maca.environment(where, LD_LIBRARY_PATH=str(maca.folder / "lib")))  # fmt: skip
    log = (where / "log").read_text().splitlines()
    return Done(done.returncode, done.stderr, where / "t.warp", [json.loads(line) for line in log])


def test_ws_record_takes_a_process_that_has_the_runtime(maca: Maca, tmp_path: Path) -> None:
    done = in_process(
        maca,
        tmp_path,
        """
        maca = load()
        with ws.record("t.warp"):
            train(maca)
        step(maca, 3)
        """,
    )
    assert done.code == 0, done.errors
    assert len(done.did("kernel")) == 8
    assert done.sql("SELECT count(*), count(stack), count(duration) FROM kernel") == [(5, 5, 5)]
    assert done.loss("recording began after MACA's runtime was loaded")[0] == "note"


def test_a_second_recording_of_one_process_begins_anew(maca: Maca, tmp_path: Path) -> None:
    done = in_process(
        maca,
        tmp_path,
        """
        maca = load()
        with ws.record("first.warp"):
            step(maca, 2)
        step(maca, 1)
        with ws.record("t.warp"):
            step(maca, 4)
        """,
    )
    assert done.code == 0, done.errors
    assert done.sql("SELECT count(*), count(duration), count(stack) FROM kernel") == [(4, 4, 4)]
    assert done.sql("SELECT DISTINCT function FROM launch") == [("mcLaunchKernel",)]
    assert done.sql("SELECT vendor FROM device") == [("MetaX",)]


def test_what_was_preloaded_stays_preloaded(maca: Maca, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPSIGHT_LIBRARY", str(maca.library))
    settings = Settings(backend="maca")
    entry = str(maca.library.resolve().with_name("libwarpsight_maca.so"))
    first = recorder_variables(settings, {PRELOAD: "/opt/maca/lib/libsymbol_cu.so"})[PRELOAD]
    assert first == f"{entry}:/opt/maca/lib/libsymbol_cu.so"
    assert recorder_variables(settings, {PRELOAD: first})[PRELOAD] == first  # a recording inside a recording
    assert PRELOAD not in recorder_variables(Settings(), {})


def test_without_the_backend_a_program_of_maca_is_named_not_passed_over(
    maca: Maca, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MACA_PATH", str(maca.folder))
    script = tmp_path / "train.py"
    script.write_text(PYTHON + "train(load())\nprint('ready', flush=True)\nsys.stdin.read()\n")
    where = maca.environment(tmp_path, LD_LIBRARY_PATH=str(maca.folder / "lib"))
    said: list[str] = []
    watch = Unrecorded(maca.library, said.append, backend="auto")
    with subprocess.Popen([sys.executable, str(script)], env=where, cwd=tmp_path, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as child:  # fmt: skip
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        for _ in range(3):
            watch.look()
        child.communicate(timeout=TIMEOUT)
    assert len(said) == 1
    assert f"process {child.pid} (" in said[0] and "uses MACA" in said[0] and "--backend maca" in said[0]


def test_doctor_says_that_it_is_untested(maca: Maca, tmp_path: Path) -> None:
    environment = maca.environment(tmp_path)
    done = subprocess.run([sys.executable, "-m", "warpsight.ui.cli", "doctor"], env=environment, capture_output=True, text=True,
                          timeout=TIMEOUT, check=False)  # fmt: skip
    row = next(line for line in done.stdout.splitlines() if "MetaX recording" in line)
    assert f"{maca.folder}/lib/libmcpti.so, API version 18: untested on hardware" in row
    bare = {**environment, "MACA_PATH": os.devnull}
    done = subprocess.run([sys.executable, "-m", "warpsight.ui.cli", "doctor"], env=bare, capture_output=True, text=True,
                          timeout=TIMEOUT, check=False)  # fmt: skip
    assert "MetaX" not in done.stdout
