"""Hardware metrics by the chip's names: a list of them, and measured values (`sass metrics`)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from warpsight.errors import UsageError, WarpsightError
from warpsight.machine import profiler_host
from warpsight.machine.profiler_host import RANGES, SAMPLING, Metric

if TYPE_CHECKING:
    import pyarrow as pa

    from warpsight.model import StoredTrace

#: Stands for the metrics of :mod:`warpsight.sass.counts.roofline`.
_ROOFLINE = "roofline"
_REFUSED = 2
_CHOOSE = """
import json, sys
from warpsight.errors import UsageError
from warpsight.sass.metrics import chosen
try:
    print(json.dumps(chosen(*json.loads(sys.argv[1]))))
except UsageError as error:
    print(error, file=sys.stderr)
    sys.exit(2)
"""
_NOT_MEASURED = (
    "no hardware metrics; measure some with: warpsight sass metrics -m NAMES -- PROGRAM (NVIDIA, CUPTI)"
)

_RANGES = """
SELECT r.kind, coalesce(n.short, r.name) AS name, r.metric, count(*) AS times, avg(value) AS mean, min(value) AS min,
       max(value) AS max, any_value(passes) AS passes
FROM range_metric r LEFT JOIN name n ON r.kind = 'kernel' AND n.name = r.name
GROUP BY ALL ORDER BY min(r.start), r.kind, name, r.metric
"""
_SAMPLES = """
SELECT device, name AS metric, unit, count(*) AS samples, avg(value) AS mean, min(value) AS min, max(value) AS max
FROM counter WHERE source = 'pm sampling' GROUP BY ALL ORDER BY ALL
"""


def listed(chip: str, patterns: Sequence[str] = (), sampling: bool = False) -> list[Metric]:
    """The metrics of a chip whose names match a pattern, or all.

    Raises:
        UsageError: when none matches.
    """
    kind = SAMPLING if sampling else RANGES
    names = [name for name in profiler_host.base_metrics(chip, kind) if _matches(name, patterns)]
    counted = () if sampling else profiler_host.instruction_metrics(chip)
    found = profiler_host.describe(chip, names, kind) + [
        one for one in counted if _matches(one.name, patterns)
    ]
    if not found:
        raise UsageError(f"{chip} has no metric {', '.join(patterns)}")
    return found


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) or name == pattern for pattern in patterns)


def of_this_machine(names: Sequence[str], sampling: bool = False) -> tuple[tuple[str, ...], int]:
    """The metrics to measure on this machine, with `roofline` expanded, and the number of passes.

    Without a GPU they are unchecked and count as one pass. They are checked in a separate process, because CUPTI can crash if it
    does not fit the driver, and the recorder checks again.

    Raises:
        UsageError: for a metric that the GPU lacks, and for samples that need several passes.
    """
    chip = profiler_host.chip_of_device()
    if chip is None:
        return chosen(None, names, sampling)
    command = [sys.executable, "-c", _CHOOSE, json.dumps([chip, list(names), sampling])]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode == _REFUSED:
        raise UsageError(done.stderr.strip())
    if done.returncode != 0:
        return chosen(None, names, sampling)
    wanted, passes = json.loads(done.stdout)
    return tuple(wanted), passes


def chosen(chip: str | None, names: Sequence[str], sampling: bool = False) -> tuple[tuple[str, ...], int]:
    """The metrics to measure on a chip and the number of passes; unchecked if no chip is given."""
    from warpsight.sass.counts.roofline import METRICS

    kind = SAMPLING if sampling else RANGES
    wanted = [name for name in names if name != _ROOFLINE]
    if chip is not None:
        for name in wanted:
            _check(chip, name, kind)
    if _ROOFLINE in names:
        wanted += [name for name in METRICS if chip is None or profiler_host.passes(chip, [name], kind)]
    wanted = list(dict.fromkeys(wanted))
    passes = profiler_host.passes(chip, wanted, kind) if chip is not None else None
    if passes is not None and passes > 1 and sampling:
        together = _in_one_pass(str(chip), wanted)
        fit = f": {', '.join(together)} fit in one" if together else ""
        raise UsageError(
            f"these metrics need {passes} passes and sampling takes one{fit}; ask for fewer at a time"
        )
    return tuple(wanted), passes or 1


def _in_one_pass(chip: str, names: Sequence[str]) -> list[str]:
    """The longest prefix of the names that can be sampled together."""
    together: list[str] = []
    for name in names:
        if profiler_host.passes(chip, [*together, name], SAMPLING) == 1:
            together.append(name)
    return together


def _check(chip: str, name: str, kind: int) -> None:
    if profiler_host.passes(chip, [name], kind) is not None:
        return
    base = name.partition(".")[0]
    known = profiler_host.base_metrics(chip, kind)
    if base in known:
        suffixes = profiler_host.describe(chip, [base], kind)[0].suffixes
        raise UsageError(f"{name}: {chip} has {base} with one of these suffixes: {', '.join(suffixes)}")
    near = get_close_matches(base, known, 3)
    meant = f"; near: {', '.join(near)}" if near else ""
    raise UsageError(f"{chip} has no metric {name}{meant} (warpsight sass metrics --list)")


def measured(trace: StoredTrace) -> pa.Table:
    """Measured values: a row for each metric of each kernel or range, or of each sampled device.

    Raises:
        WarpsightError: when nothing was measured.
    """
    if trace.count("range_metric"):
        return trace.sql(_RANGES).to_arrow_table()
    if trace.sql("SELECT count(*) FROM counter WHERE source = 'pm sampling'").fetchall() != [(0,)]:
        return trace.sql(_SAMPLES).to_arrow_table()
    lost = trace.sql("SELECT cause FROM loss WHERE source = 'metrics'").fetchall()
    raise WarpsightError(f"{trace.path}: {lost[0][0] if lost else _NOT_MEASURED}")
