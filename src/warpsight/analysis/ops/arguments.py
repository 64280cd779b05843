"""The arguments of a call: `Input Dims`, `Input type`, `Input Strides` and `Concrete Inputs` of torch's profiler.

The four lists have one entry per argument. A tensor has its shape and type; a number has type `Scalar` and its value as text
(`0.5`, `True`, `[2, 2]`); an argument that was None or a text is empty in all four. Files of older versions lack some lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import msgspec

from warpsight.analysis.ops import dtypes

#: Types of arguments that are not tensors.
_NO_TENSOR = frozenset(("", "Scalar", "ScalarList", "TensorList", "GenericList", "Device", "None"))


class Unknown(Exception):
    """Raised when the file lacks something that a model needs; the message names it."""


@dataclass(frozen=True)
class Tensor:
    """A tensor argument: its shape, our name for its element type ("" if unknown), and its strides where the file has them."""

    shape: tuple[int, ...]
    dtype: str = ""
    strides: tuple[int, ...] | None = None

    @property
    def numel(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def distinct(self) -> int:
        """Elements that differ in memory: those repeated by a stride of 0, or overlapping, count once."""
        if self.strides is None or len(self.strides) != len(self.shape) or 0 in self.shape:
            return self.numel
        own = [(n, abs(s)) for n, s in zip(self.shape, self.strides, strict=True) if s]
        reach = 1 + sum((n - 1) * s for n, s in own)
        return min(prod(n for n, _ in own), reach)

    @property
    def bytes(self) -> int:
        """Bytes of the distinct elements.

        Raises:
            Unknown: when the element type is not known.
        """
        return self.distinct * self.element

    @property
    def element(self) -> int:
        """Bytes of an element.

        Raises:
            Unknown: when the element type is not known.
        """
        found = dtypes.size(self.dtype)
        if found is None:
            raise Unknown("element types are not in the file")
        return found


#: A tensor, a list of tensors, or a number or list of numbers as a string; "" means none.
Argument = Tensor | tuple[Tensor, ...] | str


@dataclass(frozen=True)
class Call:
    """A distinct call of an operator.

    Attributes:
        name: The operator's name as the file has it, with its namespace.
        arguments: Its arguments in order.
        has_values: Whether the file holds the values of numbers.
    """

    name: str
    arguments: tuple[Argument, ...]
    has_values: bool = True

    @property
    def tensors(self) -> list[Tensor]:
        """All arguments that are single tensors, in order."""
        return [one for one in self.arguments if isinstance(one, Tensor)]

    def optional(self, place: int) -> Tensor | None:
        """The tensor at a place, or None."""
        found = self.arguments[place] if place < len(self.arguments) else ""
        return found if isinstance(found, Tensor) else None

    def tensor(self, place: int) -> Tensor:
        """The tensor at a place.

        Raises:
            Unknown: when there is none.
        """
        found = self.optional(place)
        if found is None:
            raise Unknown("shapes are not in the file")
        return found

    def tensor_list(self) -> tuple[Tensor, ...]:
        """The list of tensors that comes first.

        Raises:
            Unknown: when there is none.
        """
        found = self.arguments[0] if self.arguments else ""
        if not isinstance(found, tuple) or not found:
            raise Unknown("shapes of a list of tensors are not in the file")
        return found

    def text(self, place: int) -> str:
        """The value at a position as a string, "" for None.

        Raises:
            Unknown: when the file holds no values.
        """
        if not self.has_values:
            raise Unknown("values of arguments are not in the file")
        found = self.arguments[place] if place < len(self.arguments) else ""
        return found if isinstance(found, str) else ""

    def integer(self, place: int) -> int | None:
        """The integer at a place; None for anything else."""
        try:
            return int(self.text(place))
        except ValueError:
            return None

    def flag(self, place: int) -> bool:
        """The boolean at a position; None is false."""
        return self.text(place).lower() in ("true", "1")

    def number(self, place: int) -> float | None:
        """The number at a place."""
        try:
            return float(self.text(place))
        except ValueError:
            return None

    def integers(self, place: int) -> tuple[int, ...] | None:
        """The list of integers at a place (a single integer is a list of one), None for None."""
        text = self.text(place).strip("[]")
        try:
            return tuple(int(part) for part in text.split(",")) if text.strip() else None
        except ValueError:
            return None

    def flags(self, place: int) -> tuple[bool, ...] | None:
        """The list of booleans at a position, None for None."""
        text = self.text(place).strip("[]")
        return tuple(part.strip().lower() == "true" for part in text.split(",")) if text.strip() else None


class _Raw(msgspec.Struct):
    """The arguments that table op keeps besides a row's shapes, as JSON."""

    types: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"null"), name="Input type")
    strides: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"null"), name="Input Strides")
    values: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"null"), name="Concrete Inputs")
    forward_thread: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"null"), name="Fwd thread id")


