"""Values shared by several questions about one trace, computed once and kept while it is open."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
#: Maximum number of cached results. The least recently used one is dropped first, since time windows come and go.
MOST = 20


class Kept:
    """Values by key; threads that need one at the same time wait for a single computation."""

    def __init__(self) -> None:
        """Nothing is kept yet."""
        self._lock = threading.Lock()  # protects the order and the membership of _values, not their making
        self._values: OrderedDict[Hashable, Future[Any]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of a key, computed now if it is not kept. Callers must not be able to change it."""
        with self._lock:
            found = self._values.get(key)
            mine = found is None
            if found is None:
                found = self._values[key] = Future()
            self._values.move_to_end(key)
            while len(self._values) > MOST:
                self._values.popitem(last=False)
        if mine:
            try:
                found.set_result(make())
            except BaseException as error:
                self.forget(key)
                found.set_exception(error)
        value: T = found.result()
        return value

    def __contains__(self, key: Hashable) -> bool:
        """Whether a value is kept, or being made."""
        with self._lock:
            return key in self._values

    def forget(self, *keys: Hashable) -> None:
        """Drop some values, or all without a key; a value lives on as long as somebody uses it."""
        with self._lock:
            for key in keys or tuple(self._values):
                self._values.pop(key, None)
