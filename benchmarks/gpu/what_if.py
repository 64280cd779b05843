"""Predicted and measured steps: eight changes of a program that `warpsight simulate` predicts from one recording.

usage: what_if.py --out FOLDER [--only NAME,…] [--rounds 7]

Each case runs in a process of its own. It warms up both programs, times them in turn without a recorder (`--rounds` times, the
median counts), records the base once and, to compare offline, the changed program. The prediction has the recording and the
base's measured step, from which the recorder's cost follows (`--step`).

FOLDER gets results.json and the traces, and FOLDER/what-if.tar.gz both. Bars: step within 3% on average and 8% at worst,
change within 10% and 25%.

    what_if.py --again FOLDER     predict again from what is in FOLDER; needs no GPU
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
#: Steps before anything is timed.
WARM_UP = 5


def timed(step: Callable[[], None], count: int, after: Callable[[], None]) -> float:
    """Nanoseconds of one of `count` steps, with the device idle before and after."""
    import torch

    torch.cuda.synchronize()
    start = time.perf_counter_ns()
    for _ in range(count):
        step()
        after()
    torch.cuda.synchronize()
    return (time.perf_counter_ns() - start) / count


def recorded(step: Callable[[], None], count: int, path: Path) -> float:
    """Record some steps; nanoseconds of one of them."""
    import warpsight as ws

    with ws.record(path, force=True, stacks="off", sample=0, counters="off"):
        timed(step, 2, ws.step)
        return timed(step, count, ws.step)


def run_case(name: str, out: Path, rounds: int) -> dict[str, Any]:
    """Measure and record one case."""
    import torch

    sys.path.insert(0, str(HERE))
    from what_if_cases import CASES

    case = CASES[name]()
    for step in (case.base, case.changed):
        timed(step, WARM_UP, lambda: None)
    pairs = [
        [timed(step, case.steps, lambda: None) for step in (case.base, case.changed)] for _ in range(rounds)
    ]
    base, changed = (list(column) for column in zip(*pairs, strict=True))
    stem = name.replace(" ", "-")
    row: dict[str, Any] = {
        "name": name, "what": list(case.what), "device": torch.cuda.get_device_name(), "base": base, "changed": changed,
        "steps": case.steps,
    }  # fmt: skip
    for which, step in (("base", case.base), ("changed", case.changed)):
        row[f"recorded_{which}"] = recorded(step, case.steps, out / f"{stem}-{which}.warp")
    again = [[timed(step, case.steps, lambda: None) for step in (case.base, case.changed)] for _ in range(2)]
    row["after_recording"] = again
    return row


def predict(row: dict[str, Any], out: Path) -> dict[str, Any]:
    """The row with the predicted step and its errors."""
    import warpsight as ws

    base, changed = (statistics.median(row[which]) for which in ("base", "changed"))
    found: dict[str, Any] = {"base_ns": base, "changed_ns": changed}
    began = time.perf_counter()
    try:
        with ws.open(out / f"{row['name'].replace(' ', '-')}-base.warp") as trace:
            step = trace.simulate(*row["what"], step=base / 1e9).step
    except Exception as problem:  # a case that cannot be predicted must not lose the others
        return {**row, **found, "problem": f"{type(problem).__name__}: {problem}"}
    change = changed - base
    found |= {"trace_ns": step.recorded, "predicted_ns": step.predicted, "low_ns": step.low, "high_ns": step.high,
              "step_error": step.predicted / changed - 1, "seconds": time.perf_counter() - began}  # fmt: skip
    if row["what"]:
        found["change_error"] = ((step.predicted - base) - change) / abs(change)
        found["change"] = change / base
    return {**row, **found}


def show(rows: list[dict[str, Any]]) -> None:
    """Print the table and the bars."""
    print(
        f"{'case':<20}{'base ms':>9}{'trace ms':>9}{'measured':>9}{'predicted':>10}{'change':>8}{'step err':>9}{'change err':>11}"
    )
    for row in rows:
        if "problem" in row:
            print(f"{row['name']:<20}{row['problem']}")
            continue
        cells = [row[key] / 1e6 for key in ("base_ns", "trace_ns", "changed_ns", "predicted_ns")]
        text = f"{row['name']:<20}" + "".join(
            f"{cell:>{w}.3f}" for cell, w in zip(cells, (9, 9, 9, 10), strict=True)
        )
        change = f"{100 * row['change']:>7.1f}%" if "change" in row else f"{'':>8}"
        error = f"{100 * row['change_error']:>10.1f}%" if "change_error" in row else ""
        print(f"{text}{change}{100 * row['step_error']:>8.1f}%{error}")
    for key, mean, worst in (("step_error", 0.03, 0.08), ("change_error", 0.10, 0.25)):
        errors = [abs(row[key]) for row in rows if key in row]
        if errors:
            average, most = statistics.mean(errors), max(errors)
            met = "met" if average <= mean and most <= worst else "missed"
            print(
                f"{key}: mean {100 * average:.1f}% (bar {100 * mean:.0f}), "
                f"worst {100 * most:.1f}% (bar {100 * worst:.0f}): {met}"
            )


def main() -> None:
    """Measure, predict, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--again", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--case")
    options = parser.parse_args()
    if options.again:
        show(
            [predict(row, options.again) for row in json.loads((options.again / "results.json").read_text())]
        )
        return
    out = options.out or parser.error("--out FOLDER is needed")
    out.mkdir(parents=True, exist_ok=True)
    if options.case:
        row = run_case(options.case, out, options.rounds)
        (out / f"{options.case.replace(' ', '-')}.json").write_text(json.dumps(row))
        return
    sys.path.insert(0, str(HERE))
    from what_if_cases import CASES

    names = [name for name in CASES if not options.only or name in options.only.split(",")]
    rows = []
    for name in names:
        command = [
            sys.executable,
            __file__,
            "--out",
            str(out),
            "--case",
            name,
            "--rounds",
            str(options.rounds),
        ]
        if subprocess.run(command).returncode:
            print(f"{name}: failed", file=sys.stderr)
            continue
        rows.append(json.loads((out / f"{name.replace(' ', '-')}.json").read_text()))
        (out / "results.json").write_text(json.dumps(rows, indent=1))
    with tarfile.open(out / "what-if.tar.gz", "w:gz") as archive:
        archive.add(out / "results.json", "results.json")
        for trace in sorted(out.glob("*.warp")):
            archive.add(trace, trace.name)
    predicted = [predict(row, out) for row in rows]
    show(predicted)
    (out / "predicted.json").write_text(json.dumps(predicted, indent=1))


if __name__ == "__main__":
    main()
