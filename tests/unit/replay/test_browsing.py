"""What `capsule show` says, on capsules that were cut out on an H100."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.unit.replay import capsules
from warpsight.replay.capsule import browsing
from warpsight.replay.capsule import manifest as m
from warpsight.replay.capsule.store import Capsule
from warpsight.ui.cli import app

GOLDEN = Path(__file__).parents[2] / "golden" / "capsules"


def golden(name: str) -> Capsule:
    capsule = Capsule.open(GOLDEN / f"{name}.capsule")
    capsule.verify()
    return capsule


def test_the_kernel_of_a_capsule_did_what_its_source_says() -> None:
    """`out = scale * (a + b) + 1` of `add.cu`, with the addresses of a and b in memory and scale in a variable."""
    capsule = golden("add")
    whole = browsing.overview(capsule)
    (launch,) = capsule.manifest.operations
    assert isinstance(launch, m.Launch)
    out = browsing.one(whole, hex(int.from_bytes(launch.parameters[8:16], "little")))
    after = np.frombuffer(browsing.contents(capsule, out, "after", 0, out.size), np.float32)
    assert after.tolist() == [4.0 * i + 1 for i in range(1000)]
    assert browsing.one(whole, "scale").id == "g0"


def test_a_tensor_map_leads_to_the_memory_it_describes() -> None:
    capsule = golden("tma")
    launch = capsule.manifest.operations[0]
    assert isinstance(launch, m.Launch)
    descriptor = capsule.manifest.functions[launch.function].parameters[0]
    assert descriptor.size == 128
    address = int.from_bytes(launch.parameters[descriptor.offset : descriptor.offset + 8], "little")
    assert address in {allocation.address for allocation in capsule.manifest.allocations}


def test_a_cluster_launch_says_its_cluster() -> None:
    launch = golden("gemm").manifest.operations[0]
    assert isinstance(launch, m.Launch)
    assert (launch.cluster, [attribute.id for attribute in launch.attributes]) == ((8, 1, 1), [4])


def test_contents_are_cut_across_chunks(tmp_path: Path) -> None:
    capsule = capsules.write(tmp_path / "x.capsule")
    part = browsing.one(browsing.overview(capsule), "a0")
    expected = bytes(range(256)) * 40
    assert browsing.contents(capsule, part, "before", 4090, 5000) == expected[4090:9090]
    assert browsing.contents(capsule, part, "before", 10_230, 100) == expected[10_230:]


def test_show_lists_operations_and_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = capsules.write(tmp_path / "x.capsule").path
    assert app.main(["capsule", "show", str(path), "--verify"]) == 0
    shown = capsys.readouterr()
    assert "add(float*, float*, int)" in shown.out and "1 unchanged variables" in shown.out
    assert "chunks are intact" in shown.err
    assert app.main(["capsule", "show", str(path), "a1", "--when", "after", "--bytes", "16"]) == 0
    assert "01010101 01010101 01010101 01010101" in capsys.readouterr().out
    assert app.main(["capsule", "show", str(path), "--json"]) == 0
    assert [part["id"] for part in json.loads(capsys.readouterr().out)["memory"]] == ["a0", "a1", "g0"]


def test_show_of_what_is_not_there_is_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(capsules.write(tmp_path / "x.capsule").path)
    assert app.main(["capsule", "show", path, "a9"]) == 1
    assert app.main(["capsule", "show", str(tmp_path)]) == 1
    assert app.main(["capsule", "show", path, "--when", "never"]) == 2
    assert capsys.readouterr().err.count("\n") == 3


@pytest.mark.parametrize(
    "words",
    [
        ["--launch", "3..1"], ["--launch", "x"], ["--values", "some"], ["--reach", "none"], ["--step", "1", "--frame", "2"],
        ["--step", "1", "--launch", "2"], ["--step", "0..2"], ["-k", "a", "--range", "r"],
    ],
)  # fmt: skip
def test_record_refuses_options_that_mean_nothing(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.main(["capsule", "record", *words, "--", "true"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
