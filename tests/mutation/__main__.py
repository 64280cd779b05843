"""`make mutate`: seeded mutants, stratified by file, each against the tests that cover it."""

from __future__ import annotations

import argparse
import compileall
import math
import multiprocessing
import random
import shutil
import sys
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from tests.mutation import covering, mutants, running

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "warpsight"
#: What is mutated, below src/warpsight.
PLACES = ("analysis", "capture", "model", "device_code", "formats/kineto")
#: Every suite that needs no GPU, each measured by itself. Tests of every analysis on degenerate traces run nearly every line
#: for minutes and state only that an answer comes, and are left out.
TESTS = {
    "analysis": ["tests/unit/analysis", "--ignore=tests/unit/analysis/test_degenerate.py"],
    "golden": ["tests/golden"],
    "model": ["tests/unit/model", "tests/unit/capture", "tests/unit/device_code", "tests/unit/api"],
    "kineto": ["tests/unit/formats/kineto"],
    "formats": ["tests/unit/formats", "--ignore=tests/unit/formats/kineto"],
    "above": [
        f"tests/unit/{name}"
        for name in ("ui", "simulate", "sass", "replay", "cluster", "debug", "race", "machine")
    ],
    "recorder": ["tests/unit/recorder"],
    "truth": ["tests/truth"],
    "integration": ["tests/integration"],
}
#: Changes that no test can notice, each with the reason.
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
#: The longest that the tests of one mutant may take together.
MOST_S = 60.0


@dataclass(frozen=True)
class Trial:
    """A mutant and what became of it."""

    file: Path
    mutant: mutants.Mutant
    outcome: str
    noticed_by: str = ""

    def __str__(self) -> str:
        """The place and the change, on one line."""
        place = f"{self.file.relative_to(ROOT)}:{self.mutant.line}"
        change = f"{_short(self.mutant.before)} → {_short(self.mutant.after)}"
        return f"{self.outcome:9} {place}: {change}" + (f"  ({self.noticed_by})" if self.noticed_by else "")


def _short(code: str) -> str:
    first, *more = code.splitlines()
    return first + (" …" if more else "")


def _equivalent() -> set[tuple[str, str, str, str]]:
    """Named mutants: file, the line's text, the code before and after."""
    named = tomllib.loads(EQUIVALENT.read_text())["mutant"]
    return {(one["file"], one["line"], one["before"], one["after"]) for one in named}


def chosen(files: list[Path], count: int, seed: int) -> list[tuple[Path, mutants.Mutant]]:
    """Mutants in equal parts from all files, as far as they have so many, in an order that the seed decides."""
    order, equivalent = random.Random(seed), _equivalent()
    texts = {file: file.read_text() for file in files}
    waiting = {file: list(range(mutants.count(text))) for file, text in texts.items()}
    out: list[tuple[Path, mutants.Mutant]] = []
    while len(out) < count and any(waiting.values()):
        turn = [file for file, left in waiting.items() if left]
        order.shuffle(turn)
        for file in turn[: count - len(out)]:
            one = mutants.mutant(texts[file], waiting[file].pop(order.randrange(len(waiting[file]))))
            line = texts[file].splitlines()[one.line - 1].strip()
            if (str(file.relative_to(SOURCE)), line, one.before, one.after) not in equivalent:
                out.append((file, one))
    return out


