"""`sass why` and `sass list` on traces with samples, on cubins, and on what is damaged or missing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.unit.sass.kernels import CHECKSUM, image, kernel, only, trace
from warpsight.sass.listing import listing
from warpsight.sass.why.advice import estimates
from warpsight.sass.why.advice.finding import LaunchConfiguration
from warpsight.sass.why.answer import why
from warpsight.sass.why.samples import add_up
from warpsight.ui.cli import app

Rows = list[tuple[int, str, int]]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = app.main(["sass", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def loop_rows() -> Rows:
    """A loop that mostly waits for its load: 800 samples of 1,000, 100 issued in it."""
    code = kernel("load_in_loop")
    load = only(code, "LDG")
    adds = next(one.index for one in code.instructions if one.operation == "FADD")
    return [
        (adds, "long_scoreboard", 800),
        (adds, "selected", 60),
        (load, "selected", 40),
        (0, "selected", 100),
    ]


def test_a_loop_that_waits_for_its_load_is_to_be_unrolled() -> None:
    found = why(
        kernel("load_in_loop"), add_up((i * 16, reason, n, n * 4 // 5) for i, reason, n in loop_rows())
    )
    (unroll,) = [one for one in found.advice if one.name == "unroll"]
    twice_in_flight = estimates.without(1000, 200, 0, 640, stalls=400)
    assert unroll.speedup == pytest.approx(twice_in_flight)
    assert unroll.places[0].cause == only(kernel("load_in_loop"), "LDG")


def test_a_chain_of_pointers_is_not_to_be_unrolled() -> None:
    code = kernel("pointer_chase")
    load = only(code, "LDG")
    waits = next(one.index for one in code.instructions if code.graph.loop_at(one.index) is not None and one.scheduling.waits
                 and one.access.reads & code.instructions[load].access.writes)  # fmt: skip
    found = why(code, add_up([(waits * 16, "long_scoreboard", 900, 900), (load * 16, "selected", 100, 0)]))
    assert [one.name for one in found.advice] == ["chase"]


@pytest.mark.parametrize(
    ("name", "stalled", "reason", "advised"),
    [
        ("array_at_run_time", "LDL", "lg_throttle", "registers"),
        ("four_neighbours", "LDG", "lg_throttle", "coalesce"),
        ("shared_use", "BAR", "barrier", "split-barrier"),
        ("atomic_result", "ATOMG", "lg_throttle", "atomics"),
        ("load_use", "LDG", "no_instructions", "code-size"),
        ("through_registers", "STS", "long_scoreboard", "async-copy"),
        ("async_copy", "DEPBAR", "long_scoreboard", "pipeline"),
        ("branches", "BRX", "branch_resolving", "divergence"),
        ("four_neighbours", "LDG", "lg_throttle", "vectorize"),
        ("special", "MUFU", "math_pipe_throttle", "strength"),
    ],
)
def test_each_kind_of_stall_has_its_advice(name: str, stalled: str, reason: str, advised: str) -> None:
    code = kernel(name)
    rows = [(only(code, stalled) * 16, reason, 900, 900), (0, "selected", 100, 0)]
    assert advised in {one.name for one in why(code, add_up(rows)).advice}


def test_few_warps_that_wait_are_to_be_more() -> None:
    code = kernel("load_use")
    rows = [(only(code, "FADD") * 16, "long_scoreboard", 980, 980), (0, "selected", 20, 0)]
    found = why(code, add_up(rows), LaunchConfiguration(132, 32, 16, 0, "9.0", 132)).advice
    (occupancy,) = [one for one in found if one.name == "occupancy"]
    assert occupancy.speedup == pytest.approx(4.0), "one warp leaves three of four schedulers without any"
    assert not [one for one in why(code, add_up(rows)).advice if one.name == "occupancy"], (
        "the launch is not known"
    )


def test_neighboring_lanes_are_not_to_be_coalesced() -> None:
    code = kernel("load_use")
    rows = [(only(code, "LDG") * 16, "lg_throttle", 500, 500), (0, "selected", 500, 0)]
    assert not {"coalesce", "bank-conflicts"} & {one.name for one in why(code, add_up(rows)).advice}


def test_stalls_that_end_speed_up_as_long_as_the_scheduler_has_cycles_left() -> None:
    alone = estimates.without(100, 10, 0, 90, stalls=45)
    assert alone == pytest.approx(100 / 55), "one warp: nothing else competes"
    busy = estimates.without(100, 10, 30, 20, stalls=30)
    assert 1.1 < busy < 1 / 0.8, "nothing was issued in a fifth of the cycles, so no more can be won"
    assert estimates.without(100, 10, 0, None, stalls=50) == pytest.approx(2.0)
    assert estimates.without(0, 0, 0, None, stalls=0) == 1.0
    assert 1.4 < estimates.without(100, 50, 10, 20, stalls=0, fewer=25) < 2.0, (
        "half of the work, but all of its waits"
    )


def test_more_warps_issue_more_often() -> None:
    assert estimates.with_warps(0.1, 8, 16) == pytest.approx((1 - 0.9**4) / (1 - 0.9**2))
    assert estimates.with_warps(0.1, 16, 8) == 1.0


def test_the_warps_of_a_last_wave_are_faster_than_those_of_a_full_one() -> None:
    rows = [(0, "not_selected", 400, 0), (0, "selected", 100, 0), (0, "wait", 300, 0)]
    launch = LaunchConfiguration(300, 1024, 16, 0, "9.0", 132)  # a wave of 264 blocks, and 36 more
    (tail,) = [one for one in why(kernel("load_use"), add_up(rows), launch).advice if one.name == "tail"]
    alone, waves = 0.25, estimates.throughput
    now = 64 / waves(alone, 64) + 32 / waves(alone, 32)
    of_a_quarter = 64 / waves(alone, 64) + 16 / waves(alone, 16)
    assert tail.speedup == pytest.approx(now / of_a_quarter)
    whole = LaunchConfiguration(264, 1024, 16, 0, "9.0", 132)
    assert "tail" not in {one.name for one in why(kernel("load_use"), add_up(rows), whole).advice}


def test_without_samples_there_is_no_advice() -> None:
    found = why(kernel("load_use"), add_up([]))
    assert found.advice == () and found.causes() == [] and found.blamed.single_after is None


def test_why_names_the_cause_its_line_and_what_to_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = trace(tmp_path / "t.warp", kernel("load_in_loop"), loop_rows(), launched=True)
    code, out, _ = run(capsys, "why", str(path))
    assert code == 0
    assert re.search(r"80%\s+stalls\.cu:\d+", out)
    assert "LDG" in out and "global memory" in out and "Unroll the loop" in out
    assert "66 blocks of 256" in out


def test_json_of_why_counts_every_sample_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = trace(tmp_path / "t.warp", kernel("load_in_loop"), loop_rows())
    code, out, _ = run(capsys, "why", str(path), "load_in_loop", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["samples"] == {"total": 1000, "stalled": 800, "issued": 200}
    assert sum(cause["samples"] for cause in found["causes"]) == 800
    assert found["causes"][0]["instruction"].startswith("LDG")
    assert found["causes"][0]["stalls"][0]["detail"] == "global memory"
    assert found["launch"] is None


def test_a_trace_without_samples_without_code_or_with_another_kernel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = trace(tmp_path / "empty.warp", kernel("load_use"), [])
    code, _, err = run(capsys, "why", str(empty))
    assert code == 1 and err.startswith(f"warpsight: {empty}: no samples of program counters; record with: ")
    bare = trace(tmp_path / "bare.warp", kernel("load_use"), [(3, "wait", 9)], with_code=False)
    code, _, err = run(capsys, "why", str(bare))
    assert code == 1 and f"{CHECKSUM:016x}" in err and "load_use" in err
    whole = trace(tmp_path / "whole.warp", kernel("load_use"), [(3, "wait", 9)])
    code, _, err = run(capsys, "why", str(whole), "other")
    assert code == 2 and "no samples or counts of a kernel 'other'" in err and "load_use" in err


@pytest.mark.parametrize("keep", [0, 10, 64, 700, 4000])
def test_a_damaged_cubin_gives_one_message(
    keep: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cut.cubin"
    path.write_bytes(image("stalls.sm_90")[:keep])
    code, out, err = run(capsys, "list", str(path), "load_use")
    assert code in (1, 2) and not out
    assert "internal error" not in err and str(path) in err
    damaged = trace(tmp_path / "t.warp", kernel("load_use"), [(3, "wait", 9)])
    (damaged / "cubins" / f"{CHECKSUM:016x}.cubin").write_bytes(image("stalls.sm_90")[:keep])
    code, _, err = run(capsys, "why", str(damaged))
    assert code == 1 and "internal error" not in err and err.startswith("warpsight: ")


def test_code_that_is_no_code_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cubin = kernel("load_use").cubin
    section = cubin.elf.sections[kernel("load_use").section]
    whole = bytearray(image("stalls.sm_90"))
    begin = int(section["offset"])
    whole[begin : begin + 64] = b"\xff" * 64
    path = tmp_path / "odd.cubin"
    path.write_bytes(whole)
    code, out, err = run(capsys, "list", str(path), "load_use")
    assert (code, out) == (1, "")
    assert "nvdisasm read" in err and "damaged" in err


def test_a_listing_shows_source_scheduling_live_registers_and_samples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = trace(tmp_path / "t.warp", kernel("load_in_loop"), loop_rows())
    code, out, _ = run(capsys, "list", str(path), "--ptx")
    assert code == 0
    (line,) = [line for line in out.splitlines() if "FADD" in line]
    assert re.match(r" 86% █+\s+long_scoreboard +\d+ 0x[0-9a-f]+", line)
    assert "│" in line, "it is in a loop"
    assert re.search(r"B[-\d]{6}:R.:W.:.:S\d\d$", line)
    assert "stalls.cu:" in out and "ptx " in out and "ld.global.f32" in out
    assert kernel("load_in_loop").checksum in out


def test_a_cubin_with_several_kernels_needs_a_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "stalls.cubin"
    path.write_bytes(image("stalls.sm_90"))
    code, _, err = run(capsys, "list", str(path))
    assert code == 2 and "more than one kernel" in err and "pointer_chase" in err
    code, out, _ = run(capsys, "list", str(path), "pointer_chase", "--json")
    found = json.loads(out)
    assert code == 0
    assert [one["offset"] for one in found["instructions"]] == list(
        range(0, 16 * len(found["instructions"]), 16)
    )
    load = next(one for one in found["instructions"] if one["operation"] == "LDG")
    assert load["memory"] == "global" and load["loop_depth"] == 1 and load["write_barrier"] is not None
    assert found["most_live_registers"] <= found["registers"]


def test_the_checksum_is_of_the_kernel_not_of_the_module() -> None:
    sums = {
        (arch, name): kernel(name, f"stalls.sm_{arch}").checksum
        for arch in (80, 90)
        for name in ("load_use", "divide")
    }
    assert len(set(sums.values())) == 4
    assert kernel("load_use").checksum == listing(kernel("load_use")).to_json()["checksum"]


@pytest.mark.parametrize("form", ["html", "svg"])
def test_pictures_are_self_contained(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = trace(tmp_path / "t.warp", kernel("branches"), [(2, "wait", 9), (3, "selected", 1)])
    out = tmp_path / f"k.{form}"
    assert run(capsys, "list", str(path), "-o", str(out))[0] == 0
    text = out.read_text()
    assert not re.search(r"""(?:src|href)=["']https?:""", text)
    assert text.count('id="block-') == len({row.block for row in listing(kernel("branches")).rows})


def test_an_unknown_format_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "stalls.cubin"
    path.write_bytes(image("stalls.sm_90"))
    code, _, err = run(capsys, "list", str(path), "divide", "--format", "pdf")
    assert code == 2 and "--format takes text, html, svg, json" in err
