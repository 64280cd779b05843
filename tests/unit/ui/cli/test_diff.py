"""`warpsight diff` from the command line: sides, folders, what it says of few runs, and the exit codes of --fail-if-slower."""

import json
import shutil

import pytest

from tests.unit.analysis.diff.traces import DAY, Program, record
from warpsight.ui.cli import app

PROGRAM = Program()
SLOWER = PROGRAM.slower("gemm_a", 1.5)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Folders `same`, `other` and `slower` with five runs each, taken in turn."""
    folder = tmp_path_factory.mktemp("runs")
    for place, (name, program) in enumerate({"same": PROGRAM, "other": PROGRAM, "slower": SLOWER}.items()):
        (folder / name).mkdir()
        for run in range(5):
            number = 3 * run + place
            record(folder / name / f"{run}.warp", program, number, DAY + number * 10**9)
    return folder


def paths(folder, count=5):
    return [str(folder / f"{run}.warp") for run in range(count)]


@pytest.fixture
def said(capsys):
    """Run the verb; its exit code, standard output as one line, and standard error likewise."""

    def run(*arguments):
        code = app.main(["diff", *map(str, arguments)])
        out, err = capsys.readouterr()
        return code, " ".join(out.split()), " ".join(err.split())

    return run


def test_runs_on_both_sides_of_the_dashes_are_the_two_sides(said, recorded):
    code, out, _ = said(*paths(recorded / "same"), "--", *paths(recorded / "slower"), "--json")
    found = json.loads(out)
    assert code == 0
    assert found["runs"] == [5, 5] and found["verdict"] == "slower"
    assert found["before"] == paths(recorded / "same") and found["after"] == paths(recorded / "slower")


def test_a_folder_is_the_runs_in_it(said, recorded):
    by_folder = json.loads(said(recorded / "same", recorded / "slower", "--json")[1])
    by_path = json.loads(said(*paths(recorded / "same"), "--", *paths(recorded / "slower"), "--json")[1])
    assert by_folder["headline"] == by_path["headline"]
    assert by_folder["tables"]["kernel"] == by_path["tables"]["kernel"]


def test_options_may_stand_behind_the_dashes(said, recorded):
    code, out, _ = said(recorded / "same", "--", recorded / "slower", "--by", "kernel")
    assert code == 0
    assert "gemm_a" in out and "slowest tenth" not in out


def test_one_run_a_side_is_not_tested(said, recorded):
    code, out, err = said(recorded / "same" / "0.warp", recorded / "slower" / "0.warp")
    assert code == 0
    assert out.startswith("Not tested against run-to-run noise, with one run per side: ")
    assert "untested" in out and "beyond run-to-run noise" not in out
    assert "four runs per side, better five" in err


def test_three_runs_a_side_say_that_no_test_can_tell(said, recorded):
    _, out, _ = said(*paths(recorded / "same", 3), "--", *paths(recorded / "slower", 3))
    assert out.startswith(
        "Not tested against run-to-run noise: with three and three runs an exact test cannot get below p = 0.10"
    )


def test_four_runs_a_side_say_what_they_cannot_tell(said, recorded):
    _, out, err = said(*paths(recorded / "same", 4), "--", *paths(recorded / "slower", 4))
    assert out.startswith("Slower by ")
    assert "a single outlier can hide a change of a row" in err


def test_fail_if_slower_ends_with_4_on_a_slowdown_beyond_noise(said, recorded):
    assert said(recorded / "same", recorded / "slower", "--fail-if-slower", "5")[0] == 4
    assert said(recorded / "slower", recorded / "same", "--fail-if-slower", "5")[0] == 0


def test_fail_if_slower_ends_with_0_when_such_a_slowdown_is_ruled_out(said, recorded):
    assert said(recorded / "same", recorded / "other", "--fail-if-slower", "20")[0] == 0


def test_fail_if_slower_ends_with_5_when_the_runs_cannot_decide(said, recorded):
    code, _, err = said(recorded / "same", recorded / "other", "--fail-if-slower", "0.1")
    assert code == 5
    assert "undecided: a slowdown of 0.1% is within the 99% interval" in err


def test_fail_if_slower_refuses_too_few_runs_unless_told_to_judge_them(said, recorded):
    few = [*paths(recorded / "same", 2), "--", *paths(recorded / "slower", 2)]
    code, out, err = said(*few, "--fail-if-slower", "5")
    assert code == 2 and not out
    assert "at least four runs per side" in err
    assert said(*few, "--fail-if-slower", "5", "--untested")[0] == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["same/0.warp", "same/1.warp", "slower/0.warp"], "write -- between them"),
        (["same", "--"], "use -- once"),
        (["same", "--", "other", "--", "slower"], "use -- once"),
        (["same/0.warp", "same/0.warp", "--", "slower"], "is given twice on one side"),
        (["same", "same/0.warp", "--", "slower"], "is given twice on one side"),
        (["same", "other", "--fail-if-slower", "0"], "must be a percentage above 0"),
        (["same", "other", "--untested"], "needs --fail-if-slower"),
        (["same", "other", "--by", "colour"], "--by must be one of"),
        (["empty", "other"], "is a folder without traces"),
    ],
)  # fmt: skip
def test_command_lines_that_make_no_sense_are_refused(said, recorded, arguments, message):
    (recorded / "empty").mkdir(exist_ok=True)
    folder = {"same", "other", "slower", "empty"}
    words = [recorded / one if one.split("/")[0] in folder else one for one in arguments]
    code, out, err = said(*words)
    assert code == 2 and not out
    assert message in err


def test_files_that_are_no_traces_are_left_out_of_a_folder(said, recorded, tmp_path):
    folder = shutil.copytree(recorded / "same", tmp_path / "same")
    (folder / "notes.txt").write_text("five runs, quiet machine\n")
    assert json.loads(said(folder, recorded / "other", "--json")[1])["runs"] == [5, 5]
