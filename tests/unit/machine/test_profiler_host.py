"""Names, suffixes and passes of a chip's metrics, from an installed CUPTI: no GPU is asked."""

from __future__ import annotations

import pytest

from warpsight.errors import UsageError
from warpsight.machine import profiler_host
from warpsight.machine.profiler_host import RANGES, SAMPLING
from warpsight.sass import metrics


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    try:
        profiler_host.chips()
    except profiler_host.ProfilerHostError as error:
        pytest.skip(str(error))


def test_a_chip_is_found_whatever_its_case() -> None:
    assert profiler_host.checked_chip("gh100") == "GH100"
    with pytest.raises(UsageError, match=r"this CUPTI knows .*GH100"):
        profiler_host.checked_chip("GX1")


def test_a_metric_has_suffixes_and_passes() -> None:
    [bytes_read] = metrics.listed("GH100", ["dram__bytes_read"])
    assert (bytes_read.kind, bytes_read.passes) == ("counter", 1)
    assert ".sum" in bytes_read.suffixes
    [throughput] = metrics.listed("GH100", ["sm__throughput"])
    assert throughput.kind == "throughput"
    assert throughput.passes > 1


def test_metrics_of_single_instructions_are_listed_too() -> None:
    kinds = {one.kind for one in metrics.listed("GH100", ["smsp__sass_inst_executed"])}
    assert "instruction" in kinds


def test_metrics_together_need_as_many_passes_as_their_counters() -> None:
    together = ["dram__bytes.sum", "sm__throughput.avg.pct_of_peak_sustained_elapsed"]
    assert profiler_host.passes("GH100", together[:1]) == 1
    assert (profiler_host.passes("GH100", together) or 0) > 1
    assert profiler_host.passes("GH100", ["dram__bytes"]) is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("dram__bytes", "dram__bytes with one of these suffixes: .*sum"),
        ("dram__byte.sum", "near: dram__bytes"),
    ],
)
def test_a_wrong_name_is_refused_with_what_may_have_been_meant(
    name: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiler_host, "chip_of_device", lambda: "GH100")
    with pytest.raises(UsageError, match=words):
        metrics.of_this_machine([name])


def test_names_are_unchecked_where_cupti_crashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiler_host, "chip_of_device", lambda: "GH100")
    monkeypatch.setattr(metrics, "_CHOOSE", "import os; os.abort()")
    assert metrics.of_this_machine(["dram__byte.sum"]) == (("dram__byte.sum",), 1)


def test_samples_take_one_pass_and_all_else_as_many_as_it_needs() -> None:
    name = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
    names, passes = metrics.chosen("GH100", [name, name])
    assert names == (name,)
    assert passes > 1
    with pytest.raises(UsageError, match=r"passes and sampling takes one: dram__bytes\.sum fit in one"):
        metrics.chosen("GH100", [name, "dram__bytes.sum"], sampling=True)


def test_the_roofline_takes_one_pass() -> None:
    names, passes = metrics.chosen("GH100", ["roofline"])
    assert passes == 1
    assert "dram__bytes.sum" in names
    assert profiler_host.passes("GH100", names, RANGES) == 1
    assert profiler_host.base_metrics("GH100", SAMPLING)
