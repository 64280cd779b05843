"""Which names are right for the host's time: found by time over all its pieces, among what the recorder knew.

A scope that holds nearly all of the time names it, and so does each scope around it, but for those that cover everything (main,
the range of an iteration). Where the time splits, the place where it does is right, and so is what holds most of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tests.truth.account import Piece
from tests.truth.execution import Execution, Node
from tests.truth.program import ANNOUNCED, GENERIC, Scope

#: A scope with this part of the time surely names it; with that part it may; with less it does not.
SURELY, PERHAPS = 0.9, 0.65
#: Where nothing surely names the time, what holds this part is among what may.
SPLIT = 0.3
#: Samples in the host's time from which their shares are close to those of time.
ENOUGH_SAMPLES = 40


#: Names that are right (None: any other is, because the recorder does not know), and names that are surely wrong.
Judged = tuple[frozenset[str] | None, frozenset[str]]


def host_names(execution: Execution, pieces: Iterable[Piece]) -> Judged:
    """Names that are right for the host's time as a whole, and names that are wrong whatever else is right."""
    by_node: Counter[Node | None] = Counter()
    for piece in pieces:
        by_node[piece.node] += piece.ns
    total = sum(by_node.values())
    if not total:
        return None, frozenset()
    shares, scopes = _shares(execution, by_node, total)
    specific = {name for name in shares if scopes[name].kind not in GENERIC}
    never = frozenset(
        name for name in specific if scopes[name].kind in ANNOUNCED and shares[name] < SPLIT / 2
    )
    written = {name for name in specific if scopes[name].kind != "library"}
    guessed = _guessed(execution, total)
    sure = {name for name in written if scopes[name].kind in ANNOUNCED} if guessed else written
    if max((shares[name] for name in sure), default=0.0) >= SURELY:
        return frozenset(name for name in written if shares[name] >= PERHAPS), never
    # Nothing known is around most of it but what is around everything, or what is known of frames may mislead.
    most = max((shares[name] for name in specific), default=0.0)
    if most < SPLIT or max(shares.values()) < PERHAPS or guessed:
        return None, never
    return frozenset(name for name in shares if shares[name] >= SPLIT), never


def _shares(
    execution: Execution, by_node: Counter[Node | None], total: int
) -> tuple[dict[str, float], dict[str, Scope]]:
    """Part of the time inside each name the recorder knows, and a scope of that name; ranges of iterations are one."""
    held: Counter[str] = Counter()
    scopes: dict[str, Scope] = {}
    for node, ns in by_node.items():
        path = [scope for scope in (node.path() if node else ()) if _known(execution, scope)]
        for name in {_name(scope) for scope in path}:
            held[name] += ns
        scopes |= {_name(scope): scope for scope in path}
    return {name: ns / total for name, ns in held.items()}, scopes


def _name(scope: Scope) -> str:
    """A scope's name; that of an iteration's range without its number."""
    return scope.name.rstrip("0123456789").rstrip() if scope.kind == "step" else scope.name


def _known(execution: Execution, scope: Scope) -> bool:
    recorder = execution.program.recorder
    return recorder.annotations if scope.kind in ANNOUNCED else recorder.frames != "none"


def _guessed(execution: Execution, total: int) -> bool:
    """Whether frames come from stacks of calls or from few samples, which may show others than those that hold the time."""
    recorder = execution.program.recorder
    if recorder.frames == "launches":
        return True
    return recorder.frames in ("samples", "both") and total < ENOUGH_SAMPLES * recorder.sample_every_ns
