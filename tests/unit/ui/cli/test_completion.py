"""What shells complete: words that the verbs take, and columns, kernels and traces that are there."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from benchmarks.synthetic_trace import Plan, make
from warpsight.ui.cli import completion, parser
from warpsight.ui.cli.app import VERBS, main


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trace."""
    where = tmp_path_factory.mktemp("completion")
    make(where / "run.warp", Plan(kernels=30))
    return where


@pytest.fixture
def completed(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """What bash would be given for a command line whose last word is being typed."""

    def ask(line: str) -> list[str]:
        monkeypatch.chdir(folder)
        monkeypatch.setenv("_WARPSIGHT_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        with pytest.raises(SystemExit):
            main([])
        said = capsys.readouterr()
        assert said.err == ""
        return said.out.split()

    return ask


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("warpsight stats run.warp k", ["kernels"]),
        ("warpsight analyze run.warp crit", ["critical-path"]),
        ("warpsight flame run.warp --weight s", ["samples"]),
        ("warpsight flame run.warp --to c", ["cpuprofile"]),
        ("warpsight export run.warp --to par", ["parquet"]),
        ("warpsight query run.warp --format pa", ["parquet"]),
        ("warpsight query run.warp --table memc", ["memcpy"]),
        ("warpsight query run.warp --fields dur", ["duration"]),
        ("warpsight query run.warp --fields name,dur", ["name,duration"]),
        ("warpsight query run.warp --table counter --filter val", ["value="]),
        ("warpsight query nothing.warp --fields dur", []),
        ("warpsight record --stacks n", ["native"]),
        ("warpsight record --backend cu", ["cuda"]),
        ("warpsight record --export spee", ["speedscope"]),
        ("warpsight watch --on-hang d", ["dump"]),
        ("warpsight sass trace --events memory,bar", ["memory,barriers"]),
        ("warpsight help race ch", ["check"]),
        ("warpsight help vers", ["version"]),
        ("warpsight report ", ["run.warp"]),
        ("warpsight diff ", ["run.warp"]),
        ("warpsight report run", []),  # the shell completes names of files
    ],
)
def test_values_are_completed(completed, line: str, words: list[str]) -> None:
    assert completed(line) == words


def test_kernels_of_the_trace_are_completed(completed) -> None:
    found = completed("warpsight stats run.warp --name ")
    assert len(found) > 1 and all(name.isidentifier() for name in found)
    assert completed(f"warpsight sass list run.warp {found[0][:-1]}") == [found[0]]


def test_each_completed_parameter_and_its_words_exist() -> None:
    parameters = {}
    for verb in VERBS:
        command = parser.verb_command(verb)
        below = getattr(command, "commands", None)
        named = {verb: command} if below is None else {f"{verb} {name}": below[name] for name in below}
        for name, found in named.items():
            parameters |= {f"{name} {one.name}": one for one in found.params}
    for name in (*completion._WORDS, *completion._OWN, *completion._LISTS):
        assert name.startswith("* ") or name in parameters, name
    for place in completion._WORDS.values():
        module, _, name = place.partition(":")
        words = list(getattr(importlib.import_module(f"warpsight.{module}"), name))
        assert words and all(isinstance(word, str) for word in words), place
