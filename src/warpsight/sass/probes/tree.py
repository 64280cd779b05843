"""A probe's function as a typed tree, the source for both the device code and the interpreter.

Values are wrapping 64-bit integers, 64-bit floats, and booleans.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from warpsight.sass.probes.maps import Map

Type = Literal["int", "float", "bool"]


@dataclass(frozen=True)
class Constant:
    """A number."""

    value: int | float | bool
    type: Type


@dataclass(frozen=True)
class Local:
    """A variable of the function."""

    name: str
    type: Type


@dataclass(frozen=True)
class Field:
    """A field of the event."""

    name: str
    type: Type


@dataclass(frozen=True)
class Operation:
    """An operation; its operands have one type, except for `select`, whose first is a boolean."""

    name: str
    operands: tuple[Expression, ...]
    type: Type


@dataclass(frozen=True)
class Read:
    """A map's value for a key."""

    map: Map
    key: Expression
    type: Type


Expression = Constant | Local | Field | Operation | Read


@dataclass(frozen=True)
class Assign:
    """Gives a variable a value."""

    name: str
    value: Expression


@dataclass(frozen=True)
class Update:
    """Adds to a map: key and value of an array or top, a row of a ring; `last` sets a key."""

    map: Map
    how: str
    values: tuple[Expression, ...]


@dataclass(frozen=True)
class If:
    """A branch."""

    condition: Expression
    body: tuple[Statement, ...]
    other: tuple[Statement, ...]


@dataclass(frozen=True)
class For:
    """A loop with known bounds."""

    name: str
    values: range
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Return:
    """The end of the function."""


Statement = Assign | Update | If | For | Return
