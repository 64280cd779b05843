"""Plans: read back as written, refused when anything in them is wrong, never half written."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from warpsight.errors import WarpsightError
from warpsight.race import plan as plans
from warpsight.race.plan import Plan, Point, Where
from warpsight.ui.cli.app import main

POINTS = tuple(
    Point(
        kernel="_Z4copyPf",
        code="ab" * 32,
        pc=16 * i,
        kind="global",
        opcode="LDG.E",
        source=("a.cu:3", "b.cu:9"),
    )
    for i in range(3)
)
PLAN = Plan(
    mode="random", seed=7, probability=0.5, floor_ns=10, ceiling_ns=2000, points=POINTS,
    where=Where(ctas=((0, 4), (8, 9)), warps=(0, 3)), versions={"warpsight": "1"}, command=("python", "x.py"),
)  # fmt: skip


def test_a_plan_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    plans.write(PLAN, tmp_path / "plan.json")
    assert plans.read(tmp_path / "plan.json") == PLAN
    assert os.stat(tmp_path / "plan.json").st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["plan.json"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"version": 2}, "version 2; this warpsight reads version 1"),
        ({"mode": "both"}, "mode"),
        ({"surprise": 1}, "surprise"),
        ({"probability": 1.5}, "probability"),
        ({"floor_ns": 3000}, "above ceiling_ns"),
        ({"ceiling_ns": 4_000_000_001}, "ceiling_ns"),
        ({"mode": "fixed"}, "must be equal"),
        ({"seed": -1}, "seed"),
        ({"points": [{"kernel": "k", "code": "xyz", "pc": 0, "kind": "global"}]}, "code"),
        (
            {"points": [{"kernel": "k", "code": "ab" * 32, "pc": 0, "kind": "global"}] * 2},
            "lists a point twice",
        ),
        ({"where": {"ctas": [[4, 4]]}}, "empty range"),
        ({"where": {"warps": []}}, "warps"),
        ({"where": {"warps": [32]}}, "warps"),
    ],
)
def test_a_wrong_field_is_one_clear_error(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({**json.loads(msgspec.json.encode(PLAN)), **change}))
    with pytest.raises(WarpsightError, match=told) as error:
        plans.read(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"version": "1"}']
)
def test_what_is_no_plan_is_one_clear_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(data)
    with pytest.raises(WarpsightError, match="not a delay plan"):
        plans.read(path)


def test_every_cut_of_a_plan_is_refused(tmp_path: Path) -> None:
    data = msgspec.json.encode(PLAN)
    path = tmp_path / "plan.json"
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(WarpsightError):
            plans.read(path)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(WarpsightError, match=r"none\.json cannot be read"):
        plans.read(tmp_path / "none.json")
    with pytest.raises(WarpsightError, match="cannot be read"):
        plans.read(tmp_path)
    with pytest.raises(WarpsightError, match="cannot be written"):
        plans.write(PLAN, tmp_path / "no" / "plan.json")


def test_a_failed_write_leaves_the_old_plan_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "plan.json"
    plans.write(PLAN, path)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WarpsightError, match="no space left"):
        plans.write(msgspec.structs.replace(PLAN, seed=8), path)
    monkeypatch.undo()
    assert plans.read(path) == PLAN and os.listdir(tmp_path) == ["plan.json"]


def test_the_program_that_a_plan_names_is_said_before_it_runs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.json"
    plans.write(msgspec.structs.replace(PLAN, command=("/nowhere/app", "two words")), path)
    assert main(["race", "replay", str(path)]) == 127
    said = capfd.readouterr().err.splitlines()
    assert said[0] == f"running what {path} names: /nowhere/app 'two words'" and "not found" in said[1]
    assert main(["race", "replay", str(path), "--", "/nowhere/other"]) == 127
    assert "names" not in capfd.readouterr().err
