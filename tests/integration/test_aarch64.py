"""The recorder on aarch64, from this machine: compiled with every warning an error, and run by an emulator.

An emulator of one processor on another keeps the other's order of memory accesses, so this says nothing of that order.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

import warpsight.model
from tests.integration.standin_programs import environment

ROOT = Path(__file__).parents[2]
COMPILER = "aarch64-linux-gnu-g++"
EMULATORS = ("qemu-aarch64-static", "qemu-aarch64")
#: Where Debian's cross compiler keeps the C library that its programs load.
SYSROOT = "/usr/aarch64-linux-gnu"

CRCS = """
#include "ring/crc32.h"
#include <cstdio>
#include <cstring>
#include <sys/auxv.h>
int main(int count, char** arguments) {
  for (int i = 1; i < count; ++i) printf("%u\\n", warpsight::crc32(0, arguments[i], strlen(arguments[i])));
  printf("%d\\n", static_cast<int>(getauxval(AT_HWCAP) >> 7 & 1));
}
"""


@pytest.fixture(scope="module")
def compiler() -> str:
    found = shutil.which(COMPILER)
    if found is None:
        pytest.skip(f"no {COMPILER} (Debian: g++-aarch64-linux-gnu)")
    return found


@pytest.fixture(scope="module")
def emulator() -> list[str]:
    found = next(filter(None, map(shutil.which, EMULATORS)), None)
    if found is None or not Path(SYSROOT).is_dir():
        pytest.skip("no emulator of aarch64 (Debian: qemu-user-static)")
    return [found, "-L", SYSROOT]


@pytest.fixture(scope="module")
def built(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the libraries, compiled for aarch64."""
    folder = tmp_path_factory.mktemp("aarch64")
    if shutil.which("cmake") is None:
        pytest.skip("no CMake")
    settings = {
        "CMAKE_SYSTEM_NAME": "Linux",
        "CMAKE_SYSTEM_PROCESSOR": "aarch64",
        "CMAKE_CXX_COMPILER": compiler,
        # What an optimiser warns of, this machine's build shows; without one it takes a third of the time.
        "CMAKE_BUILD_TYPE": "Debug",
        "CMAKE_CXX_FLAGS_DEBUG": "-O0",
        "WARPSIGHT_WARNINGS_AS_ERRORS": "ON",
    }
    configure = [
        "cmake",
        "-S",
        str(ROOT),
        "-B",
        str(folder),
        *(f"-D{name}={value}" for name, value in settings.items()),
    ]
    for command in (
        configure,
        ["cmake", "--build", str(folder), "--parallel", str(len(os.sched_getaffinity(0)))],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return folder / "native"


def test_the_libraries_are_aarch64s_and_need_only_libc(built: Path) -> None:
    for library in sorted(built.glob("*.so")):
        assert struct.unpack_from("<H", library.read_bytes(), 18) == (183,)  # EM_AARCH64
        said = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
        needed = {line.split("[")[1].rstrip("]") for line in said.splitlines() if "(NEEDED)" in line}
        assert needed <= {"libc.so.6", "libm.so.6", "ld-linux-aarch64.so.1"}


def test_an_installation_has_library_and_header(built: Path, tmp_path: Path) -> None:
    subprocess.run(
        ["cmake", "--install", str(built.parent), "--prefix", str(tmp_path)], check=True, capture_output=True
    )
    installed = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert {"libwarpsight.so", "warpsight.h"} <= installed
    assert (tmp_path / "include" / "warpsight.h").is_file()


def test_its_instruction_gives_the_same_crc(compiler: str, emulator: list[str], tmp_path: Path) -> None:
    (tmp_path / "crcs.cpp").write_text(CRCS)
    native = ROOT / "native"
    command = [
        compiler,
        "-O2",
        "-std=c++17",
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-I{native}",
        "-o",
        tmp_path / "crcs",
    ]
    subprocess.run([*command, tmp_path / "crcs.cpp", native / "ring" / "crc32.cpp"], check=True)
    texts = ["x" * n + "warpsight" * (n % 5) for n in (0, 1, 7, 8, 9, 63, 64, 65, 1000, 4093)]
    done = subprocess.run([*emulator, tmp_path / "crcs", *texts], capture_output=True, text=True, check=True)
    *crcs, has_instruction = map(int, done.stdout.split())
    assert has_instruction
    assert crcs == [zlib.crc32(text.encode()) for text in texts]


def test_a_program_is_recorded(
    built: Path, compiler: str, emulator: list[str], library: Path, tmp_path: Path
) -> None:
    """The launcher is this machine's, the program and the recorder inside it are aarch64's."""
    source = ROOT / "examples" / "native" / "annotate.c"
    program = tmp_path / "annotate"
    include = ROOT / "native" / "include"
    subprocess.run(
        [compiler, "-x", "c++", f"-I{include}", str(source), "-o", program, "-pthread", "-ldl"], check=True
    )
    within = ["env", f"WARPSIGHT_LIBRARY={built / 'libwarpsight.so'}", *emulator, str(program)]
    command = [sys.executable, "-m", "warpsight.ui.cli", "record", "--sample", "0", "--counters", "off"]
    folder = tmp_path / "a.warp"
    done = subprocess.run(
        [*command, "-o", str(folder), "--", *within],
        env=environment(library),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["loss"]
    assert not [row for row in told if row["severity"] == "lost"]
    with warpsight.model.open(folder) as trace:
        assert trace.count("marker") > 0
        names = {name for (name,) in trace.sql("SELECT DISTINCT name FROM marker").fetchall()}
    assert names & {"load", "compute", "step"}