_RAW = msgspec.json.Decoder(_Raw)
#: Types, strides and values as JSON.
CallDetails = tuple[bytes, bytes, bytes]
NOTHING: CallDetails = (b"null", b"null", b"null")


def of_attributes(attributes: str | None) -> tuple[CallDetails, int]:
    """Types, strides and values of a row's attributes, as JSON that identifies a call; and `Fwd thread id`, 0 for none."""
    if not attributes:
        return NOTHING, 0
    try:
        found = _RAW.decode(attributes)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return NOTHING, 0
    thread = bytes(found.forward_thread)
    number = int(thread) if thread.isdigit() and len(thread) < 10 else 0
    return (bytes(found.types), bytes(found.strides), bytes(found.values)), number


def call(name: str, shapes: str | None, rest: CallDetails = NOTHING) -> Call:
    """The call of a row: its name, the JSON of its shapes, and the rest of its arguments; damaged ones count as absent."""
    dims = _decoded(shapes.encode() if shapes else b"null")
    types, strides, values = (_decoded(raw) for raw in rest)
    arguments = []
    for place in range(max(len(one) for one in (dims, types, values))):
        shape, kind, stride, value = (
            one[place] if place < len(one) else None for one in (dims, types, strides, values)
        )
        arguments.append(_argument(shape, kind, stride, value, bool(types)))
    return Call(name, tuple(arguments), bool(values))


def _decoded(raw: bytes) -> list[Any]:
    try:
        found = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []
    return found if isinstance(found, list) else []


def _argument(shape: object, kind: object, stride: object, value: object, typed: bool) -> Argument:
    """One argument. Without types, an empty shape may belong to a number, so it counts as none."""
    numbers = shape if isinstance(shape, list) else []
    if numbers and all(isinstance(one, list) for one in numbers):
        return _listed(numbers, stride if isinstance(stride, list) else [])
    sizes = _sizes(numbers)
    is_tensor = isinstance(kind, str) and kind not in _NO_TENSOR if typed else bool(numbers)
    if not is_tensor or sizes is None:
        return value if isinstance(value, str) else ""
    return Tensor(sizes, dtypes.named(kind) if isinstance(kind, str) else "", _integers(stride))


def _listed(shapes: list[Any], strides: list[Any]) -> tuple[Tensor, ...]:
    """The tensors of a list; Kineto does not record their types."""
    out = []
    for place, shape in enumerate(shapes):
        sizes = _sizes(shape)
        if sizes is not None:
            out.append(Tensor(sizes, "", _integers(strides[place] if place < len(strides) else None)))
    return tuple(out)


def _sizes(found: object) -> tuple[int, ...] | None:
    sizes = _integers(found)
    return None if sizes is None or any(size < 0 for size in sizes) else sizes


def _integers(found: object) -> tuple[int, ...] | None:
    if not isinstance(found, list) or not all(type(one) is int for one in found):
        return None
    return tuple(found)
