"""libwarpsight.so can be loaded into any program, however late."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from warpsight import _native

LIBRARY = _native.library_path()
pytestmark = [
    pytest.mark.skipif(LIBRARY is None, reason="this build has no libwarpsight.so"),
    pytest.mark.skipif(shutil.which("readelf") is None, reason="readelf (binutils) is not installed"),
]


def dynamic_section() -> str:
    return subprocess.run(["readelf", "-dW", str(LIBRARY)], capture_output=True, text=True, check=True).stdout


def test_it_needs_no_static_tls():
    """A program with many libraries has none left: the driver would then skip the injection without a word."""
    assert "STATIC_TLS" not in dynamic_section()


def test_it_links_to_nothing_but_libc():
    needed = {line.split("[")[1].rstrip("]") for line in dynamic_section().splitlines() if "(NEEDED)" in line}
    assert needed <= {
        "libc.so.6",
        "libm.so.6",
        "libpthread.so.0",
        "libdl.so.2",
        "ld-linux-x86-64.so.2",
        "ld-linux-aarch64.so.1",
    }
