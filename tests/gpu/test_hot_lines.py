"""On a real GPU: the planted slow line of each of ten kernels is the hottest one within one short run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.golden.test_hot_lines import REASONS, planted_line
from tests.gpu.test_capture import built

pytestmark = pytest.mark.gpu
SOURCE = Path(__file__).parent / "hot_lines" / "planted.cu"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    program = built(
        SOURCE,
        tmp_path_factory.mktemp("planted") / "planted",
        "-std=c++17",
        "-O3",
        "-lineinfo",
        "-arch=native",
    )
    done = subprocess.run([sys.executable, "-m", "warpsight", "sass", "hotspots", "--json", "--kernels", "0", "-o",
                           str(program.with_suffix(".json")), "--", str(program), "all", "300"],
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(program.with_suffix(".json").read_text())


@pytest.mark.parametrize("name", REASONS)
def test_the_planted_line_is_first(found: Any, name: str) -> None:
    [kernel] = [kernel for kernel in found["kernels"] if f"::{name}(" in kernel["name"]]
    frames = kernel["lines"][0]["frames"]
    assert planted_line(name) in [frame["line"] for frame in frames if frame["file"].endswith("planted.cu")]
    assert kernel["launches"] > 0


def test_every_image_is_known_and_nothing_was_dropped(found: Any) -> None:
    assert all(kernel["has_code"] and kernel["has_lines"] for kernel in found["kernels"])
    assert found["dropped"] == 0
    assert found["samples"] > 10_000
