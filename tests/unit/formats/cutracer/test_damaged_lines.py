"""Verbs on a CUTracer file whose lines are damaged end with a message that names the file, or read what is whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from warpsight.ui.cli import app

SMALL = Path(__file__).parents[3] / "golden" / "formats" / "cutracer" / "small.ndjson"
VERBS = (["histogram"], ["delays", "--delay-ns", "100"], ["query"])


def damaged(how: str) -> bytes:
    lines = SMALL.read_bytes().splitlines()
    first, second = json.loads(lines[0]), json.loads(lines[1])
    if how == "a place that is no number":
        lines[1] = json.dumps({**second, "pc": "=1+1"}).encode()
    elif how == "an id of 40 digits":
        lines[1] = json.dumps({**second, "opcode_id": 10**40}).encode()
    elif how == "nesting without end":
        lines[1] = b'{"type":' + b"[" * 100_000
    elif how == "bytes that are no text":
        lines[1] = lines[1].replace(b"opcode_only", b"opcode\xffonly")
    elif how == "instructions that are texts":
        lines[0] = json.dumps({**first, "instructions": {"0": "LDG", "9" * 5_000: {"sass": "STG"}}}).encode()
    return b"\n".join(lines) + b"\n"


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
@pytest.mark.parametrize(
    "how",
    [
        "a place that is no number", "an id of 40 digits", "nesting without end", "bytes that are no text",
        "instructions that are texts",
    ],
)  # fmt: skip
def test_no_damage_is_an_internal_error(
    how: str, verb: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "small.ndjson"
    path.write_bytes(damaged(how))
    code = app.main(["sass", verb[0], str(path), *verb[1:]])
    told = capfd.readouterr().err
    assert "internal error" not in told
    assert code == 0 or told.startswith("warpsight: ")
