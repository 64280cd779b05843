"""Code of every architecture reads as it was reviewed: instructions, registers, schedules, latencies, loops, polls and lines."""

from __future__ import annotations

import json

import pytest

from tests.golden.answering import ANSWERS
from tests.golden.reading_code import NAMES, code_of
from warpsight.device_code.disassembly import find_tool


@pytest.mark.parametrize("name", NAMES)
def test_what_is_read_from_code_is_what_was_reviewed(name: str) -> None:
    if find_tool("nvdisasm") is None:
        pytest.skip("nvdisasm is not installed (pip install nvidia-cuda-nvdisasm)")
    expected = json.loads((ANSWERS / f"{name}.json").read_text(encoding="utf-8"))
    found = json.loads(json.dumps(code_of(name)))
    for kernel in sorted(expected | found):
        ours, theirs = found.get(kernel), expected.get(kernel)
        if isinstance(ours, dict) and isinstance(theirs, dict):
            different = {
                key: (theirs.get(key), ours.get(key)) for key in theirs if theirs.get(key) != ours.get(key)
            }
            assert not different, f"{kernel}; if this is meant: python -m tests.golden.reading_code {name}"
        assert ours == theirs, f"if this is meant: python -m tests.golden.reading_code {name}"
