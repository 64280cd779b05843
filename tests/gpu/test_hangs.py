"""Programs that hang, dumped on a real GPU: the explanation names the cause, in the order of the source's truth.

`WARPSIGHT_BROKEN_DUMPS` names a folder of dumps that `broken/collect.py` has taken; without it each test takes its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.gpu.broken.collect import dump_of_hang
from tests.gpu.broken.truth import PROGRAMS, truths, wrong_about_hang
from warpsight.debug.gpucore import GpuCore
from warpsight.debug.gpucore.summary import SummaryOptions, View

pytestmark = pytest.mark.gpu
TAKEN = os.environ.get("WARPSIGHT_BROKEN_DUMPS")
HANGS = [name for name, truth in truths().items() if truth.kind == "hang" and truth.source.endswith(".cu")]


def dump(name: str, folder: Path) -> Path:
    """A dump of a program: one that was taken before, or a new one."""
    if TAKEN:
        cores = sorted(Path(TAKEN).glob(f"{name}.lineinfo.bare/gpucore.*"))
        if not cores:
            pytest.skip(f"{TAKEN} has no dump of {name}")
        return cores[0]
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not installed")
    binary = folder / name
    command = ["nvcc", "-std=c++17", "-arch=native", "-lineinfo", "-o", str(binary), f"{name}.cu"]
    subprocess.run(command, cwd=PROGRAMS, check=True, capture_output=True, timeout=120)
    core = dump_of_hang([str(binary)], folder)
    assert core is not None, (folder / "log").read_text()
    return core


@pytest.mark.parametrize("name", HANGS)
def test_the_explanation_of_a_hang_names_its_cause_first(name: str, tmp_path: Path) -> None:
    view = View(
        GpuCore.open(dump(name, tmp_path)), SummaryOptions(instructions=False, sources=(str(PROGRAMS),))
    )
    summary = view.document()
    wrong = wrong_about_hang(summary, truths()[name])
    assert not wrong, "\n".join([*wrong, "", *summary["explanation"]])
