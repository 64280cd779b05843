"""Delay configurations are chosen by a seed, written, checked and read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.unit.sass.traces import small, write
from warpsight.formats.errors import FormatError
from warpsight.ui.cli import app
from warpsight_plugins.cutracer import delays


def config(**point: Any) -> dict[str, Any]:
    one = {"pc": 16, "sass": "LDG.E R2 ;", "delay": 1000, "on": True, **point}
    kernel = {"kernel_name": "k", "kernel_checksum": "ab", "timestamp": "2026-01-01T00:00:00.000",
              "instrumentation_points": {"16": one}}  # fmt: skip
    return {"version": "1.0", "delay_ns": 1000, "kernels": {"k_ab": kernel}}


@pytest.mark.parametrize("point", [{}, {"cluster_seed": 7}])
def test_a_configuration_comes_back(point: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_text(json.dumps(config(**point)))
    found = delays.read(path)
    assert json.loads(delays.text(found)) == config(**point)
    Draft202012Validator(delays.json_schema()).validate(config(**point))
    assert app.main(["-q", "sass", "validate", str(path)]) == 0


@pytest.mark.parametrize(
    ("change", "says"),
    [({"delay": -1}, "delay"), ({"pc": 32}, "point '16' says that its pc is 32"), ({"colour": 1}, "colour"),
     ({"delay": 2**32}, "delay"), ({"on": "yes"}, "on")],
)  # fmt: skip
def test_what_is_wrong_is_named(
    change: dict[str, Any], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "d.json"
    path.write_text(json.dumps(config(**change)))
    with pytest.raises(FormatError, match=says):
        delays.read(path)
    assert app.main(["sass", "validate", str(path)]) == 1
    assert says in capsys.readouterr().out
    path.write_text(json.dumps(config())[:-40])
    assert app.main(["sass", "validate", str(path)]) == 1
    assert "truncated" in capsys.readouterr().out


def test_the_verb_chooses_by_pattern_and_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, out = write(tmp_path / "t.ndjson.zst", small()), tmp_path / "d.json"
    arguments = ["sass", "delays", str(trace), "--delay-ns", "5000"]
    assert app.main(["-q", *arguments, "--probability", "1", "-o", str(out)]) == 0
    (kernel,) = delays.read(out).kernels.values()
    assert (kernel.kernel_name, kernel.kernel_checksum) == ("_Z3addPf", "a1b2c3")
    assert {p.pc: (p.sass, p.delay, p.on) for p in kernel.instrumentation_points.values()} == {
        0: ("LDG.E R2, [R2.64] ;", 5000, True), 32: ("STG.E [R4.64], R2 ;", 5000, True),
    }  # fmt: skip
    chosen = []
    for seed in ("1", "1", "2", "3", "4", "5"):
        assert app.main([*arguments, "--pattern", "*", "--seed", seed]) == 0
        points = next(iter(json.loads(capsys.readouterr().out)["kernels"].values()))["instrumentation_points"]
        assert set(points) == {"0", "16", "32", "48", "64", "80"}
        chosen.append([p["on"] for p in points.values()])
    assert chosen[0] == chosen[1]
    assert len(set(map(tuple, chosen))) > 1
    assert app.main([*arguments, "--pattern", "HMMA"]) == 2
    assert "no instruction of _Z3addPf contains one of: HMMA" in capsys.readouterr().err
