"""Pickles of plain data, read without executing anything in the file."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from warpsight.errors import TraceError

_Made = TypeVar("_Made")


class Once(Generic[_Made]):
    """Converts each object only once, because a pickle of a few kilobytes can refer to one long list a million times.

    The objects must outlive this converter.
    """

    def __init__(self, make: Callable[[Any], _Made]) -> None:
        self._make = make
        self._made: dict[int, _Made] = {}

    def __call__(self, given: Any) -> _Made:
        """The converted form of an object."""
        if id(given) not in self._made:
            self._made[id(given)] = self._make(given)
        return self._made[id(given)]


def _itself(items: object) -> object:
    return items


class PlainData(pickle.Unpickler):
    """Builds lists, dictionaries, strings and numbers, and nothing that requires a lookup by name.

    The one exception is PyTorch's markers of typed lists, which a function of our own replaces by the list.
    """

    def find_class(self, module: str, name: str) -> object:
        """Refuse objects that the file names."""
        if module == "torch.jit._pickle" and name.startswith("build_") and name.endswith("list"):
            return _itself
        raise TraceError(
            f"it refers to {module}.{name}, but it should hold plain data only; nothing was executed"
        )

    def persistent_load(self, pid: object) -> object:
        """Refuse objects outside the file."""
        raise TraceError("it refers to objects outside the file")
