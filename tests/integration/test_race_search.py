"""`race stress` and `race reduce` on real programs that delay themselves: verdicts, kills, hangs, crashes, trials."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from warpsight.race import plan as plans
from warpsight.race.experiment import Experiment, digest
from warpsight.race.oracle import Oracle
from warpsight.race.plan import Plan, Point
from warpsight.race.search.reduction import reduce
from warpsight.race.stressing import stress

PROGRAM = str(Path(__file__).with_name("race_program.py"))
PLAN = Plan(
    mode="fixed", seed=1, floor_ns=100_000, ceiling_ns=100_000,
    points=tuple(
        Point(kernel="k", code="ab" * 32, pc=16 * step, kind="global", opcode="STG.E", source=(f"k.cu:{step + 1}", "main.cu:7"))
        for step in range(16)
    ),
)  # fmt: skip


@pytest.fixture
def plan(tmp_path: Path) -> str:
    plans.write(PLAN, tmp_path / "plan.json")
    return str(tmp_path / "plan.json")


def command(verb: str, plan: str, options: tuple[str, ...], program: tuple[str, ...]) -> list[str]:
    return [
        sys.executable,
        "-m",
        "warpsight.ui.cli",
        "race",
        verb,
        plan,
        "--inject",
        "none",
        *options,
        "--",
        *program,
    ]


def race(verb: str, plan: str, *options: str, program: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    folder = ("-o", str(Path(plan).with_name(verb)))
    whole = command(verb, plan, (*folder, *options), program)
    return subprocess.run(whole, capture_output=True, text=True, timeout=250, check=False)


def buggy(*options: str) -> tuple[str, ...]:
    return (sys.executable, PROGRAM, *options)


def checked(done: subprocess.CompletedProcess[str], schema: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout)
    text = (resources.files("warpsight.ui.cli") / "schemas" / f"{schema}.json").read_text()
    jsonschema.Draft202012Validator(json.loads(text)).validate(found)
    assert found["exit_code"] == done.returncode
    return found


@pytest.mark.parametrize(
    ("how", "options", "kind"),
    [
        ("exit", (), "fail"),
        ("output", ("--same-output",), "fail"),
        ("crash", (), "crash"),
        ("hang", ("--hang-after", "5"), "hang"),
    ],
)
def test_what_delays_bring_out_is_reproduced_and_told_by_its_class(
    plan: str, how: str, options: tuple[str, ...], kind: str
) -> None:
    done = race("stress", plan, "--json", *options, program=buggy("--how", how))
    found = checked(done, "race_stress")
    assert (found["verdict"], done.returncode) == ("reproduced", 10), done.stderr
    assert found["control"]["failures"] == 0 and found["delayed"]["failures"] >= 5
    assert set(found["outcomes"]) <= {"pass", kind}
    failing = plans.read(found["plan"])
    assert failing.points == PLAN.points and 2000 < failing.ceiling_ns <= 100_000


def test_a_tolerance_accepts_what_differs_less(plan: str) -> None:
    same = ("--same-output", "--tolerance", "0.6", "--runs", "12")
    done = race("stress", plan, *same, program=buggy("--how", "output"))
    assert done.returncode == 0 and "Not reproduced: nothing failed" in done.stdout


def test_a_program_that_delays_itself_needs_no_plan(tmp_path: Path) -> None:
    """It reads how long it may wait, and what it delays is its own to choose."""
    program = "import json, os; raise SystemExit(json.load(open(os.environ['WARPSIGHT_RACE_PLAN']))['probability'] > 0)"
    whole = [sys.executable, "-m", "warpsight.ui.cli", "race", "stress", "--inject", "none", "-o", str(tmp_path / "runs"),
             "--json", "--", sys.executable, "-c", program]  # fmt: skip
    done = subprocess.run(whole, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 10, done.stderr
    assert checked(done, "race_stress")["verdict"] == "reproduced"


def test_what_fails_without_delays_too_is_natural(plan: str) -> None:
    done = race("stress", plan, "--json", program=buggy("--natural", "0.6", "--show", "0.6"))
    assert (checked(done, "race_stress")["verdict"], done.returncode) == ("natural", 11), done.stdout


def test_what_always_fails_is_natural_at_once(plan: str) -> None:
    done = race("stress", plan, program=("false",))
    assert done.returncode == 11 and "three of three runs without delays: exit code 1" in done.stdout


def test_what_cannot_be_judged_is_a_broken_run(plan: str) -> None:
    done = race("stress", plan, "--json", program=("sh", "-c", "exit 125"))
    assert checked(done, "race_stress")["verdict"] == "broken run" and done.returncode == 12
    killed = race("stress", plan, "-f", program=("sh", "-c", "kill -KILL $$"))
    assert killed.returncode == 12 and "was ended by SIGKILL" in killed.stdout
    late = race(
        "stress", plan, "-f", "--timeout", "1", program=("sh", "-c", "while :; do echo; sleep 0.1; done")
    )
    assert late.returncode == 12 and "still running after 1 s" in late.stdout


def test_a_program_without_the_bug_is_not_reproduced_and_the_bound_is_told(plan: str) -> None:
    done = race("stress", plan, "--json", "--runs", "30", program=("true",))
    found = checked(done, "race_stress")
    assert (found["verdict"], done.returncode, found["plan"]) == ("not reproduced", 0, "")
    assert 3 / 30 < found["rate_below"] < 0.25
    runs = os.listdir(Path(found["folder"], "runs"))
    assert all(name.startswith("reference") for name in runs)  # those that passed follow from the journal


def test_a_shown_rate_ends_the_experiment(plan: str) -> None:
    done = race("stress", plan, "--json", "--rate", "0.25", program=("true",))
    found = checked(done, "race_stress")
    assert found["why"] == "the rate is below 0.25" and found["delayed"]["runs"] < 25


@pytest.mark.parametrize("seed", range(3))
def test_kills_at_random_moments_lose_neither_plan_nor_result(plan: str, tmp_path: Path, seed: int) -> None:
    folder = tmp_path / "stress"
    program = buggy("--how", "exit", "--sleep", "0.05", "--show", "0.4")
    whole = command("stress", plan, ("-o", str(folder), "--json"), program)
    moments = random.Random(seed)
    before: list[str] = []
    for _ in range(6):
        process = subprocess.Popen(whole, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(moments.uniform(0.4, 2.5))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        journal = (folder / "journal.jsonl").read_text() if (folder / "journal.jsonl").exists() else ""
        lines = journal[: journal.rfind("\n") + 1].splitlines()
        assert lines[: len(before)] == before  # nothing that was written is lost
        before = lines
        plans_left = list((folder / "runs").glob("*/plan.json")) if folder.exists() else []
        assert all(plans.read(path).points == PLAN.points for path in plans_left)  # whole, or not there
        drawn = {json.loads(line)["drawn"]["run"] for line in lines if '"drawn"' in line}
        started = {int(path.parent.name) for path in plans_left if path.parent.name.isdigit()}
        assert started <= drawn
    done = subprocess.run(whole, capture_output=True, text=True, timeout=250, check=False)
    found = checked(done, "race_stress")
    assert found["verdict"] == "reproduced", done.stderr
    results = [
        json.loads(line)["run"]
        for line in (folder / "journal.jsonl").read_text().splitlines()
        if '"outcome"' in line
    ]
    assert len(results) == len(set(results))  # no run counts twice
    again = subprocess.run(whole, capture_output=True, text=True, timeout=250, check=False)
    assert (
        json.loads(again.stdout)["outcomes"] == found["outcomes"]
    )  # a finished experiment only says its verdict


def test_a_damaged_journal_and_another_experiment_are_refused(plan: str) -> None:
    assert race("stress", plan, "--runs", "3", program=("true",)).returncode == 0
    other = race("stress", plan, "--runs", "3", "--seed", "5", program=("true",))
    assert other.returncode == 1 and "another experiment (seed differs)" in other.stderr
    journal = Path(plan).with_name("stress") / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"outcome"', b'"outc', 1))
    damaged = race("stress", plan, "--runs", "3", program=("true",))
    assert (
        damaged.returncode == 1
        and "journal.jsonl, line" in damaged.stderr
        and "Traceback" not in damaged.stderr
    )


def test_the_same_experiment_runs_once_at_a_time(plan: str, tmp_path: Path) -> None:
    folder = tmp_path / "stress"
    ready = tmp_path / "ready"
    program = ("sh", "-c", f"echo > {ready}; exec sleep 100")
    first = subprocess.Popen(command("stress", plan, ("-o", str(folder)), program), stderr=subprocess.DEVNULL)
    try:
        waiter = threading.Event()
        while not ready.exists() and first.poll() is None:
            waiter.wait(0.05)
        second = race("stress", plan, program=program)
        assert second.returncode == 1 and "in use" in second.stderr
    finally:
        first.send_signal(signal.SIGINT)
        assert first.wait(60) == 130


@pytest.mark.parametrize(
    "arguments",
    [("--gpus", "0,0"), ("--gpus", "x,"), ("--inject", "magic"), ("--same-file", "f", "--gpus", "2")],
)
def test_wrong_options_are_refused(plan: str, arguments: tuple[str, ...]) -> None:
    done = race("stress", plan, *arguments, program=("true",))
    assert done.returncode == 2 and arguments[0] in done.stderr


def test_runs_share_the_gpus_and_each_sees_its_own(plan: str, tmp_path: Path) -> None:
    program = ("sh", "-c", f'echo "$CUDA_VISIBLE_DEVICES" >> {tmp_path}/seen')
    assert race("stress", plan, "--gpus", "3,5", "--runs", "8", program=program).returncode == 0
    assert set((tmp_path / "seen").read_text().split()) == {"3", "5"}


def test_files_and_arrays_are_compared(plan: str, tmp_path: Path) -> None:
    made = tmp_path / "made.txt"
    script = f'grep -q \'"probability": 0.0\' "$WARPSIGHT_RACE_PLAN" && echo 1 > {made} || echo 2 > {made}'
    done = race("stress", plan, "--same-file", str(made), program=("sh", "-c", script))
    assert done.returncode == 10 and "differs in line 1: '2' instead of '1'" in done.stdout


TRIALS = """
import os, signal, sys, warpsight as ws
delayed = {}
ws.race.use_switch(lambda seed, on: delayed.update(on=on, seed=seed))
count = 0

