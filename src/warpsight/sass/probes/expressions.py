"""Expressions of probes: Python's as typed trees, with an error at the user's line for unsupported ones."""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from warpsight.errors import UsageError
from warpsight.sass.probes.arithmetic import integer
from warpsight.sass.probes.definition import Probe, builtin_functions
from warpsight.sass.probes.event import FIELDS, KIND_NUMBERS, SPACES
from warpsight.sass.probes.maps import Array, Map
from warpsight.sass.probes.tree import Constant, Expression, Field, Local, Operation, Read, Type

ALLOWED = (
    "a probe may use: numbers, its event, its own variables, the file's constants and maps; arithmetic, comparisons, and/or/not, "
    "a if b else c; min, max, abs, int, float, bool, popcount, as_float16/32/64, as_bfloat16, isnan, isinf; if, for over "
    "range(…), return; map.add, map[key], ring.push"
)
_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floordiv", ast.Mod: "mod", ast.Div: "truediv",
    ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "shl", ast.RShift: "shr",
}  # fmt: skip
_INTEGERS = {"floordiv", "mod", "and", "or", "xor", "shl", "shr"}
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip
_MISSING = object()


class Expressions:
    """The names defined in a function, and the meaning of its expressions."""

    def __init__(self, probe: Probe, file: str) -> None:
        self._probe, self._file = probe, file
        self._functions = builtin_functions()
        outer = inspect.getclosurevars(probe.function)
        self._names: dict[str, Any] = {**vars(builtins), **probe.function.__globals__, **outer.nonlocals}
        self._event = ""
        self._locals: dict[str, Type] = {}
        self._known: set[str] = set()
        self._fields: set[str] = set()
        self._maps: dict[int, Map] = {}
        self._reads = False

    def _refuse(self, node: ast.AST, what: str) -> NoReturn:
        raise UsageError(f"{self._file}:{getattr(node, 'lineno', 0)}: {what}")

    # Maps that are read.

    def _map(self, node: ast.expr, kind: type[Map]) -> Any:
        found = self._object(node)
        if not isinstance(found, kind):
            self._refuse(
                node,
                f"{ast.unparse(node)} is not a map"
                if kind is Map
                else f"{ast.unparse(node)} is not an array",
            )
        if self._probe.level == "warp" and found.per == "thread":
            self._refuse(
                node, f"{ast.unparse(node)} is per thread, but this probe runs once per warp: per='warp'"
            )
        found.name = found.name or ast.unparse(node).rpartition(".")[2]
        self._maps[id(found)] = found
        return found

    def _alone(self, known: Map) -> bool:
        """Whether one thread at a time uses a copy."""
        return known.per == "thread" or (known.per == "warp" and self._probe.level == "warp")

    def _sequential(self, node: ast.AST, known: Map) -> None:
        if not self._alone(known):
            self._refuse(
                node,
                f"{known.name} is per {known.per}, which other threads change at the same time: it can be added to, "
                "not read or set (per='thread', or per='warp' with level='warp')",
            )

    def _read(self, node: ast.AST, known: Map, key: Expression) -> Expression:
        self._sequential(node, known)
        if known.reduce not in ("sum", "last"):
            self._refuse(
                node, f"{known.name} keeps the {known.reduce} of its values, which a probe cannot read"
            )
        self._reads = True
        return Read(known, key, "float" if known.types["value"] == "float" else "int")

    # Values.

    def _object(self, node: ast.expr) -> object:
        """The object that a name in the file refers to."""
        if isinstance(node, ast.Name) and node.id not in self._locals and node.id != self._event:
            return self._names.get(node.id, _MISSING)
        if isinstance(node, ast.Attribute):
            owner = self._object(node.value)
            return getattr(owner, node.attr, _MISSING) if owner is not _MISSING else _MISSING
        return _MISSING

    def _as(self, node: ast.AST, value: Expression, wanted: str) -> Expression:
        if value.type == "bool":
            value = Operation("to_int", (value,), "int")
        if wanted == "float" and value.type == "int":
            return as_float(value)
        if wanted == "int" and value.type == "float":
            self._refuse(node, "an integer is needed here, not a float: int(…)")
        return value

    def _number(self, node: ast.expr) -> Expression:
        value = self._value(node)
        return Operation("to_int", (value,), "int") if value.type == "bool" else value

    def _integer(self, node: ast.expr) -> Expression:
        return self._as(node, self._value(node), "int")

    def _truth(self, node: ast.expr) -> Expression:
        return truth(self._value(node))

    def _value(self, node: ast.expr) -> Expression:
        match node:
            case ast.Constant(value=bool() | int() | float() as number):
                return self._constant(node, number)
            case ast.Name(id=name) if name in self._locals:
                if name not in self._known:
                    self._refuse(node, f"{name} may have no value here")
                return Local(name, self._locals[name])
            case ast.Attribute(value=ast.Name(id=name), attr=field) if name == self._event:
                return self._field(node, field)
            case ast.Name() | ast.Attribute():
                return self._constant(node, self._object(node))
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(node, op, self._value(left), self._value(right))
            case ast.UnaryOp(op=op, operand=operand):
                return self._unary(op, operand)
            case ast.BoolOp(op=op, values=values):
                made = [self._truth(value) for value in values]
                return chain("land" if isinstance(op, ast.And) else "lor", made)
            case ast.Compare(left=left, ops=ops, comparators=others):
                return self._compare(node, left, ops, others)
            case ast.IfExp(test=test, body=first, orelse=second):
                condition, (a, b) = self._truth(test), alike(self._value(first), self._value(second))
                if isinstance(condition, Constant):
                    return a if condition.value else b
                return Operation("select", (condition, a, b), a.type)
            case ast.Subscript(value=target, slice=key):
                return self._read(node, self._map(target, Array), self._integer(key))
            case ast.Call():
                return self._call(node)
        self._refuse(node, f"{ast.unparse(node)} cannot be in a probe; {ALLOWED}")

    def _constant(self, node: ast.expr, value: object) -> Expression:
        if isinstance(value, bool):
            return Constant(value, "bool")
        if isinstance(value, int):
            if not -(1 << 63) <= value < 1 << 64:
                self._refuse(node, f"{value} does not fit 64 bits")
            return Constant(value - (1 << 64) if value >= 1 << 63 else value, "int")
        if isinstance(value, float):
            return Constant(value, "float")
        if value is _MISSING:
            self._refuse(node, f"{ast.unparse(node)} is not known here; {ALLOWED}")
        self._refuse(
            node, f"{ast.unparse(node)} is {type(value).__name__}, which cannot be used in a probe; {ALLOWED}"
        )

    def _field(self, node: ast.AST, name: str) -> Expression:
        if name not in FIELDS:
            hint = "; it is compared with a name" if name == "space" else ""
            self._refuse(node, f"an event has no numeric field {name!r}{hint}; it has {', '.join(FIELDS)}")
        self._fields.add(name)
        return Field(name, "bool" if FIELDS[name] == "bool" else "int")

    def _binary(self, node: ast.AST, op: ast.operator, left: Expression, right: Expression) -> Expression:
        name = _BINARY.get(type(op))
        if name is None:
            self._refuse(node, f"this operator cannot be used in a probe; {ALLOWED}")
        if left.type == right.type == "bool" and name in ("and", "or", "xor"):
            return Operation({"and": "land", "or": "lor", "xor": "ne"}[name], (left, right), "bool")
        left, right = (
            Operation("to_int", (one,), "int") if one.type == "bool" else one for one in (left, right)
        )
        if name == "truediv":
            left, right = as_float(left), as_float(right)
        left, right = alike(left, right)
        if left.type == "float" and name in _INTEGERS:
            self._refuse(node, f"{ast.unparse(node)}: this operator takes integers: int(…)")
        return folded(Operation(name, (left, right), left.type))

    def _unary(self, op: ast.unaryop, operand: ast.expr) -> Expression:
        if isinstance(op, ast.Not):
            return Operation("not", (self._truth(operand),), "bool")
        value = self._number(operand)
        if isinstance(op, ast.UAdd):
            return value
        if isinstance(op, ast.Invert):
            value = self._as(operand, value, "int")
            return folded(Operation("xor", (value, Constant(-1, "int")), "int"))
        return folded(Operation("neg", (value,), value.type))

    def _compare(
        self, node: ast.Compare, left: ast.expr, ops: list[ast.cmpop], others: list[ast.expr]
    ) -> Expression:
        made, one = [], left
        for op, other in zip(ops, others, strict=True):
            name = _COMPARE.get(type(op))
            if name is None:
                self._refuse(node, f"{ast.unparse(node)} cannot be in a probe; {ALLOWED}")
            texts = [self._text(one), self._text(other)]
            if texts != [None, None]:
                made.append(self._compare_texts(node, name, (one, other), texts))
            else:
                a, b = alike(self._number(one), self._number(other))
                made.append(Operation(name, (a, b), "bool"))
            one = other
        return chain("land", made)

    def _text(self, node: ast.expr) -> str | None:
        found = node.value if isinstance(node, ast.Constant) else self._object(node)
        return found if isinstance(found, str) else None

    def _compare_texts(
        self, node: ast.AST, name: str, sides: tuple[ast.expr, ast.expr], texts: list[str | None]
    ) -> Expression:
        """`event.space` or `event.kind` compared with a name, or two of the file's constants."""
        if name not in ("eq", "ne"):
            self._refuse(node, "names are compared with == and !=")
        if None not in texts:
            return Constant((texts[0] == texts[1]) == (name == "eq"), "bool")
        text = texts[0] if texts[0] is not None else texts[1]
        field = sides[texts.index(None)]
        attribute = (
            field.attr if isinstance(field, ast.Attribute) and isinstance(field.value, ast.Name) else ""
        )
        spaces: Mapping[str, Sequence[int]] = SPACES if attribute == "space" else {}
        known = {name: (number,) for name, number in KIND_NUMBERS.items()} if attribute == "kind" else spaces
        if not known or not isinstance(field, ast.Attribute) or ast.unparse(field.value) != self._event:
            self._refuse(node, f"only the event's space and kind are compared with a name such as {text!r}")
        if text not in known:
            self._refuse(node, f"there is no {attribute} {text!r}: {', '.join(known)}")
        self._fields.add("kind")
        numbers = [Constant(number, "int") for number in known[str(text)]]
        either = chain("lor", [Operation("eq", (Field("kind", "int"), number), "bool") for number in numbers])
        return either if name == "eq" else Operation("not", (either,), "bool")

    def _call(self, node: ast.Call) -> Expression:
        match node.func:
            case ast.Attribute(value=ast.Name(id=name), attr="word") if name == self._event:
                if len(node.args) != 1 or node.keywords:
                    self._refuse(node, "word takes one number, from 0 to 3")
                return self._word(node, self._integer(node.args[0]))
        name = self._functions.get(id(self._object(node.func)), "")
        if not name or name == "range" or node.keywords:
            self._refuse(node, f"{ast.unparse(node.func)}(…) cannot be called in a probe; {ALLOWED}")
        values = [self._number(argument) for argument in node.args]
        return self._apply(node, name, values)

    def _apply(self, node: ast.Call, name: str, values: list[Expression]) -> Expression:
        if name in ("min", "max"):
            if len(values) < 2:
                self._refuse(node, f"{name} takes two values or more here")
            found = values[0]
            for value in values[1:]:
                found, value = alike(found, value)
                found = Operation(name, (found, value), found.type)
            return found
        if len(values) != 1:
            self._refuse(node, f"{name} takes one value")
        value = values[0]
        rules: dict[str, Callable[[], Expression]] = {
            "abs": lambda: Operation("abs", (value,), value.type),
            "int": lambda: Operation("truncate", (value,), "int") if value.type == "float" else value,
            "float": lambda: as_float(value),
            "bool": lambda: truth(value),
            "popcount": lambda: Operation("popcount", (self._as(node, value, "int"),), "int"),
            "isnan": lambda: Operation("isnan", (as_float(value),), "bool"),
            "isinf": lambda: Operation("isinf", (as_float(value),), "bool"),
        }
        if name in rules:
            return rules[name]()
        return Operation(name, (self._as(node, value, "int"),), "float")

    def _word(self, node: ast.AST, number: Expression) -> Expression:
        low, high = self._field(node, "value"), self._field(node, "value_high")
        half = Operation("select", (Operation("lt", (number, Constant(2, "int")), "bool"), low, high), "int")
        place = Operation("and", (number, Constant(1, "int")), "int")
        shift = Operation("mul", (place, Constant(32, "int")), "int")
        shifted = Operation("shr", (half, shift), "int")
        return Operation("and", (shifted, Constant(0xFFFFFFFF, "int")), "int")


