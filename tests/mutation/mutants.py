"""Mutants of a file: one change of one operator, constant or name each."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

_COMPARE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_BINARY: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult, ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
_NAMES = {
    "min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum",
    "argmin": "argmax", "argmax": "argmin", "cumsum": "cumprod",
}  # fmt: skip
#: Arguments that only assert something, or only save time or memory.
_WITHOUT_EFFECT = ("strict", "copy")
_TEXTS = {"left": "right", "right": "left"}


@dataclass(frozen=True)
class Mutant:
    """A change: the line it is on, the code before and after, and the whole module with it.

    The tree keeps the lines of the original; the source has lines of its own.
    """

    line: int
    before: str
    after: str
    source: str
    tree: ast.Module = field(repr=False, compare=False)


@dataclass(frozen=True)
class Change:
    """How one node is changed in place; returns the node that is there now."""

    node: ast.AST
    apply: Callable[[ast.AST], None]


def count(source: str) -> int:
    """How many mutants a module has."""
    return sum(1 for _ in _changes(ast.parse(source)))


def mutant(source: str, number: int) -> Mutant:
    """One of a module's mutants, in order of place from 0."""
    tree = ast.parse(source)
    change = next(itertools.islice(_changes(tree), number, None))
    before = ast.unparse(change.node)
    change.apply(change.node)
    after = ast.unparse(ast.fix_missing_locations(change.node))
    return Mutant(change.node.lineno, before, after, ast.unparse(tree), tree)  # type: ignore[attr-defined]


def _changes(tree: ast.AST) -> Iterator[Change]:
    for node in _code(tree):
        yield from _of_node(node)


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes that run: no annotations, docstrings, imports for type checkers, nor texts of errors."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.Raise | ast.Assert | ast.JoinedStr):
                continue
            if isinstance(child, ast.keyword) and child.arg in _WITHOUT_EFFECT:
                continue
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            yield child
            yield from _code(child)


def _of_node(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARE:
        yield Change(node, _compare)
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _BINARY:
        yield Change(node, _binary)
    elif isinstance(node, ast.BoolOp):
        yield Change(node, _boolean)
    elif isinstance(node, ast.If | ast.IfExp | ast.While):
        yield Change(node, _negate)
    elif isinstance(node, ast.Constant) and (isinstance(node.value, int | float) or node.value in _TEXTS):
        yield Change(node, _constant)
    elif isinstance(node, ast.Attribute) and node.attr in _NAMES:
        yield Change(node, _attribute)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _NAMES:
        yield Change(node, _function)


def _compare(node: ast.AST) -> None:
    assert isinstance(node, ast.Compare)
    node.ops[0] = _COMPARE[type(node.ops[0])]()


def _binary(node: ast.AST) -> None:
    assert isinstance(node, ast.BinOp | ast.AugAssign)
    node.op = _BINARY[type(node.op)]()


def _boolean(node: ast.AST) -> None:
    assert isinstance(node, ast.BoolOp)
    node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()


def _negate(node: ast.AST) -> None:
    assert isinstance(node, ast.If | ast.IfExp | ast.While)
    node.test = ast.UnaryOp(ast.Not(), node.test)


def _constant(node: ast.AST) -> None:
    assert isinstance(node, ast.Constant)
    value = node.value
    if isinstance(value, bool):
        node.value = not value
    elif isinstance(value, int | float):
        node.value = value + 1 if isinstance(value, int) else value * 2 + 1
    else:
        node.value = _TEXTS[str(value)]


def _attribute(node: ast.AST) -> None:
    assert isinstance(node, ast.Attribute)
    node.attr = _NAMES[node.attr]


def _function(node: ast.AST) -> None:
    assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    node.func.id = _NAMES[node.func.id]
