"""Options that leave something out of a recording say so: in table `loss`, and at the end of `record`."""

from __future__ import annotations

from pathlib import Path

import pytest

import warpsight.model
from tests.integration import standin_programs
from tests.integration.standin_programs import Standin


@pytest.fixture(scope="module")
def standin(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Standin:
    return standin_programs.build(library, tmp_path_factory.mktemp("standin"))


def said(standin: Standin, trace: Path, options: tuple[str, ...], *steps: str) -> tuple[str, list[str]]:
    """What `record` printed, and the causes in `loss`."""
    command = (
        "record",
        "--sample",
        "off",
        "--counters",
        "off",
        *options,
        "-o",
        str(trace),
        "--",
        *standin.program(*steps),
    )
    done = standin.run(*command)
    assert done.returncode == 0, done.stderr
    with warpsight.model.open(trace) as opened:
        return done.stderr, [cause for (cause,) in opened.sql("SELECT cause FROM loss").fetchall()]


@pytest.mark.parametrize(
    ("options", "steps", "begins"),
    [
        (("--yield",), ("init", "launch:work:10", "sync"), "CUPTI is left to the program (--yield): no GPU work"),
        (("--delay", "0.5"), ("init", "rate:work:1000:1500", "sync"), "--delay 0.5: nothing of the first 0.5 s of"),
        (("--for", "0.5"), ("init", "rate:work:1000:1500", "sync"), "--for 0.5: nothing of the program's last"),
        (("--max-size", "1"), ("init", "rate:work:60000:5000", "sync"), "--max-size 1: the trace was that large after"),
    ],
)  # fmt: skip
def test_what_an_option_left_out_is_told(
    standin: Standin, tmp_path: Path, options: tuple[str, ...], steps: tuple[str, ...], begins: str
) -> None:
    printed, causes = said(standin, tmp_path / "a.warp", options, *steps)
    assert any(cause.startswith(begins) for cause in causes)
    assert f"  note:       {begins}" in printed


def test_nothing_is_told_of_options_that_left_nothing_out(standin: Standin, tmp_path: Path) -> None:
    options = ("--for", "3600", "--max-size", "1000")
    printed, causes = said(standin, tmp_path / "a.warp", options, "init", "launch:work:10", "sync")
    assert "note:" not in printed
    assert not any(cause.startswith("--") for cause in causes)
