"""Figures of benchmarks/diff_trust.py: how many comparisons were right, by program, and the table of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from diff_comparisons import SIDE, Outcome, Pool
from diff_programs import PLANTED

from warpsight.analysis.diff.runs import ReducedRun

#: Of 40 comparisons: false alarms allowed at most, planted slowdowns found at least.
ALARMS, FOUND = 2 / 40, 36 / 40


def program(outcomes: Sequence[Outcome], pool: Pool, name: str) -> dict[str, Any]:
    """What the comparisons of a program said, and what its runs took."""
    judged = []
    for kind in ("equal", "planted"):
        for in_turn in (True, False):
            mine = [one for one in outcomes if (one.kind, one.in_turn) == (kind, in_turn)]
            counted = [one for one in mine if (one.different if kind == "equal" else one.found)]
            wrong = [one for one in mine if (one in counted) == (kind == "equal")]
            share = len(counted) / len(mine)
            needed = 2 * SIDE if kind == "equal" or not in_turn else SIDE
            rounds = len(pool.plain) * (2 if kind == "equal" else 1)
            judged.append({
                "kind": kind, "in_turn": in_turn, "counted": len(counted), "of": len(mine), "disjoint": rounds // needed,
                "headlines": sum(one.verdict == "slower" for one in mine), "others_blamed": sum(one.blamed > 0 for one in mine),
                "met": share <= ALARMS if kind == "equal" else share >= FOUND, "wrong": [asdict(one) for one in wrong],
            })  # fmt: skip
    return {"planted": PLANTED[name], "judged": judged, "runs": [
        {"kind": kind, "when": run.when, "iteration_ns": _iteration(run), "kernels_ns": _kernels(run)}
        for kind, side in (("plain", pool.plain), ("slow", pool.slow)) for run in side
    ]}  # fmt: skip


def _iteration(run: ReducedRun) -> float:
    return next(iter((run.iteration or run.recording).measures.values()))


def _kernels(run: ReducedRun) -> dict[str, float]:
    """Device time per iteration of each kernel, ns."""
    out: dict[str, float] = {}
    for label, time_ns in zip(
        run.groups["kernel"].tolist(), (run.iteration or run.recording).time.tolist(), strict=True
    ):
        text = run.labels[label][1]
        out[text] = out.get(text, 0.0) + time_ns
    return out


def report(figures: dict[str, Any]) -> str:
    """The figures as a page of Markdown."""
    lines = [
        f"{figures['machine'] or figures['device']}, {figures['began']}: {figures['rounds']} runs of each version of each "
        f"program, the planted kernel {figures['factor'] - 1:.0%} slower; {figures['comparisons']} comparisons of five runs "
        "against five of each kind, drawn from these runs.",
        "",
        "| program | sides taken | equal: called different | planted: found | of these, the iteration called slower | "
        "another kernel called too |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name, program in figures["programs"].items():
        for in_turn in (True, False):
            equal, planted = (one for one in program["judged"] if one["in_turn"] == in_turn)
            order = "in turn" if in_turn else "one after another"
            lines.append(
                f"| {name} | {order} | {equal['counted']} of {equal['of']} | {planted['counted']} of {planted['of']} | "
                f"{planted['headlines']} | {planted['others_blamed']} |"
            )
    lines += ["", *(_spread(name, program) for name, program in figures["programs"].items())]
    disjoint = figures["programs"]["stencil"]["judged"]
    lines += ["", "Comparisons share runs. Without a run in common there are " + ", ".join(
        f"{one['disjoint']} {one['kind']} ({'in turn' if one['in_turn'] else 'one after another'})" for one in disjoint
    ) + f". {figures['seconds']:.0f} s."]  # fmt: skip
    return "\n".join(lines) + "\n"


def _spread(name: str, program: dict[str, Any]) -> str:
    """How much runs of one version differ, and what the planting did."""
    runs = {kind: [run for run in program["runs"] if run["kind"] == kind] for kind in ("plain", "slow")}
    planted = {
        kind: np.array([run["kernels_ns"][program["planted"]] for run in mine]) for kind, mine in runs.items()
    }
    whole = np.array([run["iteration_ns"] for run in runs["plain"]])
    change = np.median(planted["slow"]) / np.median(planted["plain"]) - 1
    return (
        f"* {name}: an iteration varies by {whole.std(ddof=1) / whole.mean():.1%} from run to run (standard deviation), "
        f"{program['planted']} by {planted['plain'].std(ddof=1) / planted['plain'].mean():.1%}; planted in it: {change:+.1%}"
    )
