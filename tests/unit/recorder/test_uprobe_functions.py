"""Which functions uprobes are placed on, from a library of our own named like CUDA's."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from warpsight.formats.reading.samples import CALLS, called, is_launch
from warpsight_plugins.uprobe import probes

LIBRARY = """
int cudaLaunchKernel(int grid) { return grid + 1; }
int __cudaLaunchKernel(int grid) __attribute__((alias("cudaLaunchKernel")));
int cudaEventSynchronize(int event) { return event + 2; }
int cudaOther(int x) { return x; }
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
def test_two_names_of_one_function_are_one_probe(tmp_path: Path) -> None:
    (tmp_path / "library.c").write_text(LIBRARY)
    command = ["gcc", "-shared", "-fPIC", "-O1", "-o", "libcudart.so", "library.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    found = probes.functions_in(str(tmp_path / "libcudart.so"))
    assert set(found) == {"cudaLaunchKernel", "cudaEventSynchronize"}


def test_every_function_is_a_call_when_its_stacks_are_read() -> None:
    names = [called(name) for name in probes.FUNCTIONS]
    assert all(CALLS.match(name) for name in names)
    assert all(is_launch(name) for name in names if "Launch" in name)
    for vendor in ("cuda", "cu", "hip"):
        own = " ".join(name for name in names if name.startswith(vendor))
        assert all(what in own for what in ("Launch", "lloc", "Free", "Memcpy", "Synchronize"))