@ws.race.trial
def step():
    global count
    count += 1
    wrong = delayed.get("on") and delayed["seed"] % 7 == 0
    if wrong and HOW == "crash": os.kill(os.getpid(), signal.SIGSEGV)
    if wrong and HOW == "hang": signal.pause()
    if wrong and HOW == "raise": raise ValueError("no")
    ws.race.output("sum", [1.0, 2.5 if wrong and HOW == "output" else 2.0])
    return not (wrong and HOW == "return")

step()
"""


@pytest.mark.parametrize(
    ("how", "kind"),
    [("return", "fail"), ("output", "fail"), ("raise", "crash"), ("crash", "crash")],
)
def test_trials_in_one_process_are_switched_and_charged_one_by_one(
    plan: str, tmp_path: Path, how: str, kind: str
) -> None:
    script = tmp_path / "trials.py"
    script.write_text(TRIALS.replace("HOW", repr(how)))
    options = ("--json", "--in-process", "50")
    found = checked(race("stress", plan, *options, program=(sys.executable, str(script))), "race_stress")
    assert found["verdict"] == "reproduced" and set(found["outcomes"]) <= {"pass", kind}, found
    assert (
        found["control"]["runs"] == 0 and found["control"]["trials"] > 5
    )  # in the processes of the delayed arm
    assert found["example"].startswith(f"{kind}: trial ")
    assert plans.read(found["plan"]).seed % 7 == 0  # the seed of the trial, not of the process


INJECTED = """
#include <stdint.h>
#include <stdio.h>
int on;
char plan[4096];
int warpsight_race_set(uint64_t seed, int delays) { on = delays; return 1; }
int warpsight_race_plan(const char* path) { snprintf(plan, sizeof plan, "%s", path); return 1; }
"""
KEPT = """
import ctypes, json, os, sys, warpsight as ws
library = ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"])
with open(sys.argv[1], "a") as file: print(os.getpid(), file=file)
damaged = False

