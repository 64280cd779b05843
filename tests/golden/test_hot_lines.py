"""A recording of `planted all 60` (tests/gpu/hot_lines) made on an H100 with --pc-sampling on: hot lines are those planted.

Paths in it were replaced; nothing else was.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.unit.analysis.test_flame import paths
from warpsight.analysis.flame.graph import Shape, flame
from warpsight.device_code.disassembly import find_tool
from warpsight.model import StoredTrace
from warpsight.model import open as open_trace
from warpsight.model.selection import Rows, begin_of
from warpsight.sass.hotspots import Hotspots, SampledKernel, hotspots

RECORDING = Path(__file__).with_name("h100_hot_lines.warp.zip")
SOURCE = Path(__file__).parents[1] / "gpu" / "hot_lines" / "planted.cu"
#: Kernel → stall reasons of which one must be the first at the planted line.
REASONS = {
    "uncoalesced": ("lg_throttle", "long_scoreboard"),
    "bank_conflict": ("mio_throttle", "short_scoreboard"),
    "long_scoreboard": ("long_scoreboard",),
    "barrier_imbalance": ("barrier",),
    "spill": ("long_scoreboard", "lg_throttle"),
    "division": ("math_pipe_throttle", "wait", "not_selected"),
    "divergent_branch": ("wait",),
    "low_occupancy": ("long_scoreboard",),
    "tail": ("wait",),
    "serial_atomics": ("long_scoreboard",),
}


@pytest.fixture(scope="module")
def trace() -> Iterator[StoredTrace]:
    with open_trace(str(RECORDING)) as opened:
        yield opened


@pytest.fixture(scope="module")
def found(trace: StoredTrace) -> Hotspots:
    return hotspots(trace, levels=("line", "ptx"))


def kernel_of(found: Hotspots, name: str) -> SampledKernel:
    [kernel] = [kernel for kernel in found.kernels if f"::{name}(" in kernel.demangled]
    return kernel


def planted_line(kernel: str) -> int:
    """The line marked `planted` that follows the start of a kernel; add_to is before the one that calls it."""
    lines = SOURCE.read_text().splitlines()
    begin = next(at for at, line in enumerate(lines) if line.startswith(("__global__", "__device__")) and
                 f" {'add_to' if kernel == 'serial_atomics' else kernel}(" in line)  # fmt: skip
    return next(at for at in range(begin, len(lines)) if lines[at].endswith("// planted")) + 1


@pytest.mark.parametrize("name", REASONS)
def test_the_planted_line_is_the_hottest_of_its_kernel(found: Hotspots, name: str) -> None:
    hottest = kernel_of(found, name).levels["line"][0]
    assert planted_line(name) in [
        frame.line for frame in hottest.frames if frame.file.endswith("planted.cu")
    ], hottest
    assert hottest.ordered()[0][0] in REASONS[name]


def test_inlined_calls_are_a_chain_and_the_compilers_own_functions_name_their_caller(found: Hotspots) -> None:
    atomics = kernel_of(found, "serial_atomics").levels["line"][0].frames
    assert [frame.function.split("::")[-1].split("(")[0] for frame in atomics] == [
        "atomicAdd",
        "add_to",
        "serial_atomics",
    ]
    division = kernel_of(found, "division").levels["line"][0].frames
    assert [frame.function.split("::")[-1].split("(")[0] for frame in division] == [
        "__cuda_sm20_div_s64",
        "division",
    ]


def test_every_sample_is_counted_once_at_each_level(trace: StoredTrace, found: Hotspots) -> None:
    ((in_trace, not_issued),) = trace.sql("SELECT sum(samples), sum(not_issued) FROM pc_sample").fetchall()
    assert found.samples == in_trace == sum(kernel.samples for kernel in found.kernels)
    assert sum(kernel.not_issued for kernel in found.kernels) == not_issued
    for kernel in found.kernels:
        assert sum(spot.samples for spot in kernel.levels["line"]) == kernel.samples
        assert sum(samples for _, samples, _ in kernel.ordered()) == kernel.samples
        assert all(idle <= samples for _, samples, idle in kernel.ordered())


def test_ptx_lines_have_their_text(found: Hotspots) -> None:
    hottest = kernel_of(found, "long_scoreboard").levels["ptx"][0]
    assert hottest.ptx_line > 0
    assert hottest.ptx.endswith(";")
    assert "\N{REPLACEMENT CHARACTER}" not in hottest.ptx


@pytest.mark.skipif(find_tool("nvdisasm") is None, reason="nvdisasm is not here")
def test_deferred_stalls_stand_at_the_instruction_that_waits(trace: StoredTrace) -> None:
    kernel = kernel_of(hotspots(trace, Rows(name="barrier_imbalance"), ("instruction",)), "barrier_imbalance")
    assert kernel.levels["instruction"][0].sass.startswith("BAR.SYNC")
    drained = [spot for spot in kernel.levels["instruction"] if "drain" in spot.reasons]
    assert {spot.sass for spot in drained} == {"EXIT"}


def test_a_window_of_time_holds_what_ran_in_it(trace: StoredTrace) -> None:
    begin, middle = begin_of(trace), "SELECT max(start) FROM pc_window"
    last = int(trace.sql(middle).fetchall()[0][0])
    names = {kernel.demangled for kernel in hotspots(trace, Rows(begin=last), ()).kernels}
    assert any("serial_atomics" in name for name in names)
    assert not any("uncoalesced" in name for name in names)
    assert begin < last


def test_the_flame_graph_goes_from_the_host_to_the_stall_and_loses_nothing(trace: StoredTrace) -> None:
    graph = flame(trace, Rows(name="serial_atomics"), Shape("pc-samples"))
    [account] = graph.accounts
    assert account.measured == account.shown > 0
    way, _ = paths(graph).most_common(1)[0]
    order = ("main", "cudaLaunchKernel", "serial_atomics(", "add_to(", "atomicAdd(", "+0x", "long_scoreboard")
    places = [next(at for at, frame in enumerate(way) if words in frame) for words in order]
    assert places == sorted(places)
    kinds = {graph.kinds[label] for label in np.unique(graph.label)}
    assert {"kernel", "source", "instruction", "stall", "native"} <= kinds


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "warpsight.ui.cli", "sass", "hotspots", *arguments], capture_output=True,
                          text=True, check=False)  # fmt: skip


def test_the_text_names_line_reasons_and_the_chain() -> None:
    done = run(str(RECORDING), "--kernels", "1", "--name", "serial_atomics")
    assert done.returncode == 0, done.stderr
    assert "inlined into planted.cu:" in done.stdout
    assert "long_scoreboard 9" in done.stdout


def test_json_and_csv_hold_the_same_samples() -> None:
    told = json.loads(run(str(RECORDING), "--json", "--kernels", "0").stdout)
    rows = list(csv.DictReader(run(str(RECORDING), "--csv", "--kernels", "0").stdout.splitlines()))
    assert told["samples"] == sum(int(row["samples"]) for row in rows)
    kernel = told["kernels"][0]
    assert {"lines", "ptx_lines", "instructions"} <= kernel.keys()
    assert sum(line["samples"] for line in kernel["lines"]) == kernel["samples"]
    assert kernel["lines"][0]["frames"][0]["line"] > 0


def test_a_trace_without_samples_says_how_to_record_some() -> None:
    done = run(str(RECORDING.with_name("h200_empty_kernels.warp.zip")))
    assert done.returncode == 1
    assert "--pc-sampling on" in done.stderr


@pytest.mark.parametrize("arguments", [(), ("a.warp", "b.warp"), ("a.warp", "--", "program"), ("--",),
                                       ("a.warp", "--by", "kernel"), ("a.warp", "--keep", "b.warp")])  # fmt: skip
def test_unclear_questions_are_refused(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
