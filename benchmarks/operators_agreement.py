"""How far `stats ops` and TraceLens' report of the same Kineto files agree: FLOP, bytes and kernel time per distinct call.

    TraceLens_generate_perf_report_pytorch --profile_json_path TRACE --output_csvs_dir REPORT
    PYTHONPATH=src:. python benchmarks/operators_agreement.py TRACE=REPORT ...

Prints a row for each file, then the operators whose figures differ, those with the most kernel time first.
"""

from __future__ import annotations

import ast
import csv
import json
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np

import warpsight as ws
from warpsight.analysis.ops import arguments, figures
from warpsight.analysis.ops.models import evaluate
from warpsight.model.selection import Rows

#: Relative difference up to which figures are the same: both are products of integers.
SAME = 1e-6
#: Kernel times are microseconds with three decimals there.
SAME_TIME = 1e-3
KINDS = ("equal", "differ", "only ours", "only theirs", "both unknown")


def literal(text: str) -> Any:
    """A tuple of Python as lists."""
    return json.loads(json.dumps(ast.literal_eval(text))) if text else []


def key(call: arguments.Call) -> tuple[str, str]:
    """What identifies a call in both reports."""
    return call.name, repr(
        [one if not isinstance(one, arguments.Tensor) else one.shape for one in call.arguments]
    )


def times(trace: ws.Trace) -> dict[tuple[str, str], float]:
    """Kernel time of each call with the operators inside it, µs."""
    found = figures.of_trace(trace, Rows())
    ops = found.ops
    numbers: dict[tuple[str, str], int] = {}
    group = np.array([numbers.setdefault(key(call), len(numbers)) for call in ops.calls], np.int64)[ops.call]
    # Autograd and the operator below it may be two rows of the same call, one inside the other.
    outer = ops.outermost_of_group(group)
    total = np.bincount(group[outer], found.total[outer], len(numbers)) / 1000
    return dict(zip(numbers, total.tolist(), strict=True))


def kind(ours: float | None, theirs: float | None) -> str:
    """How two figures compare."""
    if ours is None or theirs is None:
        return "both unknown" if ours is theirs else "only theirs" if ours is None else "only ours"
    return "equal" if abs(ours - theirs) <= SAME * max(abs(ours), abs(theirs)) else "differ"


def compare(path: str, report: str, differing: dict[tuple[str, str], list[Any]]) -> Counter[Any]:
    """Kernel time by how figures compare, and calls likewise."""
    found: Counter[Any] = Counter()
    ours: dict[Any, float] = {}
    theirs: dict[Any, float] = defaultdict(float)
    with ws.open(path) as trace:
        ours = times(trace)
    csv.field_size_limit(1 << 30)
    with (Path(report) / "unified_perf_summary.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if "->" in row["name"]:  # a kernel of an operator with several
                continue
            told = tuple(
                json.dumps(literal(row[name])).encode()
                for name in ("Input type", "Input Strides", "Concrete Inputs")
            )
            call = arguments.call(row["name"], json.dumps(literal(row["Input Dims"])), told)
            time = float(row["Kernel Time (µs)_sum"] or 0)
            theirs[key(call)] += time
            estimate = evaluate(call)
            for what, own, column, scale in (
                ("FLOP", estimate.flops, "GFLOPS", 1e9),
                ("bytes", estimate.bytes, "Data Moved (MB)", 2**20),
            ):
                other = float(row[column]) * scale if row[column] else None
                how = kind(own, other)
                found[what, how] += 1
                found[what, how, "time"] += time
                if how == "differ":
                    differing[what, call.name].append((time, own, other, row["Input Dims"]))
    for one, time in theirs.items():
        same = abs(ours.get(one, 0.0) - time) <= SAME_TIME * max(time, 1)
        found["time", "equal" if same else "differ"] += 1
    return found


def cell(found: Counter[Any], what: str, how: str) -> str:
    """Calls, and their share of kernel time."""
    whole = sum(found[what, one, "time"] for one in KINDS) or 1
    return f"{found[what, how]} ({found[what, how, 'time'] / whole:.0%})" if found[what, how] else ""


def main() -> None:
    """Compare the files named on the command line."""
    differing: dict[tuple[str, str], list[Any]] = defaultdict(list)
    columns = [(what, how) for what in ("FLOP", "bytes") for how in KINDS[:4]]
    print("| file | kernel time equal | " + " | ".join(f"{what} {how}" for what, how in columns) + " |")
    print("|---" * (len(columns) + 2) + "|")
    total: Counter[Any] = Counter()
    for pair in sys.argv[1:]:
        path, report = pair.split("=")
        found = compare(path, report, differing)
        total += found
        name = Path(path).name.removesuffix(".gz").removesuffix(".json")
        calls = found["time", "equal"] + found["time", "differ"]
        print(
            f"| {name} | {found['time', 'equal']} of {calls} | "
            + " | ".join(cell(found, *one) for one in columns)
            + " |"
        )
    calls = total["time", "equal"] + total["time", "differ"]
    print(
        f"| all | {total['time', 'equal']} of {calls} | "
        + " | ".join(cell(total, *one) for one in columns)
        + " |"
    )
    print()
    for (what, name), rows in sorted(differing.items(), key=lambda item: -sum(row[0] for row in item[1])):
        ratios = [own / other for _, own, other, _ in rows if other]
        bounds = f"{min(ratios):.4g} to {max(ratios):.4g}" if ratios else "-"
        print(
            f"{what:5} {name:45} {len(rows):4} calls {sum(row[0] for row in rows):9.0f} µs  ours / theirs {bounds}"
        )


if __name__ == "__main__":
    main()