@ws.race.trial
def step():
    global damaged
    path = ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(library, "plan"))).decode()
    plan = json.load(open(path or os.environ["WARPSIGHT_RACE_PLAN"]))
    on = ctypes.c_int.in_dll(library, "on").value and plan["probability"]
    waited = {point["pc"] // 16 for point in plan["points"]}
    late = on and {4, 9} <= waited and plan["ceiling_ns"] > 2000
    if late and HOW == "raise": raise ValueError("no")
    damaged = damaged or (late and HOW == "damage")
    return not (late or damaged)

step()
"""


@pytest.mark.parametrize(("how", "most"), [("return", 4), ("damage", 99), ("raise", 99)])
def test_a_process_that_failed_makes_the_trials_of_other_plans_unless_that_damaged_it(
    tmp_path: Path, how: str, most: int
) -> None:
    if (compiler := shutil.which("cc")) is None:
        pytest.skip("no C compiler")
    source, library, script, starts = (tmp_path / name for name in ("i.c", "i.so", "kept.py", "starts"))
    source.write_text(INJECTED)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    script.write_text(KEPT.replace("HOW", repr(how)))

    def changed(plan: Plan) -> Path:
        path = tmp_path / f"{digest(plan)}.json"
        plans.write(plan, path)
        return path

    oracle = Oracle(command=(sys.executable, str(script), str(starts)), in_process=5)
    injection = {"CUDA_INJECTION64_PATH": str(library)}
    experiment = Experiment(tmp_path / "reduce", oracle, lambda *_: injection, changes=changed)
    found = reduce(experiment, PLAN)
    assert [point.pc // 16 for point in found.points] == [4, 9] and 2000 < found.delay_ns <= 4000
    begun = starts.read_text().split()
    assert found.runs > 20 and len(begun) <= most
    assert not any(Path("/proc", pid).exists() for pid in begun)
    stressed = stress(replace(experiment, folder=tmp_path / "stress"), PLAN)
    assert stressed.verdict == "reproduced" and not stressed.control.failures


def test_a_hang_is_charged_to_its_trial(tmp_path: Path) -> None:
    script = tmp_path / "trials.py"
    script.write_text(TRIALS.replace("HOW", repr("hang")))
    experiment = Experiment.of(
        [sys.executable, str(script)], tmp_path / "folder", inject=False, in_process=500, hang_s=15.0
    )
    with experiment.begin({}, force=False):
        assert experiment.refer(PLAN).kind == "pass"
        outcome = experiment.run("one", PLAN, control_share=0.5)
    assert outcome.kind == "hang" and outcome.why.startswith("trial ") and outcome.failed_delayed
    assert outcome.failed_seed is not None and outcome.failed_seed % 7 == 0
    assert 1 < outcome.control + outcome.delayed < 500


def test_a_trial_without_an_experiment_runs_once(tmp_path: Path) -> None:
    script = tmp_path / "trials.py"
    script.write_text(TRIALS.replace("HOW", "'return'") + "print(count)")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.stdout, done.returncode) == ("1\n", 0), done.stderr


def test_a_plan_is_reduced_to_points_delay_warp_and_cta(plan: str) -> None:
    options = ("--deterministic", "--warps", "8", "--ctas", "64")
    done = race("reduce", plan, "--json", *options, program=buggy())
    found = checked(done, "race_reduce")
    assert (found["verdict"], done.returncode) == ("reduced", 0), done.stderr
    assert [point["pc"] // 16 for point in found["points"]] == [4, 9]
    assert found["steps"][0]["runs"] <= 2 * 4 + 2 * 2 + 1
    reduced = plans.read(found["plan"])
    assert (
        2000 < reduced.ceiling_ns <= 4000 and reduced.where.warps == (3,) and reduced.where.ctas == ((5, 6),)
    )
    text = race("reduce", plan, *options, program=buggy()).stdout
    assert "2 of 16 points make it fail" in text and "k.cu:5\n    inlined at main.cu:7" in text


def test_a_noisy_reduction_survives_a_kill(plan: str, tmp_path: Path) -> None:
    folder = tmp_path / "reduce"
    program = buggy("--needed", "6", "--show", "0.8", "--natural", "0.01")
    whole = command("reduce", plan, ("-o", str(folder), "--json", "--points-only"), program)
    for seconds in (1.5, 3.0):
        process = subprocess.Popen(whole, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    recorded = (folder / "journal.jsonl").read_text() if folder.exists() else ""
    done = subprocess.run(whole, capture_output=True, text=True, timeout=250, check=False)
    found = checked(done, "race_reduce")
    assert [point["pc"] // 16 for point in found["points"]] == [6], done.stderr
    assert (folder / "journal.jsonl").read_text().startswith(recorded[: recorded.rfind("\n") + 1])


def test_a_plan_that_does_nothing_and_a_natural_failure_are_told(plan: str) -> None:
    done = race("reduce", plan, "--deterministic", program=("true",))
    assert done.returncode == 13 and "did not make it fail" in done.stdout
    begun = Path(plan).with_name("begun")
    script = (
        f"[ -e {begun} ] && exit 1; touch {begun}"  # the first run is the one that others are compared with
    )
    natural = race("reduce", plan, "-f", "--deterministic", program=("sh", "-c", script))
    assert natural.returncode == 11 and "without any delay" in natural.stdout


@pytest.mark.parametrize(("logged", "searched"), [([4, 9, 11], 3), ([4, 11], 16)])
def test_points_that_never_waited_are_left_out_unless_nothing_fails_without_them(
    tmp_path: Path, logged: list[int], searched: int
) -> None:
    experiment = Experiment.of(buggy(), tmp_path / "reduce", inject=False)
    seen = {"point": np.array(logged), "warp": np.array([1, 3, 3]), "cta": np.array([5, 6, 6])}
    experiment.read_log = lambda plan, log: seen
    found = reduce(experiment, PLAN, deterministic=True)
    assert [point.pc // 16 for point in found.points] == [4, 9]
    assert found.steps[-4].before == searched
    assert found.where.warps == (3,) and found.where.ctas == ((5, 6),)
