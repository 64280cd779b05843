"""Compares a trace with the log of stack_log.py. usage: check_stack_log.py TRACE LOG.json

Every launch of every thread, in order, must be in the trace with the right stack, and every launch must have its
kernel(s) with the same stack. Prints one JSON line; exits 1 on any difference.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import warpsight

DEPTH = 10
SOURCE = "stack_log_generated.py"
NAMES = [
    "form_runtime",
    "form_runtime_ex",
    "form_cooperative",
    "form_driver",
    "form_driver_ex",
    "form_driver_cooperative",
    "form_graph",
    "form_triton",
]


def stack_numbers(trace: Any) -> dict[int, int]:
    """Stack id -> the number its lines spell, for stacks that pass through all generated functions."""
    frames = {
        i: (f, file, line)
        for i, f, file, line in trace.sql("SELECT id, function, file, line FROM frame").fetchall()
    }
    stacks = {
        i: (parent, frame) for i, parent, frame in trace.sql("SELECT id, parent, frame FROM stack").fetchall()
    }
    numbers: dict[int, int] = {}
    for stack in stacks:
        number, seen, at = 0, 0, stack
        while at:
            parent, frame = stacks[at]
            function, file, line = frames[frame]
            if file == SOURCE:
                level = int(function.rsplit("_", 1)[1])
                # each level occupies 6 lines; line 3 of it is the branch of a set bit, line 5 of a clear one
                number |= (1 if line == level * 6 + 3 else 0) << level
                seen += 1
            at = parent or 0
        if seen == DEPTH:
            numbers[stack] = number
    return numbers


def main() -> int:
    log = json.loads(Path(sys.argv[2]).read_text())
    wrong_stack = missing_launch = missing_kernel = wrong_kernel_stack = wrong_name = launches = 0
    with warpsight.open(sys.argv[1]) as trace:
        numbers = stack_numbers(trace)
        rows = trace.sql(
            "SELECT thread, correlation, stack FROM launch WHERE NOT captured ORDER BY thread, start"
        ).fetchnumpy()
        kernels = trace.sql(
            "SELECT correlation, name, stack FROM kernel WHERE start IS NOT NULL ORDER BY correlation"
        ).fetchall()
        by_correlation: dict[int, list[tuple[str, int | None]]] = {}
        for correlation, name, stack in kernels:
            by_correlation.setdefault(correlation, []).append((name or "", stack))
        for thread, entries in log["threads"].items():
            mine = np.asarray(rows["thread"]) == int(thread)
            stacks = [numbers.get(int(s), -1) for s in np.ma.filled(rows["stack"][mine], 0)]
            correlations = [int(c) for c in np.asarray(rows["correlation"][mine])]
            own = [(n, c) for n, c in zip(stacks, correlations, strict=True) if n >= 0]
            launches += len(own)
            missing_launch += len(entries) - len(own)
            for (form, number), (seen, correlation) in zip(entries, own, strict=False):
                wrong_stack += seen != number
                found = by_correlation.get(correlation, [])
                missing_kernel += len(found) != (2 if form == 6 else 1)
                wrong_name += any(NAMES[form] not in name for name, _ in found)
                if form != 6:
                    wrong_kernel_stack += any(numbers.get(stack or 0, -1) != number for _, stack in found)
        result = {
            "launches": launches,
            "missing_launches": missing_launch,
            "wrong_stacks": wrong_stack,
            "launches_without_kernel": missing_kernel,
            "wrong_names": wrong_name,
            "wrong_kernel_stacks": wrong_kernel_stack,
            "distinct_stacks": len(set(numbers.values())),
            "triton": log["triton"],
            "loss": [
                tuple(row)
                for row in trace.sql(
                    "SELECT source, cause, count FROM loss WHERE severity <> 'note'"
                ).fetchall()
            ],
        }
    print(json.dumps(result))
    bad = missing_launch or wrong_stack or missing_kernel or wrong_name or wrong_kernel_stack
    return 1 if bad or not launches else 0


if __name__ == "__main__":
    sys.exit(main())
