"""OpenMP and OpenACC ranges: against a stand-in for both runtimes, and with real ones where compilers have them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

import warpsight
from tests.integration.recorded import TIMEOUT, environment, launcher
from tests.standin import recording

OPENMP = """
#include <unistd.h>
int main(void) {
#pragma omp parallel num_threads(3)
  {
#pragma omp for
    for (int i = 0; i < 300; ++i) usleep(1);
#pragma omp single
    for (int i = 0; i < 5; ++i) {
#pragma omp task
      usleep(100);
    }
#pragma omp barrier
  }
#pragma omp parallel num_threads(2)
  usleep(100);
  return 0;
}
"""
OPENACC = """
int main(void) {
  float a[100];
  for (int i = 0; i < 100; ++i) a[i] = i;
#pragma acc data copy(a)
  {
#pragma acc parallel loop
    for (int i = 0; i < 100; ++i) a[i] *= 2;
#pragma acc update host(a)
  }
  return a[7] != 14;
}
"""


def run(
    library: Path, path: Path, program: list[str], *options: str, **more: str
) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in environment(library).items() if not k.startswith(("OMP_", "ACC_"))}
    command = launcher("-o", str(path), "--sample", "off", "--counters", "off", *options, "--", *program)
    return subprocess.run(
        command, env={**clean, **more}, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )


def recorded(library: Path, path: Path, program: list[str], *options: str, **more: str) -> warpsight.Trace:
    done = run(library, path, program, *options, **more)
    assert done.returncode == 0, done.stderr
    return warpsight.open(path)


@pytest.fixture(scope="module")
def standin(tmp_path_factory: pytest.TempPathFactory) -> str:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler")
    program = tmp_path_factory.mktemp("directives") / "directives"
    source = recording.SOURCES / "directives.c"
    subprocess.run([compiler, "-Wall", "-o", program, source, "-ldl"], check=True)
    return str(program)


def notes(trace: warpsight.Trace, source: str) -> list[str]:
    return [
        cause
        for (cause,) in trace.sql("SELECT cause FROM loss WHERE source = $source", source=source).fetchall()
    ]


RANGES = "SELECT name, kind, depth, open FROM marker WHERE source = $source ORDER BY start, depth"


def test_openmp_regions_tasks_and_waits_are_ranges(library: Path, standin: str, tmp_path: Path) -> None:
    trace = recorded(library, tmp_path / "t.warp", [standin, "openmp"], "--trace", "openmp")
    assert trace.sql(RANGES, source="openmp").fetchall() == [
        ("parallel", "push/pop", 0, False),
        ("implicit task", "push/pop", 1, False),
        ("loop", "push/pop", 2, False),
        ("task created", "instant", None, False),
        ("task", "start/end", None, False),
        ("critical wait", "push/pop", 2, False),
        ("target", "push/pop", 2, False),
        ("barrier wait (end of parallel)", "push/pop", 2, False),
    ]
    (told,) = trace.sql("SELECT attributes FROM marker WHERE name = 'parallel'").fetchall()
    attributes = json.loads(told[0])
    assert attributes["threads"] == 4
    assert attributes["module"] == os.path.realpath(standin)
    assert not notes(trace, "openmp")


def test_openacc_constructs_are_ranges_and_allocations_moments(
    library: Path, standin: str, tmp_path: Path
) -> None:
    trace = recorded(library, tmp_path / "t.warp", [standin, "openacc"], "--trace", "openacc")
    assert trace.sql(RANGES, source="openacc").fetchall() == [
        ("enter data", "push/pop", 0, False),
        ("alloc", "instant", None, False),
        ("enqueue upload", "push/pop", 1, False),
        ("compute construct", "push/pop", 0, False),
        ("enqueue launch", "push/pop", 1, False),
    ]
    told = dict(trace.sql("SELECT name, attributes FROM marker").fetchall())
    where = {"file": "solver.c", "line": 42, "function": "solve", "construct": "parallel"}
    assert json.loads(told["enqueue launch"]) == {
        **where, "kernel": "solve_42_gpu", "gangs": 16, "workers": 8, "vector": 128,
    }  # fmt: skip
    assert json.loads(told["alloc"]) == {**where, "variable": "a", "bytes": 4096}
    assert trace.sql("SELECT payload FROM marker WHERE name = 'alloc'").fetchall() == [(4096.0,)]


def test_neither_is_there_unless_it_is_asked_for(library: Path, standin: str, tmp_path: Path) -> None:
    done = run(library, tmp_path / "t.warp", [standin, "openmp", "openacc"])
    assert done.stdout.split("\n")[:2] == ["no tool", "no library"]


def test_a_process_without_such_a_runtime_says_so(library: Path, standin: str, tmp_path: Path) -> None:
    trace = recorded(library, tmp_path / "t.warp", [standin, "openacc"], "--trace", "openmp,openacc")
    assert "no OpenMP runtime with a tools interface" in notes(trace, "openmp")[0]
    assert not notes(trace, "openacc")


def test_the_summary_counts_ranges_and_says_what_no_runtime_told(
    library: Path, standin: str, tmp_path: Path
) -> None:
    done = run(library, tmp_path / "t.warp", [standin, "openmp"], "--trace", "openmp,openacc")
    assert "program:    8 ranges and marks" in done.stderr
    assert "note:       no OpenACC runtime began" in done.stderr
    assert "no OpenMP runtime" not in done.stderr


def test_a_program_without_anything_that_could_be_recorded_says_so(library: Path, tmp_path: Path) -> None:
    trace = recorded(library, tmp_path / "t.warp", ["true"], "--trace", "openmp")
    assert notes(trace, "openmp") == [
        "no OpenMP runtime with a tools interface (GCC's has none) began in the program, and nothing in it used a GPU"
    ]
    assert not notes(trace, "openacc")


def test_a_forked_child_tells_nothing(library: Path, standin: str, tmp_path: Path) -> None:
    trace = recorded(library, tmp_path / "t.warp", [standin, "openmp"], "--trace", "openmp", FORKS="1")
    assert trace.sql("SELECT count(*) FROM marker WHERE name = 'parallel'").fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("kinds", "variable", "value"),
    [("openmp", "OMP_TOOL", "disabled"), ("openacc", "ACC_PROFLIB", "/other.so")],
)
def test_what_forbids_it_is_refused_in_one_line(
    library: Path, tmp_path: Path, kinds: str, variable: str, value: str
) -> None:
    done = run(library, tmp_path / "t.warp", ["true"], "--trace", kinds, **{variable: value})
    assert done.returncode == 2
    assert variable in done.stderr
    assert done.stderr.count("\n") == 1


def test_other_openmp_tools_come_after_ours(library: Path, tmp_path: Path) -> None:
    done = run(
        library, tmp_path / "t.warp", ["sh", "-c", "echo $OMP_TOOL_LIBRARIES"], "--trace", "openmp",
        OMP_TOOL_LIBRARIES="/opt/tool.so",
    )  # fmt: skip
    assert done.stdout.split()[0].split(":")[1:] == ["/opt/tool.so"], done.stderr


def compiled(tmp_path: Path, compiler: str, source: str, *flags: str) -> list[str]:
    """Compile a C program, or skip: not every compiler has every runtime."""
    found = shutil.which(compiler)
    if found is None:
        pytest.skip(f"no {compiler}")
    (tmp_path / "program.c").write_text(source)
    program = tmp_path / "program"
    done = subprocess.run(
        [found, *flags, "-o", program, tmp_path / "program.c"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"{compiler} {' '.join(flags)} does not work here")
    return [str(program)]


def test_a_real_openmp_program(library: Path, tmp_path: Path) -> None:
    program = compiled(tmp_path, "clang", OPENMP, "-fopenmp")
    trace = recorded(library, tmp_path / "t.warp", program, "--trace", "openmp")
    rows = trace.sql("SELECT name, thread, open FROM marker WHERE source = 'openmp'").fetchall()
    found = Counter(name for name, _, _ in rows)
    assert (found["parallel"], found["implicit task"], found["loop"]) == (2, 5, 3)
    assert found["single"] == 1
    assert found["task"] == found["task created"] == 5
    assert len({thread for name, thread, _ in rows if name == "implicit task"}) == 3
    assert not any(still for name, _, still in rows if name in ("parallel", "loop", "single", "task"))
    inside = trace.sql(
        """SELECT count(*) FROM marker t JOIN marker p ON p.name = 'parallel' AND t.start >= p.start
        AND t.start + t.duration <= p.start + p.duration WHERE t.name = 'task'"""
    ).fetchall()
    assert inside == [(5,)]


def test_a_real_openacc_program(library: Path, tmp_path: Path) -> None:
    program = compiled(tmp_path, "gcc", OPENACC, "-fopenacc")
    trace = recorded(library, tmp_path / "t.warp", program, "--trace", "openacc")
    found = dict(
        trace.sql(
            "SELECT name, count(duration) FROM marker WHERE source = 'openacc' GROUP BY name"
        ).fetchall()
    )
    assert found["compute construct"] == found["enter data"] == found["exit data"] == found["update"] == 1
