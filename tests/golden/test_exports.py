"""What leaves a trace, byte for byte: other programs read it, so a change must be meant (see conftest.same)."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable

from warpsight.formats.chrome import writer as chrome
from warpsight.formats.selection import Selection
from warpsight.model import StoredTrace

Same = Callable[[str, bytes], None]


def warpsight(*arguments: str) -> bytes:
    return subprocess.run(
        [sys.executable, "-m", "warpsight.ui.cli", *arguments], capture_output=True, check=True
    ).stdout


def test_chrome_json(trace: StoredTrace, same: Same) -> None:
    file = io.BytesIO()
    chrome.write(
        trace, file, Selection(enclosed=False)
    )  # rows are compressed: their bytes are the compressor's
    same("train.chrome.json", file.getvalue())


def test_kernel_statistics_as_csv(trace: StoredTrace, same: Same) -> None:
    same("train.stats.csv", warpsight("stats", str(trace.path), "--csv"))


def test_kernel_statistics_by_stack_as_json(trace: StoredTrace, same: Same) -> None:
    out = warpsight("stats", str(trace.path), "--by", "stack", "--json")
    same("train.stats-by-stack.json", out.replace(str(trace.path).encode(), b"train.warp"))


def test_query_as_ndjson(trace: StoredTrace, same: Same) -> None:
    question = "SELECT name, start, duration, grid_x, block_x FROM kernel ORDER BY start"
    same("train.query.ndjson", warpsight("query", str(trace.path), question, "--format", "ndjson"))
