"""What `sass trace` asks its library for, and what it refuses before it starts the program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from warpsight.errors import WarpsightError
from warpsight.formats.events.kinds import CLASSES
from warpsight.sass.events import tracing
from warpsight.sass.events.tracing import TraceSelection, request
from warpsight.ui.cli import app


def _lines(selection: TraceSelection) -> list[str]:
    return request(selection, Path("/t/events"), Path("/s.so"), [Path("/t/sm_90.cubin")])


def test_a_request_says_what_is_traced() -> None:
    lines = _lines(
        TraceSelection(
            events=("memory", "values"), kernels=("gemm*",), launches=(2, 5), blocks=(0, 1), warps=(0, 3),
            addresses=(0x1000, 0x2000), offsets=((0, 64), (128, 256)), every=4, first=100, ring_mib=8,
        )
    )  # fmt: skip
    assert {
        "file=/t/events", "library=/s.so", "patches=/t/sm_90.cubin", "kernel=gemm*", "launches=2..5", "blocks=0..1",
        "warps=9", "addresses=4096..8192", "offsets=0..64", "offsets=128..256", "every=4", "first=100", "ring=8388608",
        "values=1",
    } <= set(lines)  # fmt: skip
    patches = [line.split(":")[1] for line in lines if line.startswith("instruction=")]
    assert patches == [kind.patch for kind in CLASSES["memory"]]


def test_the_file_will_say_what_was_left_out() -> None:
    said = next(line for line in _lines(TraceSelection(blocks=(0, 2))) if line.startswith("description="))
    assert json.loads(said.split("=", 1)[1]) == {"events": ["memory"], "blocks": [0, 2]}


def test_another_injected_tool_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUDA_INJECTION64_PATH", "/opt/other.so")
    with pytest.raises(WarpsightError, match=r"other\.so: another tool"):
        tracing.trace(["true"], TraceSelection(), tmp_path / "t.events")


def test_a_missing_assembler_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tracing, "find_tool", lambda name: None)
    with pytest.raises(WarpsightError, match="pip install nvidia-cuda-nvcc"):
        tracing.assemble(tmp_path, [90])


def test_an_assembler_that_refuses_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tool = tmp_path / "ptxas"
    tool.write_text("#!/bin/sh\necho 'ptxas fatal: no such arch' >&2\nexit 1\n")
    tool.chmod(0o755)
    monkeypatch.setattr(tracing, "find_tool", lambda name: tool)
    with pytest.raises(WarpsightError, match=r"sm_90: ptxas fatal: no such arch"):
        tracing.assemble(tmp_path, [90])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--events", "memroy"], "there is no class memroy"),
        (["--events", "values"], "add memory"),
        (["--blocks", "5..2"], "the range is empty"),
        (["--launches", "x"], "write N or LOW..HIGH"),
        (["--warps", "0..40"], "32 warps at most"),
        (["--ring-mib", "3"], "power of two"),
        (["--pc", "0..1", "--pc", "2..3", "--pc", "4..5", "--pc", "6..7", "--pc", "8..9"], "four times"),
    ],
)
def test_a_wrong_selection_is_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.main(["sass", "trace", *arguments, "--", "true"]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_an_existing_file_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "t.events"
    out.write_text("mine")
    assert app.main(["sass", "trace", "-o", str(out), "--", "true"]) == 1
    assert out.read_text() == "mine"
