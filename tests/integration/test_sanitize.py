"""`warpsight sanitize`: what comes out and with which exit code; the tool is a stand-in that hands out a real report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import resources
from pathlib import Path

import jsonschema
import pytest

from tests.unit.debug.test_sanitizer import STAND_IN, report


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "bin" / "compute-sanitizer"
    path.parent.mkdir()
    path.write_text(
        STAND_IN.format(python=sys.executable, report=str(report("illegal_address.memcheck", tmp_path)))
    )
    path.chmod(0o755)
    return dict(os.environ, PATH=f"{path.parent}:{os.environ['PATH']}")


def sanitize(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "warpsight.ui.cli", "sanitize", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)


def test_findings_follow_the_programs_own_output_and_its_exit_code_stays(environment: dict[str, str]) -> None:
    program = [sys.executable, "-c", "print('hello'); raise SystemExit(3)"]
    done = sanitize(environment, "--tool", "memcheck", "--", *program)
    assert done.returncode == 3
    assert done.stdout == "hello\n"
    assert "error: Invalid __global__ write of size 4 bytes" in done.stderr
    assert "in store at" in done.stderr and "called from illegal_address at" in done.stderr
    assert "thread (7,0,0) of block (5,0,0)" in done.stderr


def test_json_follows_its_schema_and_findings_can_fail_the_run(
    environment: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "findings.json"
    done = sanitize(environment, "--json", "-o", str(out), "--error-exitcode", "9", "--", "true")
    assert done.returncode == 9, done.stderr
    found = json.loads(out.read_text())
    schema = json.loads((resources.files("warpsight.ui.cli") / "schemas" / "sanitize.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(found)
    assert found["exit_code"] == 0 and found["findings"][0]["frames"][0]["function"] == "store"


def test_an_unknown_tool_is_refused(environment: dict[str, str]) -> None:
    done = sanitize(environment, "--tool", "magic", "--", "true")
    assert done.returncode == 2 and "memcheck, racecheck, initcheck or synccheck" in done.stderr


@pytest.mark.parametrize(("program", "code", "why"), [
    ("no-such-program", 127, "no-such-program: not found"), ("./missing", 127, "not found"),
    ("./text", 126, "permission denied"), ("./bin", 126, "cannot be run: is a directory"),
])  # fmt: skip
def test_a_program_that_cannot_be_started_has_the_shells_exit_code(
    environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    code: int,
    why: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("no program")
    done = sanitize(environment, "--", program)
    assert done.returncode == code and why in done.stderr
    assert "findings" not in done.stderr
