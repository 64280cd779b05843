"""Comparisons drawn from recorded runs, and what `diff` said about each; for benchmarks/diff_trust.py."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial

from diff_programs import PLANTED

from warpsight.analysis.diff.answer import CALLED
from warpsight.analysis.diff.compare import compare_runs
from warpsight.analysis.diff.runs import ReducedRun

#: Runs of a side.
SIDE = 5
#: Tables whose rows count as called; `sequence` and `runs` have no verdicts.
TABLES = ("summary", "kernel", "role", "stack", "range", "operator", "tree")


@dataclass
class Pool:
    """The runs of one program in the order they were taken; `slow[i]` was taken beside `plain[i]`."""

    plain: list[ReducedRun] = field(default_factory=list)
    slow: list[ReducedRun] = field(default_factory=list)


@dataclass(frozen=True)
class Draw:
    """A comparison: what kind it is, and its two sides."""

    kind: str
    in_turn: bool
    before: list[ReducedRun]
    after: list[ReducedRun]


@dataclass(frozen=True)
class Outcome:
    """What a comparison said.

    Attributes:
        different: Anything was called different.
        found: The planted kernel was called slower, or grown beside the rest.
        blamed: Kernels other than the planted one that were called.
        called: Called rows, as table: name (verdict).
    """

    kind: str
    in_turn: bool
    different: bool
    found: bool
    blamed: int
    verdict: str
    headline: str
    called: tuple[str, ...]


def judge(pool: Pool, name: str, count: int, workers: Executor) -> list[Outcome]:
    """All comparisons of one program: equal and planted, in turn and one side after the other, `count` of each."""
    draws = [
        draw
        for make in (_equal, _planted)
        for in_turn in (True, False)
        for draw in _distinct(make, pool, in_turn, count)
    ]
    return list(workers.map(partial(_outcome, PLANTED[name]), draws, chunksize=4))


def _distinct(
    make: Callable[[random.Random, Pool, bool, int], Draw], pool: Pool, in_turn: bool, count: int
) -> list[Draw]:
    """So many different comparisons of a kind."""
    chance = random.Random(f"{make.__name__} {in_turn}")
    seen: set[tuple[str, ...]] = set()
    out: list[Draw] = []
    for _ in range(1000 * count):
        draw = make(chance, pool, in_turn, len(out))
        key = tuple(run.path for run in (*draw.before, *draw.after))
        if key not in seen:
            seen.add(key)
            out.append(draw)
        if len(out) == count:
            return out
    raise SystemExit(f"{len(pool.plain)} rounds are too few for {count} different comparisons")


def _equal(chance: random.Random, pool: Pool, in_turn: bool, number: int) -> Draw:
    """Ten runs of one version, every other time the slower one; neighbors on different sides, or the first five first."""
    runs = pool.slow if number % 2 else pool.plain
    chosen = [runs[i] for i in sorted(chance.sample(range(len(runs)), 2 * SIDE))]
    if not in_turn:
        return Draw("equal", False, chosen[:SIDE], chosen[SIDE:])
    sides: tuple[list[ReducedRun], list[ReducedRun]] = [], []
    for first, second in zip(chosen[::2], chosen[1::2], strict=True):
        side = chance.randrange(2)
        sides[side].append(first)
        sides[1 - side].append(second)
    return Draw("equal", True, *sides)


def _planted(chance: random.Random, pool: Pool, in_turn: bool, number: int) -> Draw:
    """Both versions of five rounds; or one version of five rounds and the other of five later ones, each first in turn."""
    places = sorted(chance.sample(range(len(pool.plain)), SIDE if in_turn else 2 * SIDE))
    first, second = (places, places) if in_turn else (places[:SIDE], places[SIDE:])
    if not in_turn and number % 2:
        first, second = second, first
    return Draw("planted", in_turn, [pool.plain[i] for i in first], [pool.slow[i] for i in second])


def _outcome(planted: str, draw: Draw) -> Outcome:
    found = compare_runs(draw.before, draw.after)
    if found.in_turn != draw.in_turn:
        raise SystemExit("the runs do not say in which order they were taken")
    tables = {name: found.result.tables[name].to_pylist() for name in TABLES if name in found.result.tables}
    called = [(name, row) for name, rows in tables.items() for row in rows if row["verdict"] in CALLED]
    kernels = {row["name"]: row["verdict"] for name, row in called if name == "kernel"}
    others = [name for name in kernels if name != planted]
    return Outcome(
        draw.kind, draw.in_turn, found.verdict != "not shown" or bool(called), kernels.get(planted) in ("slower", "grew"),
        len(others), found.verdict, found.headline, tuple(f"{name}: {row['name']} ({row['verdict']})" for name, row in called),
    )  # fmt: skip
