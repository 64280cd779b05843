"""Work of many kinds, cut out of running programs, leaves the same bytes in a process of its own."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpsight
from warpsight.replay.capsule.store import Capsule

pytestmark = pytest.mark.gpu

HERE = Path(__file__).parent
CUT = ("--range", "cut")

# What is cut: program, options of `capsule record`.
TORCH = {
    name: ("work.py", name, CUT)
    for name in (
        "triton_add", "triton_softmax", "triton_tma", "gemm_bf16", "gemm_fp32", "gemm_batched", "attention_cudnn",
        "attention_flash", "attention_efficient", "convolution", "softmax", "layer_norm", "sort", "cumulative_sum",
        "graph",
    )
}  # fmt: skip
CUDA = {
    "pointers_in_memory": ("capsule_add", ("-k", "*add_listed*", "--launch", "0")),
    "memory_of_a_pool": ("capsule_add", ("-k", "*add_listed*", "--launch", "1")),
    "tensor_map": ("capsule_tma", ()),
    "sort_and_sum": ("replay/sort", CUT),
    "one_pass_of_a_sort": ("replay/sort", ("-k", "*Onesweep*", "--launch", "2")),
}
VARYING = ("triton_atomics", "index_add", "attention_backward")


def _warpsight(*arguments: str | Path, code: int | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "warpsight", *arguments], capture_output=True, text=True, check=False
    )
    assert code is None or done.returncode == code, done.stdout + done.stderr
    return done


def _replay(capsule: Path, *options: str) -> tuple[int, Any]:
    done = _warpsight("replay", capsule, "--json", *options)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def _cut(folder: Path, options: tuple[str, ...], *program: str | Path) -> Path:
    out = folder / "x.capsule"
    _warpsight("capsule", "record", "-o", out, *options, "--", *program, code=0)
    return out


def _cut_torch(folder: Path, name: str) -> Path:
    pytest.importorskip("triton")
    return _cut(folder, CUT, sys.executable, HERE / "replay" / "work.py", name)


def _built(folder: Path, source: str, *flags: str) -> Path:
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc")
    program = folder / "program"
    subprocess.run(
        ["nvcc", "-O2", "-std=c++17", "-arch=sm_90a", *flags, "-o", program, HERE / f"{source}.cu"],
        check=True,
    )
    return program


@pytest.mark.parametrize("name", TORCH)
def test_work_of_pytorch_and_triton_is_bit_exact(tmp_path: Path, name: str) -> None:
    capsule = _cut_torch(tmp_path, name)
    code, found = _replay(capsule, "-n", "5")
    assert code == 0 and found["verdict"] == "bit-exact", found
    assert _replay(capsule, "--check-reach")[0] == 0


@pytest.mark.parametrize("name", CUDA)
def test_work_of_cuda_is_bit_exact(tmp_path: Path, name: str) -> None:
    source, options = CUDA[name]
    capsule = _cut(tmp_path, options, _built(tmp_path, source))
    code, found = _replay(capsule, "-n", "5")
    assert code == 0 and found["verdict"] == "bit-exact", found
    assert _replay(capsule, "--check-reach")[0] == 0


@pytest.mark.parametrize("name", VARYING)
def test_atomics_are_named(tmp_path: Path, name: str) -> None:
    code, found = _replay(_cut_torch(tmp_path, name), "-n", "20")
    assert code == 5 and found["versions"][0]["runs_differ"][0]["kernel"], found


def test_a_decode_step_takes_as_long_as_in_its_program(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    program = (sys.executable, HERE / "replay" / "decode.py")
    alone = float(subprocess.run(program, capture_output=True, text=True, check=True).stdout)
    code, found = _replay(_cut(tmp_path, ("--step", "20"), *program), "-n", "20")
    assert code == 0, found
    replayed = statistics.median(found["versions"][0]["totals_ns"]) / 1000
    assert abs(replayed - alone) < 0.05 * alone, (replayed, alone)


@pytest.mark.parametrize(("word", "which", "code"), [("slow", "slowest", 0), ("fault", "faulted", 6)])
def test_the_launch_that_stands_out_is_cut_out(tmp_path: Path, word: str, which: str, code: int) -> None:
    capsule = tmp_path / "x.capsule"
    options = ("-k", "*wait_for*", "--when", which)
    done = _warpsight(
        "capsule", "record", "-o", capsule, *options, "--", _built(tmp_path, "replay/troubled"), word
    )
    assert "number 12 (from 0)" in done.stderr, done.stderr
    assert _replay(capsule)[0] == code


def test_launches_of_pytorch_are_counted(tmp_path: Path) -> None:
    """By the wrappers of the launch functions, after those that CUPTI tells of, too."""
    pytest.importorskip("torch")
    program = "import torch\nx = torch.zeros(1000, device='cuda')\nfor i in range(300): x.add_(i)"
    options = ("-k", "*CUDAFunctorOnSelf_add*", "--launch", "200")
    held = Capsule.open(_cut(tmp_path, options, sys.executable, "-c", program))
    values = [
        np.frombuffer(held.bytes_of(block.before or []), np.float32)[:1000]
        for block in held.manifest.allocations
    ]
    assert any((one == sum(range(200))).all() for one in values), values


def test_a_launch_that_hangs_is_cut_out_and_hangs_again(tmp_path: Path) -> None:
    capsule = tmp_path / "x.capsule"
    options = ("-k", "*wait_for*", "--when", "hung", "--patience", "1")
    done = _warpsight(
        "capsule", "record", "-o", capsule, *options, "--", _built(tmp_path, "replay/troubled"), "hang"
    )
    assert "number 12 (from 0)" in done.stderr, done.stderr
    assert "did not end within 3 s" in _warpsight("replay", capsule, "--timeout", "3").stderr


def test_a_range_in_which_a_launch_hangs_is_cut_out_as_far_as_it_came(tmp_path: Path) -> None:
    capsule = tmp_path / "x.capsule"
    options = ("-k", "*wait_for*", "--launch", "10..15", "--patience", "1")
    done = _warpsight(
        "capsule", "record", "-o", capsule, *options, "--", _built(tmp_path, "replay/troubled"), "hang"
    )
    assert "did not end within 1 s" in done.stderr, done.stderr
    held = Capsule.open(capsule)
    (total,) = held.manifest.allocations
    assert len(held.manifest.operations) == 3
    assert int.from_bytes(held.bytes_of(total.before or [])[:4], "little") == sum(range(10))
    assert "did not end within 3 s" in _warpsight("replay", capsule, "--timeout", "3").stderr


def test_a_trigger_on_a_hang_cuts_out_the_launch_that_hangs(tmp_path: Path) -> None:
    options = ("--ring", "60s", "--trigger", "hang=1", "--capsule", "trigger", "-o", tmp_path / "x.warp")
    done = _warpsight("record", *options, "--", _built(tmp_path, "replay/troubled"), "hang", "8")
    assert "the work hung" in done.stderr, done.stderr
    capsule = Capsule.open(tmp_path / "x.capsule")
    (total,) = capsule.manifest.allocations
    assert int.from_bytes(capsule.bytes_of(total.before or [])[:4], "little") == sum(range(12))
    assert "did not end within 3 s" in _warpsight("replay", capsule.path, "--timeout", "3").stderr


@pytest.mark.parametrize(("kind", "which", "code"), [("slow", "slowest", 0), ("fault", "faulted", 6)])
def test_the_step_that_stands_out_is_cut_out(tmp_path: Path, kind: str, which: str, code: int) -> None:
    pytest.importorskip("torch")
    capsule = tmp_path / "x.capsule"
    program = (sys.executable, HERE / "replay" / "steps.py", kind)
    done = _warpsight("capsule", "record", "-o", capsule, "--step", "1..20", "--when", which, "--", *program)
    assert "number 12 (from 0)" in done.stderr, done.stderr
    assert _replay(capsule)[0] == code


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("slow", ("--capsule", "step:13")),
        ("pause", ("--ring", "60s", "--trigger", "slow-step=3", "--capsule", "trigger")),
    ],
)
def test_a_recording_cuts_a_step_out(tmp_path: Path, kind: str, options: tuple[str, ...]) -> None:
    pytest.importorskip("torch")
    program = (sys.executable, HERE / "replay" / "steps.py", kind)
    _warpsight("record", "-o", tmp_path / "x.warp", *options, "--", *program, code=0)
    code, found = _replay(tmp_path / "x.capsule")
    assert code == 0 and found["verdict"] == "bit-exact", found
    longest = max(row["median_ns"] for row in found["versions"][0]["operations"])
    assert (longest > 1e6) == (kind == "slow"), longest


@pytest.mark.parametrize(("flags", "codes"), [((), {4, 5}), (("-DFIXED",), {0})])
def test_delays_show_a_race_in_a_capsule(tmp_path: Path, flags: tuple[str, ...], codes: set[int]) -> None:
    program = _built(tmp_path, "race/missing_barrier", *flags)
    capsule = _cut(tmp_path, ("-k", "*missing_barrier*"), program, "3")
    plan = tmp_path / "plan.json"
    _warpsight("race", "points", "-o", plan, "--ceiling-ns", "20000", "--", sys.executable, "-m", "warpsight", "replay",
               capsule, "-n", "1", code=0)  # fmt: skip
    done = _warpsight("replay", capsule, "--delays", plan, "-n", "20")
    assert done.returncode in codes and "delays of" in done.stdout, done.stdout + done.stderr


def test_other_schedules_are_as_fast_as_predicted(tmp_path: Path) -> None:
    capsule = _cut(tmp_path, CUT, _built(tmp_path, "replay/schedules"))
    wanted = (
        "streams:left_chain",
        "overlap:copies",
        "graphs",
        "kernel:tiny=none",
        "merge",
        "priority:left_chain",
    )
    found = _replay(capsule, "-n", "10", *(word for what in wanted for word in ("-w", what)))[1]
    assert {row["verdict"] for row in found["changes"]} == {"bit-exact", "repeatable"}, found["changes"]
    for row in found["changes"]:
        assert (
            row["predicted_ns"] is None
            or abs(row["predicted_ns"] - row["median_ns"]) < 0.2 * row["median_ns"]
        ), row


def _long_kernels(trace: Path) -> list[int]:
    """ns on the GPU of each kernel that took at least 10 µs, in the order in which they began."""
    with warpsight.open(trace) as opened:
        rows = opened.sql("select duration from kernel where duration > 10000 order by start").fetchall()
    return [row[0] for row in rows]


def test_a_trace_is_replayed_in_its_order_and_time(tmp_path: Path) -> None:
    """Both times are a recording's: events around an operation, as replays time it, take some microseconds themselves."""
    trace, again = tmp_path / "t.warp", tmp_path / "again.warp"
    _warpsight("record", "-o", trace, "--", _built(tmp_path, "replay/schedules"), code=0)
    code, found = _replay(trace, "--validate", "-n", "3")
    assert code == 0 and found["validation"]["ordered"] > 200, found
    replay = (sys.executable, "-m", "warpsight", "replay", trace, "-n", "3")
    _warpsight("record", "-o", again, "--", *replay, code=0)
    recorded, replayed = _long_kernels(trace), _long_kernels(again)
    runs, rest = divmod(len(replayed), len(recorded))
    assert (runs >= 3, rest) == (True, 0), (len(recorded), len(replayed))
    ratios = [
        statistics.median(replayed[place :: len(recorded)]) / took for place, took in enumerate(recorded)
    ]
    assert statistics.median(ratios) == pytest.approx(1, abs=0.1)
