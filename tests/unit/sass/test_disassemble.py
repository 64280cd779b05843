"""What nvdisasm prints becomes text, whatever bytes the cubin puts into it."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsight.sass import disassemble


def test_names_that_are_not_utf8_are_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool, cubin = tmp_path / "nvdisasm", tmp_path / "x.cubin"
    tool.write_text("#!/bin/sh\nprintf '.text.a\\377b\\n'\n", encoding="ascii")
    tool.chmod(0o755)
    cubin.write_bytes(b"\x7fELF")
    monkeypatch.setattr(disassemble, "find_tool", lambda _: tool)
    assert disassemble.disassemble(cubin).text == ".text.a\ufffdb\n"
