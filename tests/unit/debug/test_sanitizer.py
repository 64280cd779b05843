"""Reports that Compute Sanitizer 2025.3 wrote about the broken programs of tests/gpu/broken on an H200."""

from __future__ import annotations

import io
import lzma
import os
import sys
from pathlib import Path

import pytest

from tests.gpu.broken.truth import truths
from warpsight.debug.sanitizer import sanitize
from warpsight.debug.sanitizer_chains import completed
from warpsight.debug.sanitizer_report import SanitizerFinding, findings, interesting
from warpsight.device_code.cubin import Cubin
from warpsight.device_code.demangle import short
from warpsight.errors import WarpsightError
from warpsight.ui.render.race import sanitizer as render

REPORTS = Path(__file__).parent / "sanitizer_reports"
CUBINS = Path(__file__).resolve().parents[2] / "golden/cubins"


def report(name: str, folder: Path) -> Path:
    path = folder / f"{name}.xml"
    path.write_bytes(lzma.decompress((REPORTS / f"{name}.xml.xz").read_bytes()))
    return path


def read(name: str, folder: Path) -> list[SanitizerFinding]:
    found, problems = findings([report(name, folder)])
    assert problems == []
    return found


def chain(finding: SanitizerFinding) -> list[tuple[str, int]]:
    return [(frame.function, frame.line) for frame in finding.frames]


@pytest.mark.parametrize(
    ("name", "records"), [("uninitialized.initcheck", 32), ("divergent_barrier.synccheck", 40)]
)
def test_reports_of_many_threads_are_one_finding_with_its_chain(
    name: str, records: int, tmp_path: Path
) -> None:
    (finding,) = read(name, tmp_path)
    place = truths()[name.split(".")[0]].places[0]
    assert chain(finding) == [(function, min(lines)) for function, lines in place.chain]
    assert finding.count == records
    assert len(set(finding.threads)) == records
    assert finding.severity == "error"
    assert [frame.function for frame in interesting(finding.host)][-1] == "main"


def test_an_illegal_access_has_its_thread_address_and_host_stack(tmp_path: Path) -> None:
    access, api = read("illegal_address.memcheck", tmp_path)
    assert access.kind == "Precise" and "Invalid __global__ write of size 4" in access.message
    assert [function for function, _ in chain(access)] == ["store", "scatter", "illegal_address"]
    assert access.threads == [((5, 0, 0), (7, 0, 0))]
    assert access.size == 4 and access.address is not None and access.address > 1 << 42
    assert access.host_at == "kernel launch time"
    assert api.kind == "Api" and "719" in api.message and api.frames == ()


def test_a_race_has_both_sides_and_errors_come_before_warnings(tmp_path: Path) -> None:
    found = read("shared_race.racecheck", tmp_path)
    assert [finding.severity for finding in found] == ["error"] + ["warning"] * 5
    first = found[0]
    assert [access.direction for access in first.accesses] == ["write", "read", "read"]
    assert [access.hazards for access in first.accesses] == [None, 128, 64]
    (function, lines) = truths()["shared_race"].places[0].chain[0]
    assert all([(f.function, f.line) for f in a.chain] == [(function, min(lines))] for a in first.accesses)


def test_a_race_gets_its_whole_chain_from_the_programs_code(tmp_path: Path) -> None:
    code = Cubin(lzma.decompress((REPORTS / "shared_race.cubin.xz").read_bytes()), "shared_race")
    expected = [(function, min(lines)) for function, lines in truths()["shared_race"].places[0].chain]
    for finding in read("shared_race.racecheck", tmp_path):
        for access in finding.accesses:
            chain = completed(access, [code]).chain
            assert [(short(frame.function), frame.line) for frame in chain] == expected
    other = Cubin(lzma.decompress((CUBINS / "spin_flag.debug.sm_90.cubin.xz").read_bytes()), "other")
    assert completed(finding.accesses[0], [other]) == finding.accesses[0]


def test_a_report_that_was_cut_gives_its_whole_records_and_says_so(tmp_path: Path) -> None:
    path = report("misaligned_address.memcheck", tmp_path)
    whole = sum(finding.count for finding in findings([path])[0])
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    found, problems = findings([path])
    assert 0 < sum(finding.count for finding in found) < whole
    assert len(problems) == 1 and "ends early" in problems[0]


STAND_IN = """#!{python}
import shutil, subprocess, sys
words = sys.argv[1:]
save, log = (words[words.index(o) + 1].replace("%p", "77") for o in ("--save", "--log-file"))
shutil.copy({report!r}, save)
open(log, "w").write("========= COMPUTE-SANITIZER\\n========= ERROR SUMMARY: 32 errors\\n")
program = words[words.index("--log-file") + 2:]
sys.exit(subprocess.run(program).returncode)
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compute-sanitizer that runs the program and hands out a real report."""
    from warpsight.device_code.disassembly import find_tool

    path = tmp_path / "bin" / "compute-sanitizer"
    path.parent.mkdir()
    text = STAND_IN.format(python=sys.executable, report=str(report("uninitialized.initcheck", tmp_path)))
    path.write_text(text)
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")
    find_tool.cache_clear()
    yield path
    find_tool.cache_clear()


@pytest.mark.usefixtures("stand_in")
def test_the_programs_exit_code_passes_through(capfd: pytest.CaptureFixture[str]) -> None:
    run = sanitize("initcheck", [sys.executable, "-c", "print('own output'); raise SystemExit(5)"])
    assert run.code == 5
    assert capfd.readouterr().out == "own output\n"
    assert [finding.count for finding in run.findings] == [32]
    assert run.summaries == ("ERROR SUMMARY: 32 errors",)
    stream = io.StringIO()
    render.show(run, stream)
    text = stream.getvalue()
    assert "Uninitialized __global__ memory read of size 4 bytes (32 times)" in text
    assert "called from uninitialized at" in text and "1 findings from 32 errors" in text


@pytest.mark.usefixtures("stand_in")
def test_reports_can_be_kept(tmp_path: Path) -> None:
    sanitize("initcheck", ["true"], keep=tmp_path / "kept")
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {"initcheck.77.xml", "initcheck.77.txt"}


def test_without_the_tool_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from warpsight.debug import sanitizer

    monkeypatch.setattr(sanitizer, "find_tool", lambda name: None)
    with pytest.raises(WarpsightError, match="pip install nvidia-cuda-sanitizer-api"):
        sanitize("memcheck", ["true"])
