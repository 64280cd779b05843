"""What the ring tests share: the stress program, compiled once, and the library's drainer."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def ring_stress(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stress program built from native/ring."""
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    build = tmp_path_factory.mktemp("ring")
    native = ROOT / "native"
    layout = ROOT / "src" / "warpsight" / "capture" / "layout.py"
    subprocess.run(
        [sys.executable, native / "ring" / "generate_layout.py", layout, build / "layout.h"], check=True
    )
    program = build / "ring_stress"
    sources = [Path(__file__).with_name("ring_stress.cpp"), *sorted((native / "ring").glob("*.cpp"))]
    flags = ["-O2", "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{build}", f"-I{native}"]
    subprocess.run([compiler, *flags, *sources, "-o", program, "-lpthread"], check=True)
    return program


@pytest.fixture(scope="session")
def native(library: Path) -> ctypes.CDLL:
    """The library with the signatures of its drainer and writer."""
    lib = ctypes.CDLL(str(library))
    lib.ws_drain_open.restype = ctypes.c_void_p
    lib.ws_drain_open.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_uint64]
    lib.ws_drain_poll.argtypes = [ctypes.c_void_p, ctypes.c_int]
    lib.ws_drain_rotate.argtypes = [ctypes.c_void_p]
    lib.ws_drain_close.argtypes = [ctypes.c_void_p]
    lib.ws_drain_statistic.argtypes = [ctypes.c_void_p, ctypes.c_int]
    lib.ws_drain_statistic.restype = ctypes.c_uint64
    return lib
