"""Findings as SARIF: each at its line, with nothing private."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from warpsight.analysis.base.result import Finding
from warpsight.ui.cli import app
from warpsight.ui.render import sarif

GOLDEN = Path(__file__).parents[3] / "golden"
SLOW = str(GOLDEN / "planted_slow_step.warp.zip")


def written(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert app.main(["-q", "analyze", SLOW, "--sarif", *words]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    return dict(run)


def test_the_slow_line_is_a_result_and_every_finding_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    run = written(capsys)
    assert app.main(["-q", "analyze", SLOW, "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)["verdict"]["findings"]
    notes = run["invocations"][0]["toolExecutionNotifications"]
    assert len(run["results"]) + len(notes) == len(findings)
    host = next(one for one in run["results"] if one["ruleId"] == "account/host")
    (place,) = host["locations"]
    assert place["physicalLocation"]["artifactLocation"] == {"uri": "slow_step.py", "uriBaseId": "%SRCROOT%"}
    assert place["physicalLocation"]["region"] == {"startLine": 27}
    assert host["level"] == "warning" and 70 < host["rank"] < 90
    assert host["properties"]["from"].endswith("s")
    rules = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert {one["ruleId"] for one in run["results"]} <= rules
    assert all(one["locations"] for one in run["results"])


def test_options_that_do_not_go_together_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["gaps", "--sarif"], ["--sarif", "--json"], ["--include-paths"]):
        assert app.main(["analyze", SLOW, *words]) == 2
        assert "--sarif" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "outside", "uri"),
    [("/srv/project/my code/a.py", False, "my%20code/a.py"), ("a.py", False, "a.py"), ("…/a.py", False, None),
     ("/usr/lib/b.py", False, None), ("/usr/lib/b.py", True, "file:///usr/lib/b.py")],
)  # fmt: skip
def test_files_below_the_root_are_relative_and_others_are_named_on_request(
    file: str, outside: bool, uri: str | None
) -> None:
    place = sarif._location((file, 7), Path("/srv/project"), outside)
    assert (place and place["physicalLocation"]["artifactLocation"]["uri"]) == uri


def test_the_programs_own_line_comes_first() -> None:
    finding = Finding(
        "warning", "idle at call (/x/site-packages/torch/m.py:5)", evidence=("called by step (train.py:9) ← main (train.py:3)",)
    )  # fmt: skip
    assert sarif._places(finding) == [("train.py", 9), ("train.py", 3), ("/x/site-packages/torch/m.py", 5)]
