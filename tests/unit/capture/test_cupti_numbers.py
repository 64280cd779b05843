"""Numbers in records of CUPTI mean what its header says."""

from __future__ import annotations

import re

import pytest

from tests.standin import recording
from warpsight.capture.rows import host
from warpsight.model.naming import memory_names

FOLDER = recording.cuda_headers()
pytestmark = pytest.mark.skipif(FOLDER is None, reason="CUPTI's header is not installed")


def named(enumeration: str) -> dict[int, str]:
    """The names of an enumeration's constants in lower case, by number; those that mean nothing are left out."""
    assert FOLDER is not None
    text = (FOLDER / "cupti_activity.h").read_text(encoding="utf-8", errors="replace")
    found = re.findall(
        rf"\bCUPTI_ACTIVITY_{enumeration}_([A-Z0-9_]+)\s*=\s*(\d+)\s*(?:<<\s*(\d+))?\s*,", text
    )
    return {
        int(number) << int(shift or 0): name.lower().replace("_", " ")
        for name, number, shift in found
        if name not in ("UNKNOWN", "FORCE_INT")
    }


def test_kinds_of_copies_and_memory() -> None:
    assert {number: kind.lower() for number, kind in memory_names.MEMCPY_KINDS.items()} == named(
        "MEMCPY_KIND"
    )
    assert named("MEMORY_KIND") == memory_names.MEMORY_KINDS


def test_kinds_of_waits() -> None:
    """Numbers above CUPTI's are those of our own recorders."""
    theirs = named("SYNCHRONIZATION_TYPE")
    assert {number: kind.removesuffix(" synchronize") for number, kind in theirs.items()} == {
        number: kind for number, kind in host._SYNC_KINDS.items() if number <= max(theirs)
    }


def test_kinds_of_overhead() -> None:
    shorter = {
        "cupti buffer flush": "buffer flush", "cupti instrumentation": "instrumentation", "cupti resource": "resource",
        "lazy function loading": "lazy loading", "uvm activity init": "unified memory initialisation",
    }  # fmt: skip
    theirs = {number: shorter.get(name, name) for number, name in named("OVERHEAD").items()}
    assert theirs == {number: kind for number, kind in host._OVERHEADS.items() if number in theirs}
    assert len(theirs) >= 4
