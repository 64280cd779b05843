"""Dumps made here, read against cuda-gdb; a live process sampled; Compute Sanitizer's reports: each on a real GPU."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.gpu.broken.truth import PROGRAMS, truths
from warpsight.debug import cuda_gdb
from warpsight.debug.cuda_gdb_check import compare
from warpsight.debug.gpucore import GpuCore
from warpsight.debug.gpucore.summary import summarise
from warpsight.debug.sanitizer import sanitize

pytestmark = pytest.mark.gpu
CRASHES = [
    "illegal_address",
    "misaligned_address",
    "shared_out_of_range",
    "device_assert",
    "trap",
    "stack_overflow",
]
FLAGS = "skip_nonrelocated_elf_images,skip_global_memory,skip_constbank_memory"


def build(name: str, folder: Path) -> Path:
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not installed")
    binary = folder / name
    command = [
        "nvcc",
        "-std=c++17",
        "-arch=native",
        "-lineinfo",
        "-o",
        str(binary),
        str(PROGRAMS / f"{name}.cu"),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return binary


def needs_debugger() -> None:
    if cuda_gdb.find() is None:
        pytest.skip("cuda-gdb is not installed")


@pytest.mark.parametrize("name", CRASHES)
def test_a_crash_has_its_line_and_is_read_as_cuda_gdb_reads_it(name: str, tmp_path: Path) -> None:
    binary = build(name, tmp_path)
    environment = dict(
        os.environ, CUDA_ENABLE_COREDUMP_ON_EXCEPTION="1", CUDA_COREDUMP_FILE=str(tmp_path / "core"),
        CUDA_COREDUMP_GENERATION_FLAGS=FLAGS,
    )  # fmt: skip
    environment.pop("CUDA_INJECTION64_PATH", None)
    subprocess.run([binary], env=environment, capture_output=True, timeout=60, check=False)
    core = GpuCore.open(tmp_path / "core")
    fault = summarise(core)["faults"][0]
    truth = truths()[name]
    lines = [frame["line"] for frame in fault["at"]["frames"]]
    assert tuple(fault["where"]["block"]) == truth.fault_block
    assert len(lines) == len(truth.places[0].chain)
    assert all(line in allowed for line, (_, allowed) in zip(lines, truth.places[0].chain, strict=True))
    needs_debugger()
    differences, report = compare(core)
    assert differences == 0, "\n".join(report["lines"])


@contextmanager
def running(binary: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([binary], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "launched\n"
        time.sleep(0.5)  # the kernel's start is not visible from outside
        try:
            yield process
        finally:
            process.kill()


def test_memcheck_finds_the_line_of_an_illegal_address(tmp_path: Path) -> None:
    run = sanitize("memcheck", [str(build("illegal_address", tmp_path))])
    if any("not supported" in trouble for trouble in run.troubles):
        pytest.skip(f"compute-sanitizer does not work here: {run.troubles[0]}")
    access = next(finding for finding in run.findings if finding.frames)
    expected = [(function, min(lines)) for function, lines in truths()["illegal_address"].places[0].chain]
    assert [(frame.function, frame.line) for frame in access.frames] == expected
    assert ((5, 0, 0), (7, 0, 0)) in access.threads
