"""warpsight.h in native programs: recorded under a launcher, nothing at all without one."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import generated_headers
from tests.integration.launcher_stand_in import Launcher, finish

ROOT = Path(__file__).parents[2]

STUCK = """
#include "runtime/runtime.h"
#include "stacks/stacks.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
namespace warpsight {
void prepare_stacks() {}
uint32_t capture_stack(int) { return 0; }
void report_unheard_directives() {}
struct Stuck : Recorder {
  const char* name() const override { return "stuck"; }
  void start() override {}
  void stop() override {}
  void flush(bool forced) override { while (forced) pause(); }
};
}
int main(int, char** arguments) {
  if (!warpsight::ensure_runtime()) return 1;
  warpsight::add_recorder(new warpsight::Stuck);
  warpsight::report_loss("test", "before the end");
  if (strcmp(arguments[1], "quick_exit") == 0) quick_exit(7);
  return 7;
}
"""


@pytest.fixture
def launcher(library: Path) -> Iterator[Launcher]:
    """A launcher that dies with its programs."""
    launcher = Launcher(library)
    yield launcher
    launcher.close()


@pytest.fixture(scope="module", params=["c", "c++"])
def example(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example program, compiled as C and as C++ with all warnings on."""
    compiler = shutil.which("cc" if request.param == "c" else "c++")
    if compiler is None:
        pytest.skip("no C compiler")
    program = tmp_path_factory.mktemp("header") / "annotate"
    flags = ["-x", request.param, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread"]
    source = ROOT / "examples" / "native" / "annotate.c"
    subprocess.run(
        [compiler, *flags, f"-I{ROOT / 'native' / 'include'}", source, "-o", program, "-ldl"], check=True
    )
    return program


def test_an_annotated_program_is_recorded(example: Path, launcher: Launcher) -> None:
    program = subprocess.Popen([example], env=launcher.environment(), text=True, stdout=subprocess.PIPE)
    launcher.programs.append(program)
    recorded = launcher.accept()
    finish(program)
    recording = launcher.drain(recorded)
    text = recording.strings
    assert [row["phase"] for row in recording["Marker"]] == [1, 2] * 10 + [5]
    assert [text[int(row["name"])] for row in recording["UserEvent"]] == ["work"] * 10
    assert all(row["duration"] > 0 for row in recording["UserEvent"])
    assert [text[int(row["name"])] for row in recording["Counter"]] == ["sum"] * 10


def test_without_a_recording_the_program_runs_just_the_same(example: Path, library: Path) -> None:
    bare = {k: v for k, v in os.environ.items() if not k.startswith("WARPSIGHT")}
    for extra in ({}, {"WARPSIGHT_LIBRARY": str(library)}, {"WARPSIGHT_LIBRARY": "/nowhere/libwarpsight.so"}):
        done = subprocess.run([example], env=bare | extra, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, "7.626862\n", "")


@pytest.fixture(scope="module")
def stuck(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program whose recorder never comes back from its last flush."""
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    build = tmp_path_factory.mktemp("stuck")
    native = ROOT / "native"
    generated_headers.write(build)
    (build / "stuck.cpp").write_text(STUCK, encoding="utf-8")
    sources = [build / "stuck.cpp", *native.glob("ring/*.cpp"), *native.glob("runtime/*.cpp")]
    subprocess.run(
        [
            compiler,
            "-std=c++17",
            f"-I{build}",
            f"-I{native}",
            *sources,
            "-o",
            build / "stuck",
            "-lpthread",
            "-ldl",
        ],
        check=True,
    )
    return build / "stuck"


@pytest.mark.parametrize("end", ["exit", "quick_exit"])
def test_a_recorder_that_hangs_does_not_keep_the_program_from_ending(
    stuck: Path, launcher: Launcher, end: str
) -> None:
    program = subprocess.Popen([stuck, end], env=launcher.environment(), text=True, stdout=subprocess.PIPE)
    launcher.programs.append(program)
    recorded = launcher.accept()
    finish(program, 7)
    assert ("test", "before the end", 1) in launcher.drain(recorded).losses()
