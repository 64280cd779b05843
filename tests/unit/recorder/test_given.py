"""Where options come from: the command line, variables, a configuration file; and which of them wins."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsight.errors import UsageError
from warpsight.recorder import backend_choice
from warpsight.recorder.options.given import COMMAND_LINE, gather
from warpsight.recorder.options.settings import Settings


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder below one with a configuration file."""
    (tmp_path / "warpsight.toml").write_text(
        '[record]\nstacks = "both"\nflush = 50\nkernels = ["gemm*", "add*"]\nsample = "off"\nmax_size = 7\n'
    )
    (tmp_path / "below").mkdir()
    return tmp_path / "below"


def test_the_command_line_wins_then_the_environment_then_the_file(folder: Path) -> None:
    given = gather({"stacks": "off"}, {"WARPSIGHT_STACKS": "native", "WARPSIGHT_FLUSH_MS": "60"}, folder)
    assert (given.get("stacks"), given.get("flush"), given.get("sample")) == ("off", 60, 0.0)
    assert given.get("kernels") == ("gemm*", "add*") and given.get("stack_depth") == 128
    assert given.sources["stacks"] == COMMAND_LINE and given.sources["flush"] == "WARPSIGHT_FLUSH_MS"
    assert sorted(given.from_file()) == ["kernels", "max_size", "sample"]
    assert given.by_hand("stacks") and not given.by_hand("flush")


def test_a_switch_of_the_file_is_turned_off_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "warpsight.toml").write_text("[record]\ncubins = true\n")
    assert gather({}, {}, tmp_path).get("cubins") is True
    assert gather({"cubins": False}, {}, tmp_path).get("cubins") is False
    assert gather({}, {"WARPSIGHT_CUBINS": "0"}, tmp_path).get("cubins") is False


def test_pyproject_has_the_table_too_and_a_nearer_file_wins(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.warpsight.record]\nstacks = "native"\n')
    (tmp_path / "below").mkdir()
    assert gather({}, {}, tmp_path / "below").get("stacks") == "native"
    (tmp_path / "below/pyproject.toml").write_text("[tool.other]\nx = 1\n")
    assert gather({}, {}, tmp_path / "below").get("stacks") == "native"
    (tmp_path / "below/warpsight.toml").write_text('[record]\nstacks = "off"\n')
    assert gather({}, {}, tmp_path / "below").get("stacks") == "off"


def test_a_variable_names_another_file_or_none(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text('[record]\nstacks = "native"\n')
    assert gather({}, {"WARPSIGHT_CONFIG": str(other)}, folder).get("stacks") == "native"
    assert gather({}, {"WARPSIGHT_CONFIG": "off"}, folder).values == {}
    with pytest.raises(UsageError, match=r"WARPSIGHT_CONFIG names .*absent"):
        gather({}, {"WARPSIGHT_CONFIG": str(tmp_path / "absent")}, folder)


@pytest.mark.parametrize(("text", "hint"), [
    ("[record]\nstack = 'both'\n", "no option 'stack'; did you mean stacks?"),
    ("[record]\nforce = true\n", "no option 'force'"),
    ("[record]\nstacks = 'all'\n", "--stacks must be one of python, native, both, off, not 'all' (set by "),
    ("[record]\nflush = '50'\n", "--flush must be a whole number"),
    ("record = 3\n", "record is a table"),
    ("[record\n", "is not TOML"),
    ("stack_depth = 3\n", "stack_depth belongs below [record]"),
    ("[recrd]\nstack_depth = 3\n", "there is no 'recrd': options of `warpsight record` belong below [record]"),
    ("[record]\noutput = 'x.warp'\n", "no option 'output'; did you mean path?"),
    ("[record]\nstack-depth = 3\n", "no option 'stack-depth'; did you mean stack_depth?"),
])  # fmt: skip
def test_what_a_file_has_wrong_is_said_with_its_path(tmp_path: Path, text: str, hint: str) -> None:
    (tmp_path / "warpsight.toml").write_text(text)
    with pytest.raises(UsageError) as error:
        gather({}, {}, tmp_path)
    assert hint in str(error.value) and str(tmp_path / "warpsight.toml") in str(error.value)


@pytest.mark.parametrize(("text", "hint"), [
    ("[tool.warpsight]\nmax-size = 3\n", "max_size belongs below [tool.warpsight.record]"),
    ("[tool.warpsight.analyze]\ntop = 3\n", "there is no 'analyze'"),
    ("[tool]\nwarpsight = 3\n", "warpsight is a table"),
])  # fmt: skip
def test_what_pyproject_has_beside_the_table_is_not_ignored(tmp_path: Path, text: str, hint: str) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(UsageError) as error:
        gather({}, {}, tmp_path)
    assert hint in str(error.value) and str(tmp_path / "pyproject.toml") in str(error.value)


def test_a_bad_variable_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--stack-depth must be .* \(set by WARPSIGHT_STACK_DEPTH\)"):
        gather({}, {"WARPSIGHT_STACK_DEPTH": "none"}, tmp_path)


def test_triggers_of_the_environment_wait_for_a_ring(tmp_path: Path) -> None:
    environment = {"WARPSIGHT_TRIGGER": "crash", "WARPSIGHT_AFTER": "5", "WARPSIGHT_LOG_STACKS": "full"}
    assert gather({}, environment, tmp_path).values == {}
    found = gather({"ring": "30s"}, environment, tmp_path)
    assert found.get("triggers") == ("crash",) and found.get("after") == 5.0
    with pytest.raises(UsageError, match="belong to a ring"):
        Settings(**gather({"triggers": ["crash"]}, {}, tmp_path).of_scope("recording"))


def test_a_files_options_that_the_backend_does_not_take_are_left_out_and_others_refused(
    tmp_path: Path,
) -> None:
    (tmp_path / "warpsight.toml").write_text('[record]\ncubins = true\nstacks = "both"\ntemplate = "x"\n')
    given = gather({"backend": "opencl"}, {}, tmp_path)
    kept = backend_choice.fitting(given, backend_choice.choose(given))
    assert dict(kept.values) == {"backend": "opencl", "stacks": "both"}
    given = gather({"backend": "nsys", "stacks": "off"}, {}, tmp_path)
    with pytest.raises(UsageError, match="--stacks is an option of warpsight's own recorders"):
        backend_choice.fitting(given, backend_choice.choose(given))