def interval(killed: int, tried: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share."""
    z, share = 1.96, killed / tried
    middle = share + z * z / (2 * tried)
    half = z * math.sqrt(share * (1 - share) / tried + z * z / (4 * tried * tried))
    return (middle - half) / (1 + z * z / tried), (middle + half) / (1 + z * z / tried)


def _work(jobs: list[running.Job], answers: multiprocessing.SimpleQueue) -> None:  # type: ignore[type-arg]
    """Try mutants one after another in a copy of the source: those in functions live, then the others anew."""
    running.preload()
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        copied = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copied)
        variables = covering.environment(copied) | {
            "HYPOTHESIS_STORAGE_DIRECTORY": str(Path(folder) / "hypothesis")
        }
        runner = running.Runner(ROOT, copied, variables)
        done = multiprocessing.SimpleQueue()  # type: ignore[var-annotated]
        live = [job for job in jobs if job.live]
        collected = multiprocessing.Process(target=_live, args=(runner, live, done))
        collected.start()
        left, noticed = [job for job in jobs if not job.live], {""}
        for job in live:
            answer = done.get()
            if not isinstance(answer, tuple):
                break
            trial = Trial(job.file, job.mutant, *answer)
            if trial.outcome == running.SURVIVED and job.outside:
                left.append(job)  # what it changes may have been made while modules were imported
            else:
                noticed.add(trial.noticed_by)
                answers.put(trial)
        collected.join()
        if live and not isinstance(answer, tuple):
            answers.put(answer)
            return
        for job in left:
            trial = Trial(job.file, job.mutant, *runner.anew(job))
            noticed.add(trial.noticed_by)
            answers.put(trial)
        answers.put(runner.failing(sorted(noticed - {""})))


def _live(runner: running.Runner, jobs: list[running.Job], done: multiprocessing.SimpleQueue) -> None:  # type: ignore[type-arg]
    """In a process of its own: import everything, collect the tests, and try each mutant in a fork."""

    def then() -> None:
        try:
            for job in jobs:
                done.put(runner.live(job))
        except Exception:
            done.put(traceback.format_exc())

    if jobs:
        runner.collected(sorted({test for job in jobs for test in job.tests}), then)


def _trials(jobs: list[running.Job], workers: int) -> Iterator[Trial | set[str]]:
    """Each trial when it is done; of each worker also the tests that fail without a mutant."""
    answers = multiprocessing.SimpleQueue()  # type: ignore[var-annotated]
    parts = [part for i in range(workers) if (part := jobs[i::workers])]
    started = [multiprocessing.Process(target=_work, args=(part, answers)) for part in parts]
    for one in started:
        one.start()
    left = len(started)
    while left:
        answer = answers.get()
        if isinstance(answer, str):
            raise RuntimeError(answer)
        yield answer
        left -= not isinstance(answer, Trial)
    for one in started:
        one.join()


def main() -> int:
    """Run; exit code 1 when less than the wanted share is killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=PLACES, help="folders or files below src/warpsight")
    parser.add_argument(
        "--coverage", type=Path, default=ROOT / "build/mutation", help="made when it is not there"
    )
    parser.add_argument("--suites", nargs="*", default=list(TESTS), choices=TESTS, help="whose tests are run")
    parser.add_argument("--seconds", type=float, default=MOST_S, help="of tests for one mutant")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--all", action="store_true", help="print the killed ones too, with the test that noticed"
    )
    parser.add_argument("--least", type=float, default=0.9, help="share to be killed")
    options = parser.parse_args()
    measured = [options.coverage / name for name in options.suites]
    for folder in measured:
        if not (folder / "seconds.json").exists():
            covering.measure(folder, ROOT, TESTS[folder.name])
    covered = covering.Covering(measured, ROOT)
    places = [SOURCE / place for place in options.only]
    files = sorted(file for place in places for file in ([place] if place.is_file() else place.rglob("*.py")))
    jobs, uncovered = [], []
    for file, mutant in chosen(files, options.count, options.seed):
        tests = covered.tests(file, mutant.line, options.seconds)
        limit_s = 10 + 3 * sum(covered.seconds[test] for test in tests)
        inside, outside = covered.in_function(file, mutant.line)
        live = inside and running.replaceable(file, mutant)
        if tests:
            jobs.append(running.Job(file, mutant, tests, limit_s, live, outside))
        else:
            uncovered.append(Trial(file, mutant, "uncovered"))
    compileall.compile_dir(ROOT / "src", quiet=2)  # copied by every worker
    trials = [*uncovered]
    unfit: set[str] = set()
    for trial in _trials(jobs, options.workers):
        if not isinstance(trial, Trial):
            unfit |= trial
            continue
        trials.append(trial)
        if trial.outcome == running.SURVIVED or options.all:
            print(trial, flush=True)
    print(*uncovered, sep="\n")
    for test in sorted(unfit):
        print(f"{test} fails without a mutant, too: what it noticed does not count")
    killed = sum(
        trial.outcome in (running.KILLED, running.TIMEOUT) and trial.noticed_by not in unfit
        for trial in trials
    )
    low, high = interval(killed, len(trials))
    print(f"{killed} of {len(trials)} mutants killed: {killed / len(trials):.1%} (95% interval {low:.1%} to {high:.1%}), "
          f"{len(uncovered)} on lines that no test runs, seed {options.seed}")  # fmt: skip
    return 0 if killed >= options.least * len(trials) else 1


if __name__ == "__main__":
    sys.exit(main())
