"""`analyze` and `diff` as whole processes: what they print, their JSON against its schema, their exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import resources
from pathlib import Path

import jsonschema
import pytest

from warpsight.model import TraceWriter

GOLDEN = Path(__file__).parents[1] / "golden"
LEAK = str(GOLDEN / "planted_leak.warp.zip")
TINY = str(GOLDEN / "planted_tiny_kernels.warp.zip")


def run(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "warpsight", *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def schema_of(verb: str) -> dict[str, object]:
    text = (resources.files("warpsight.ui.cli") / "schemas" / f"{verb}.json").read_text()
    return dict(json.loads(text))


def test_the_answer_begins_with_the_cause_and_has_at_most_thirty_lines() -> None:
    for trace in (LEAK, TINY):
        lines = run("analyze", trace).stdout.splitlines()
        assert len(lines) <= 30
        assert max(map(len, lines)) <= 120
    text = " ".join(lines)
    assert text.startswith("The GPU is idle for 48% of the time in launch calls")
    assert "launch-bound: 2,009 of 2,010 kernels are launched when the GPU has run dry" in text


@pytest.mark.parametrize("arguments", [(), ("--list",), ("iterations", "memory"), ("--all", "--top", "2")])
def test_json_follows_its_schema(arguments: tuple[str, ...]) -> None:
    found = json.loads(run("analyze", LEAK, *arguments, "--json").stdout)
    jsonschema.validate(found, schema_of("analyze"))
    if arguments == ("iterations", "memory"):
        assert list(found["analyses"]) == ["iterations", "memory"]
        assert "verdict" not in found
    if not arguments:
        assert found["verdict"]["findings"][0]["rule"] == "memory/leak"


def test_without_a_name_the_newest_trace_here_is_analyzed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "warpsight", "analyze"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and "there is no trace in" in done.stderr
    (tmp_path / "run.warp.zip").write_bytes(Path(LEAK).read_bytes())
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "run.warp.zip, the newest trace here" in done.stderr, done.stderr
    assert done.stdout == run("analyze", LEAK).stdout
    done = subprocess.run(
        [*command, "memory", "iterations"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0 and done.stdout == run("analyze", LEAK, "memory", "iterations").stdout, (
        done.stderr
    )


def test_the_trace_may_come_after_the_names_of_analyses() -> None:
    done = run("analyze", "memory", "iterations", LEAK)
    assert done.stdout == run("analyze", LEAK, "memory", "iterations").stdout


def test_named_analyses_fit_thirty_lines_unless_asked_for_more() -> None:
    assert len(run("analyze", LEAK, "memory").stdout.splitlines()) <= 30
    assert len(run("analyze", LEAK, "memory", "--top", "0").stdout.splitlines()) > 90


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((LEAK, "iteratoins"), 2, "did you mean iterations?"),
        ((LEAK, "memory", "--dot", "x.dot"), 2, "--dot works with critical-path only"),
        (("nothing.warp",), 1, "nothing.warp"),
        ((LEAK, "--from", "soon"), 2, "is not a time"),
    ],
)
def test_mistakes_are_one_line(arguments: tuple[str, ...], code: int, message: str) -> None:
    error = run("analyze", *arguments, code=code).stderr
    assert message in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(("name", "said"), [
    ("occupncy", "there is no analysis 'occupncy'; did you mean occupancy?"),
    ("nosuch", "there is no analysis 'nosuch'; analyses: utilization, concurrency, "),
])  # fmt: skip
def test_an_analysis_that_does_not_exist_is_refused_with_near_ones_or_all(name: str, said: str) -> None:
    error = run("analyze", TINY, name, code=2).stderr
    assert error.startswith(f"warpsight: {said}") and error.count("\n") == 1


def test_strict_tells_incomplete_traces_by_its_code(tmp_path: Path) -> None:
    run("analyze", LEAK, "--strict")
    with TraceWriter(tmp_path / "t.warp") as writer:
        writer.add("loss", [{"source": "ring", "cause": "it was full", "count": 3, "severity": "lost"}])
    done = run("analyze", str(tmp_path / "t.warp"), "--strict", code=3)
    assert "No device work was recorded" in done.stdout
    assert "3 lost in ring: it was full" in done.stdout


def test_the_graph_of_a_part_is_written_as_dot(tmp_path: Path) -> None:
    out = tmp_path / "g.dot"
    run("analyze", TINY, "critical-path", "--from", "2.490s", "--until", "2.4905s", "--dot", str(out))
    assert out.read_text().startswith("digraph dependencies {")
    error = run("analyze", TINY, "critical-path", "--dot", str(out), code=1).stderr
    assert "exists already" in error
    exported = tmp_path / "h.dot"
    run("export", TINY, "--to", "dot", "--from", "2.490s", "--until", "2.4905s", "-o", str(exported))
    assert exported.read_text() == out.read_text()


def test_diff_of_two_programs_and_of_one_with_itself(tmp_path: Path) -> None:
    found = json.loads(run("diff", LEAK, TINY, "--json").stdout)
    jsonschema.validate(found, schema_of("diff"))
    assert found["verdict"] == "untested"
    text = run("diff", LEAK, LEAK).stdout
    assert text.startswith("Not tested against run-to-run noise, with one run per side")
    assert len(text.splitlines()) <= 30
    assert (
        "needs at least four runs per side" in run("diff", TINY, LEAK, "--fail-if-slower", "5", code=2).stderr
    )
    run("diff", TINY, LEAK, "--fail-if-slower", "5", "--untested", "-o", str(tmp_path / "d.txt"), code=4)
    assert "slower" in " ".join((tmp_path / "d.txt").read_text().split())
    assert "--by must be one of" in run("diff", LEAK, LEAK, "--by", "colour", code=2).stderr


def test_a_table_of_a_diff_without_rows_says_what_that_means() -> None:
    text = run("diff", LEAK, LEAK, "--by", "sequence").stdout
    assert text.endswith("\n\nThe typical iterations of both sides run the same kernels in the same order.\n")
    assert "kernels_before" in run("diff", LEAK, TINY, "--by", "sequence").stdout


def test_a_name_of_one_format_chooses_it(tmp_path: Path) -> None:
    out = tmp_path / "t.json"
    done = run("export", TINY, "-o", str(out))
    assert "traceEvents" in json.loads(out.read_text())
    assert done.stderr.endswith("its name chose the format chrome; --to chooses another\n")
