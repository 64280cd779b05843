"""What one instruction stands for, and how near a kernel comes to its roof."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from warpsight.model import StoredTrace
from warpsight.model import open as open_trace
from warpsight.model.storage.writer import TraceWriter
from warpsight.sass.counts.kernels import CountedKernel, Counts
from warpsight.sass.counts.roofline import rooflines
from warpsight.sass.counts.work import work_of


@pytest.mark.parametrize(
    ("text", "kind", "per_thread", "per_warp"),
    [
        ("FADD R1, R2, R3", "fp32", 1, 0),
        ("@!P0 FFMA.FTZ R1, R2, R3, R4", "fp32", 2, 0),
        ("DFMA R2, R4, R6, R8", "fp64", 2, 0),
        ("HFMA2 R1, R2, R3, R4", "fp16", 4, 0),
        ("HFMA2.BF16_V2 R1, R2, R3, R4", "bf16", 4, 0),
        ("HFMA2 R5, -RZ, RZ, 0, 0", "", 0, 0),  # a constant
        ("HADD2.F32 R0, -RZ, R1.H0_H0", "", 0, 0),  # a conversion
        ("FSETP.GT.AND P0, PT, R1, R2, PT", "", 0, 0),
        ("HMMA.16816.F32 R4, R8, R12, R4", "fp16", 0, 2 * 16 * 8 * 16),
        ("HMMA.1688.F32.TF32 R4, R8, R12, R4", "tf32", 0, 2 * 16 * 8 * 8),
        ("HMMA.SP.16832.F32 R4, R8, R12, R4, R3", "fp16", 0, 2 * 16 * 8 * 32 // 2),
        ("HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], R24, gsb0", "bf16", 0, 2 * 64 * 128 * 16 // 4),
        ("IMMA.16832.S8.S8 R4, R8.ROW, R10.COL, R4", "int8", 0, 2 * 16 * 8 * 32),
        ("DMMA.8x8x4 R4, R2, R6, R4", "fp64", 0, 2 * 8 * 8 * 4),
    ],
)
def test_arithmetic_of_an_instruction(text: str, kind: str, per_thread: int, per_warp: int) -> None:
    work = work_of(text)
    assert (work.type, work.per_thread, work.per_warp, work.unknown) == (kind, per_thread, per_warp, False)


@pytest.mark.parametrize(
    ("text", "space", "moved"),
    [
        ("LDG.E.128 R4, desc[UR4][R2.64]", "global", 16),
        ("@P0 STG.E.U8 desc[UR4][R2.64], R1", "global", 1),
        ("LDS.64 R2, [R4]", "shared", 8),
        ("LDSM.16.M88.4 R4, [R1]", "shared", 16),
        ("LDGSTS.E.BYPASS.128 [R3], desc[UR4][R2.64]", "global to shared", 16),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", "", 0),
    ],
)
def test_bytes_of_an_access(text: str, space: str, moved: int) -> None:
    work = work_of(text)
    assert (work.kind.space, work.bytes) == (space, moved)


@pytest.mark.parametrize(
    "text",
    ["UTMALDG.2D [UR8], [UR4]", "UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8], tmem[UR10], idesc[UR11], UP0"],
)
def test_work_that_a_descriptor_holds_is_unknown(text: str) -> None:
    assert work_of(text).unknown


def test_what_was_not_counted_is_not_shown_as_none_at_all() -> None:
    assert Counts({"inst_executed": 4}).to_json() == {"executions": 4, "metrics": {"inst_executed": 4}}


def test_lanes_are_those_of_an_execution() -> None:
    counts = Counts({"inst_executed": 4, "thread_inst_executed": 64, "thread_inst_executed_pred_on": 48})
    assert (counts.lanes, counts.predicated_off) == (16.0, 16)


MEMORY = {
    "dram__bytes.sum": 1e6,
    "dram__bytes.sum.peak_sustained": 100.0,
    "dram__cycles_elapsed.avg.per_second": 1e9,
}
UNITS = {
    "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained": 50.0,
    "sm__cycles_elapsed.avg.per_second": 1e9,
}


@contextmanager
def measured(path: Path, launches: int, duration_ns: int, metrics: dict[str, float]) -> Iterator[StoredTrace]:
    """A trace of launches of `k`, each in a range that is much longer than its kernel."""
    with TraceWriter(path) as writer:
        name = writer.name("k")
        place = {"device": 0, "context": 1, "process": 0}
        for correlation in range(1, launches + 1):
            writer.add("kernel", [{"start": 500, "duration": duration_ns, "name_id": name, "stream": 7, "graph_level": False,
                                   "correlation": correlation, **place}])  # fmt: skip
            writer.add("range_metric", [
                {"start": 0, "duration": 1_000_000, "range": correlation, "kind": "kernel", "name": "k", "metric": metric,
                 "value": value, "passes": 1, "correlation": correlation, **place} for metric, value in metrics.items()
            ])  # fmt: skip
    with open_trace(path) as trace:
        yield trace


@pytest.mark.parametrize(("operations", "roof", "share"), [(1e5, "dram", 0.5), (1.6e6, "fp32", 0.8)])
def test_the_roof_is_what_would_take_longest(
    tmp_path: Path, operations: float, roof: str, share: float
) -> None:
    kernel = CountedKernel(name="k", launches=2, arithmetic={("fp32", False): 2 * operations})
    with measured(tmp_path / "a.warp", 2, 20_000, MEMORY | UNITS) as trace:
        [found], notes = rooflines([kernel], trace)
    assert (found.roofs[0].name, found.share, notes) == (roof, pytest.approx(share), [])
    assert found.rate == pytest.approx(operations / 20e-6)
    assert found.intensity == {"dram": pytest.approx(operations / 1e6)}


def test_kernels_without_a_measured_time_are_named_as_missing(tmp_path: Path) -> None:
    with measured(tmp_path / "a.warp", 2, 20_000, MEMORY) as trace:
        found, notes = rooflines([CountedKernel(name="other"), CountedKernel(name="k", launches=1)], trace)
    assert [one.name for one in found] == ["k"]
    assert "1 kernel has no roofline" in notes[0]
    assert "a different number of times" in notes[1]


def test_bytes_of_another_process_are_named_as_such(tmp_path: Path) -> None:
    with measured(tmp_path / "a.warp", 2, 5_000, MEMORY) as trace:
        [found], [note] = rooflines([CountedKernel(name="k", launches=2)], trace)
    assert found.share == pytest.approx(2)
    assert "other processes" in note
