"""Real traces of others, with an expert's account of each: `warpsight analyze` must agree with it.

The traces and the scorer are not in the repository. WARPSIGHT_TEST_VERDICTS names their folder.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(os.environ.get("WARPSIGHT_TEST_VERDICTS") or "/nowhere")
TRUTHS: list[dict[str, Any]] = (
    json.loads((FOLDER / "verdicts.json").read_text()) if (FOLDER / "verdicts.json").exists() else []
)
#: Traces whose facts leave out that they are of two devices.
TWO_DEVICES = {"nsys_h100_2gpu_1s.sqlite"}


def scorer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("score_of_verdicts", FOLDER / "score.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def trace(name: str) -> Path:
    """The trace's file; a link may have been stored as a small file with the link's target."""
    path = FOLDER / "traces" / name
    if path.stat().st_size < 256:
        path = (path.parent / path.read_text().strip()).resolve()
    if not path.exists():
        pytest.skip(f"{name} is not here")
    return path


@cache
def scored(name: str) -> dict[str, Any]:
    """What the scorer says of the answer to one trace."""
    (truth,) = [one for one in TRUTHS if one["file"] == name]
    if name in TWO_DEVICES:
        truth["facts"]["devices"] = [0, 1]
    command = [sys.executable, "-m", "warpsight", "analyze", str(trace(name)), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    result: dict[str, Any] = scorer().judge(truth, json.loads(done.stdout))
    return {**result, "of": len(truth["causes"])}


pytestmark = [
    pytest.mark.skipif(not TRUTHS, reason="WARPSIGHT_TEST_VERDICTS names no folder with verdicts"),
    pytest.mark.parametrize("name", [truth["file"] for truth in TRUTHS]),
]


def test_the_first_finding_is_the_first_cause(name: str) -> None:
    result = scored(name)
    assert result["passed"], f"first: {result['first']}, share off by {result['error']}"


def test_the_account_has_every_cause_with_its_share(name: str) -> None:
    result = scored(name)
    assert result["causes"] == result["of"]
    assert result["sums"]


def test_nothing_untrue_is_said(name: str) -> None:
    assert scored(name)["false"] == []


def test_the_iterations_are_those_of_the_program(name: str) -> None:
    assert scored(name)["iterations"] is not False
