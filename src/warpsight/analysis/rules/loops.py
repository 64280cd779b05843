"""The main loop: iterations that stand out, and iterations that vary too much."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from warpsight.analysis.base import words
from warpsight.analysis.base.result import Finding
from warpsight.analysis.rules.base.facts import Facts, longest
from warpsight.analysis.steps import iterations
from warpsight.model.naming import texts as names_of
from warpsight.model.work import values_in

if TYPE_CHECKING:
    from warpsight.analysis.steps.iterations import Iterations

_JITTER = 0.15


def check(facts: Facts) -> Iterator[Finding]:
    """Findings about iterations."""
    for one in facts.iterations:
        for finding in iterations.slow(one):
            if (finding.saves_ns or 0) >= 0.01 * facts.length:
                text = "slow iteration: " + finding.text
                worst = int(finding.values["number"])
                at = (int(one.start[worst]), int(one.start[worst] + one.duration[worst]))
                yield replace(finding, text=text, rule="loops/slow-iteration", evidence=_difference(facts, one, finding),
                              advice=_ADVICE, at=at)  # fmt: skip
        yield from _jitter(one, f" of process {one.process}" if len(facts.iterations) > 1 else "")


_ADVICE = (
    "Look at what this iteration does that others do not (evaluation, checkpoints, logging, recompilation, garbage collection, "
    "allocation), and move it out of the loop or overlap it with the loop."
)


def _difference(facts: Facts, one: Iterations, finding: Finding) -> tuple[str, ...]:
    """What the slowest iteration has more of than a usual one: work by name, or idle time."""
    worst = int(finding.values["number"])
    usual = float(one.median)
    near = np.abs(one.duration - usual) + np.where(one.steady & ~one.outlier, 0, 1 << 60)
    plain = int(np.argmin(near))
    mine, other = _by_name(one, worst), _by_name(one, plain)
    more = {name: time - other.get(name, 0) for name, time in mine.items() if time > other.get(name, 0)}
    names = names_of.texts(facts.trace, "short")
    at = words.moment(int(one.start[worst]) - facts.origin)
    count, usually = len(one.rows_of(worst)), len(one.rows_of(plain))
    some = words.counted(count, "kernel or copy", "kernels and copies")
    works = f", with {some} instead of {usually:,}" if count != usually else ""
    out = [f"begins at {at}{works}"]
    ranked = sorted(more.items(), key=lambda item: -item[1])[:2]
    for (kind, name), extra in ranked:
        label = names.get(name, "?") if kind < 2 else ("copies", "fills")[kind - 2]
        out.append(f"{words.duration(extra)} more in {label}")
    rows = one.rows_of(worst)
    known = {key for key, _ in ranked[:1]}
    chosen = (
        rows[[(int(one.work.kind[r]), int(one.work.name_id[r])) in known for r in rows.tolist()]]
        if len(rows) < 100_000
        else rows
    )
    stack = facts.common_stack(one.work.stack[chosen][_unusual(one, chosen, plain)]) if len(chosen) else 0
    if stack:
        out.append(f"launched by {facts.stack_text(stack)}")
    return tuple(out)


def _unusual(one: Iterations, rows: npt.NDArray[np.intp], plain: int) -> npt.NDArray[np.bool_]:
    """Which rows were launched by stacks that a usual iteration does not have; all rows if there are no such stacks."""
    known = values_in(one.work.stack[one.rows_of(plain)])
    new = ~np.isin(one.work.stack[rows], known)
    return new if new.any() else np.ones(len(rows), bool)


def _by_name(one: Iterations, number: int) -> dict[tuple[int, int], int]:
    rows = one.rows_of(number)
    keys = one.work.name_id[rows].astype(np.int64) * 4 + one.work.kind[rows]
    ids, inverse = np.unique(keys, return_inverse=True)
    total = np.zeros(len(ids), np.int64)
    np.add.at(total, inverse, (one.work.end - one.work.start)[rows])
    return {(int(k) % 4, int(k) // 4): int(t) for k, t in zip(ids, total, strict=True)}


def _jitter(one: Iterations, whose: str) -> Iterator[Finding]:
    usual = one.steady & ~iterations.outliers(one.duration, one.steady)  # one long pause is not variation
    steady = one.duration[usual]
    if len(steady) < 10:
        return
    mean, spread = float(steady.mean()), float(steady.std())
    if mean <= 0 or spread < _JITTER * mean:
        return
    spreads = f"{words.duration(spread)} of {words.duration(mean)}"
    which = "iterations" if one.steady.all() else "the iterations of the steady state"
    text = f"{which}{whose} vary by {spread / mean:.0%} (standard deviation {spreads})"
    yield Finding("note", text, {"mean": mean, "std": spread}, "loops/jitter", None, (),
                  "Compare runs with `warpsight diff`, which takes this spread into account.",
                  at=longest(one.start[usual], one.start[usual] + one.duration[usual]))  # fmt: skip
