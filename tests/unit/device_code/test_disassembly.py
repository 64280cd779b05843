"""Which architectures nvdisasm is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from warpsight.device_code import disassembly


@pytest.mark.parametrize(
    ("architecture", "asked"),
    [(80, ["SM80"]), (89, ["SM89"]), (90, ["SM90a", "SM90"]), (100, ["SM100a", "SM100"])],
)
def test_from_hopper_on_the_features_of_one_architecture_are_tried_first(
    architecture: int, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code of sm_90a (wgmma) reads only as SM90a; older architectures have no such name."""
    tried: list[str] = []

    def refuses(tool: Path, code: bytes, address: int, name: str) -> list[Any]:
        tried.append(name)
        return []

    monkeypatch.setattr(disassembly, "find_tool", lambda name: Path(name))
    monkeypatch.setattr(disassembly, "_run", refuses)
    assert disassembly.disassemble(b"code", 0, architecture) == []
    assert tried == asked