def truth(value: Expression) -> Expression:
    """Whether a number is not 0."""
    if value.type == "bool":
        return value
    zero = Constant(0.0, "float") if value.type == "float" else Constant(0, "int")
    return Operation("ne", (value, zero), "bool")


def as_float(value: Expression) -> Expression:
    """A number as a float."""
    if isinstance(value, Constant):
        return Constant(float(value.value), "float")
    if value.type == "bool":
        value = Operation("to_int", (value,), "int")
    return value if value.type == "float" else Operation("to_float", (value,), "float")


def alike(a: Expression, b: Expression) -> tuple[Expression, Expression]:
    """Convert two values to one type: floats if either is a float."""
    if a.type == b.type:
        return a, b
    if "float" in (a.type, b.type):
        return as_float(a), as_float(b)
    a, b = (Operation("to_int", (one,), "int") if one.type == "bool" else one for one in (a, b))
    return a, b


def chain(name: str, values: Sequence[Expression]) -> Expression:
    """Combine boolean values from left to right."""
    found = values[0]
    for value in values[1:]:
        found = Operation(name, (found, value), "bool")
    return found


def folded(made: Operation) -> Expression:
    """Fold an operation on constants: loop bounds are written like `2 * N`."""
    if not all(isinstance(one, Constant) and one.type == "int" for one in made.operands):
        return made
    numbers = [int(one.value) for one in made.operands if isinstance(one, Constant)]
    return Constant(integer(made.name, *numbers), "int")
