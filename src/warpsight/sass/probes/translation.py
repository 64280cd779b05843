"""Python functions of probes as typed trees: statements, and additions to maps."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Sequence

from warpsight.errors import UsageError
from warpsight.sass.probes.definition import Probe, Translated
from warpsight.sass.probes.expressions import ALLOWED, Expressions, as_float
from warpsight.sass.probes.maps import Array, Counter, Histogram, Map, Ring, Top
from warpsight.sass.probes.tree import (
    Assign,
    Constant,
    Expression,
    For,
    If,
    Operation,
    Return,
    Statement,
    Type,
    Update,
)

_MOST_STEPS = 1 << 16


def translate(probe: Probe) -> Translated:
    """Translate a probe into a tree.

    Raises:
        UsageError: for unsupported code, with file and line.
    """
    function = probe.function
    try:
        lines, first = inspect.getsourcelines(function)
        file = inspect.getsourcefile(function) or "?"
    except (OSError, TypeError):
        raise UsageError(f"the source of {probe.name} is not known: write probes in a file") from None
    node = ast.parse(textwrap.dedent("".join(lines))).body[0]
    ast.increment_lineno(node, first - 1)
    return _Translation(probe, file).run(node)


class _Translation(Expressions):
    """One function on its way."""

    _steps = 1  # of the loops around a statement

    def run(self, node: ast.stmt) -> Translated:
        if not isinstance(node, ast.FunctionDef):
            self._refuse(node, "a probe is a function written with def")
        arguments = node.args
        if (
            len(arguments.args) != 1
            or arguments.vararg
            or arguments.kwarg
            or arguments.kwonlyargs
            or arguments.posonlyargs
        ):
            self._refuse(node, "a probe takes one argument: the event")
        self._event = arguments.args[0].arg
        body = self._block(node.body)
        used = tuple(self._maps.values())
        return Translated(self._probe, body, frozenset(self._fields), used, self._reads)

    # Statements.

    def _block(self, nodes: list[ast.stmt]) -> tuple[Statement, ...]:
        return tuple(made for node in nodes for made in self._statement(node))

    def _statement(self, node: ast.stmt) -> Sequence[Statement]:
        match node:
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                return []
            case ast.Return(value=None | ast.Constant(value=None)):
                return [Return()]
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                return [self._assign(node, name, self._value(value))]
            case ast.Assign(targets=[ast.Subscript(value=target, slice=key)], value=value):
                return [self._set(node, self._map(target, Array), self._integer(key), self._value(value))]
            case ast.AugAssign(target=ast.Name() as target, op=op, value=value):
                old = self._value(ast.copy_location(ast.Name(target.id, ast.Load()), node))
                return [self._assign(node, target.id, self._binary(node, op, old, self._value(value)))]
            case ast.AugAssign(target=ast.Subscript(value=target, slice=key), op=op, value=value):
                known, at = self._map(target, Array), self._integer(key)
                new = self._binary(node, op, self._read(node, known, at), self._value(value))
                return [self._set(node, known, at, new)]
            case ast.If(test=test, body=body, orelse=other):
                return self._if(test, body, other)
            case ast.For(target=ast.Name(id=name), iter=ast.Call() as over, body=body, orelse=[]):
                return [self._for(node, name, over, body)]
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=target, attr=method)) as call):
                return [self._update(call, self._map(target, Map), method)]
        self._refuse(node, f"{_words(node)} cannot be in a probe; {ALLOWED}")

    def _assign(self, node: ast.stmt, name: str, value: Expression) -> Statement:
        if name == self._event:
            self._refuse(node, "the event cannot be assigned to")
        known = self._locals.setdefault(name, value.type)
        if known == "float" and value.type == "int":
            value = as_float(value)
        if known != value.type:
            self._refuse(node, f"{name} is {_a(known)} and cannot become {_a(value.type)}")
        self._known.add(name)
        return Assign(name, value)

    def _if(self, test: ast.expr, body: list[ast.stmt], other: list[ast.stmt]) -> Sequence[Statement]:
        condition = self._truth(test)
        if isinstance(condition, Constant):
            return self._block(body if condition.value else other)
        before = set(self._known)
        first = self._block(body)
        after, self._known = self._known, set(before)
        second = self._block(other)
        if any(isinstance(one, Return) for one in first):
            after = self._known
        elif any(isinstance(one, Return) for one in second):
            self._known = after
        self._known &= after
        return [If(condition, first, second)]

    def _for(self, node: ast.For, name: str, over: ast.Call, body: list[ast.stmt]) -> Statement:
        if self._functions.get(id(self._object(over.func))) != "range" or over.keywords:
            self._refuse(node, "a loop goes over range(…)")
        bounds = [self._value(argument) for argument in over.args]
        if (
            not all(isinstance(bound, Constant) and bound.type == "int" for bound in bounds)
            or not 1 <= len(bounds) <= 3
        ):
            self._refuse(node, "the bounds of a loop must be constants, so that it ends")
        numbers = [int(bound.value) for bound in bounds if isinstance(bound, Constant)]
        if len(numbers) == 3 and numbers[2] == 0:
            self._refuse(node, "the step of a range cannot be 0")
        values, steps = range(*numbers), self._steps
        self._steps *= max(len(values), 1)
        if self._steps > _MOST_STEPS:
            self._refuse(node, f"the loops make more than {_MOST_STEPS:,} steps")
        before = set(self._known)
        self._assign(node, name, Constant(0, "int"))
        made = self._block(body)
        self._known, self._steps = before | ({name} if values else set()), steps
        return For(name, values, made)

    # Maps.

    def _set(self, node: ast.AST, known: Map, key: Expression, value: Expression) -> Statement:
        self._sequential(node, known)
        if known.reduce != "last":
            self._refuse(
                node,
                f"{known.name} keeps the {known.reduce} of its values: {known.name}.add(key, value); reduce='last' sets",
            )
        return Update(known, "last", (key, self._as(node, value, known.types["value"])))

    def _update(self, node: ast.Call, known: Map, method: str) -> Statement:
        name = known.name
        if node.keywords and not isinstance(known, Ring):
            self._refuse(node, f"{name}.{method} takes its values without names")
        values = [self._value(argument) for argument in node.args]
        one = Constant(1, "int")
        match known, method, values:
            case Ring(), "push", _:
                known.wraps &= self._alone(known)
                return Update(known, "row", self._row(node, known, values))
            case Counter(), "add", ([] | [_]):
                return Update(known, "sum", (Constant(0, "int"), self._as(node, [*values, one][0], "int")))
            case Array(), "add", [key, value]:
                if known.reduce == "last":
                    self._refuse(node, f"{name} keeps the last value: {name}[key] = value")
                return Update(
                    known,
                    known.reduce,
                    (self._as(node, key, "int"), self._as(node, value, known.types["value"])),
                )
            case Histogram(), "add", ([_] | [_, _]):
                value, count = (self._as(node, given, "int") for given in [*values, one][:2])
                return Update(known, "sum", (_bin(known, value), count))
            case Top(), "add", ([_] | [_, _]):
                key, weight = (self._as(node, given, "int") for given in [*values, one][:2])
                return Update(known, "top", (key, weight))
        forms = {Ring: f"push({', '.join(known.types)})", Counter: "add(count)", Array: "add(key, value)",
                 Histogram: "add(value, count)", Top: "add(key, weight)"}  # fmt: skip
        self._refuse(node, f"a {known.kind} is used as {name}.{forms[type(known)]}")

    def _row(self, node: ast.Call, known: Map, values: list[Expression]) -> tuple[Expression, ...]:
        given = dict(zip(known.types, values, strict=False))
        for keyword in node.keywords:
            given[str(keyword.arg)] = self._value(keyword.value)
        if len(values) > len(known.types) or set(given) != set(known.types):
            self._refuse(
                node,
                f"{known.name} has the columns {', '.join(known.types)}: {known.name}.push takes a value for each",
            )
        return tuple(self._as(node, given[name], kind) for name, kind in known.types.items())


def _bin(known: Map, value: Expression) -> Expression:
    """The bin of a value: 0 below the first, the last above; for powers of two, its number of bits, 0 below 1."""
    if known.width == 0:
        positive = Operation("max", (value, Constant(0, "int")), "int")
        return Operation("bits", (positive,), "int")
    moved = Operation("sub", (value, Constant(known.low, "int")), "int")
    number = Operation("floordiv", (moved, Constant(known.width, "int")), "int")
    plus = Operation("add", (number, Constant(1, "int")), "int")
    low = Operation("max", (plus, Constant(0, "int")), "int")
    return Operation("min", (low, Constant(known.size - 1, "int")), "int")


def _words(node: ast.stmt) -> str:
    return f"`{ast.unparse(node).splitlines()[0]}`"


def _a(kind: Type) -> str:
    return {"int": "an int", "float": "a float", "bool": "a bool"}[kind]
