"""The OpenCL layer's entry points as loaders of any age call them, and the clock on known offsets."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import generated_headers

NATIVE = Path(__file__).parents[3] / "native"

PROBE = """
import ctypes, sys
layer = ctypes.CDLL(sys.argv[1])
entries = int(sys.argv[2])
target = (ctypes.c_void_p * entries)(*range(0x1000, 0x1000 + entries))
count, table = ctypes.c_uint(), ctypes.POINTER(ctypes.c_void_p)()
print(layer.clInitLayer(entries, target, ctypes.byref(count), ctypes.byref(table)), count.value)
print(sum(table[i] != target[i] for i in range(count.value)), table[1] == target[1])
other = ctypes.POINTER(ctypes.c_void_p)()
layer.clInitLayer(entries, target, ctypes.byref(count), ctypes.byref(other))
print(ctypes.addressof(other.contents) == ctypes.addressof(target))
name, size, version = ctypes.create_string_buffer(64), ctypes.c_size_t(), ctypes.c_uint()
code = layer.clGetLayerInfo(0x4241, ctypes.c_size_t(64), name, ctypes.byref(size))
print(code, name.value.decode(), size.value)
print(layer.clGetLayerInfo(0x4240, ctypes.c_size_t(4), ctypes.byref(version), None), version.value)
print(layer.clGetLayerInfo(0x4240, ctypes.c_size_t(1), ctypes.byref(version), None),
      layer.clGetLayerInfo(7, 0, None, None))
"""


@pytest.mark.parametrize("entries", [60, 149, 200])
def test_loaders_with_fewer_or_more_functions(library: Path, entries: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, library, str(entries)], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert lines[0] == f"0 {min(entries, 149)}", "only entries that both know are filled in"
    wrapped, passes = lines[1].split()
    assert int(wrapped) > 20
    assert passes == "True", "what we do not wrap is the target's own"
    assert lines[2] == "True", "a second loader in the process is left alone"
    assert lines[3:] == ["0 warpsight 10", "0 100", "-30 -30"]


def test_clock(tmp_path: Path) -> None:
    compiler = shutil.which("c++")
    if not compiler or not Path("/usr/include/CL/cl_icd.h").exists():
        pytest.skip("no C++ compiler or no OpenCL headers")
    generated_headers.write(tmp_path)
    program = tmp_path / "clock"
    sources = [Path(__file__).with_name("opencl_clock.cpp"), NATIVE / "opencl" / "clock.cpp"]
    options = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{tmp_path}", f"-I{NATIVE}"]
    subprocess.run([compiler, *options, *map(str, sources), "-o", str(program)], check=True)
    done = subprocess.run([program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
