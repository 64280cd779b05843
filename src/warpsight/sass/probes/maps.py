"""Maps: the output of probes on the device, one copy per thread, warp, CTA or launch."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal, NoReturn

from warpsight.errors import UsageError
from warpsight.formats.events.probe_maps import DeclaredMap

_Per = Literal["thread", "warp", "cta", "grid"]
#: As the device code numbers them (native/sanitizer/probe_format.h).
SCOPES: dict[str, int] = {"grid": 0, "cta": 1, "warp": 2, "thread": 3}
_REDUCTIONS = ("sum", "min", "max", "or", "last")
_LARGEST = 1 << 24


class Map(DeclaredMap):
    """A declared map, named after its variable, for the code of a probe."""

    @property
    def hidden(self) -> bool:
        """Whether it is internal to the probe: its name begins with an underscore."""
        return self.name.startswith("_")

    def described(self) -> dict[str, Any]:
        """The map's description in the event file, for readers of its words."""
        return {"name": self.name, **asdict(self)}


class Array(Map):
    """A number for each key."""

    def add(self, key: int, value: float) -> None:
        """Combine a value with the key's current one."""
        _outside()

    def __getitem__(self, key: int) -> Any:
        """This thread's or warp's value for a key: initially 0."""
        _outside()

    def __setitem__(self, key: int, value: float) -> None:
        """Set a key, if the array keeps the last value."""
        _outside()


class Counter(Map):
    """One number."""

    def add(self, count: int = 1) -> None:
        """Add to the counter."""
        _outside()


class Histogram(Map):
    """Counts of values by bin."""

    def add(self, value: int, count: int = 1) -> None:
        """Count a value."""
        _outside()


class Top(Map):
    """The keys with the largest sums."""

    def add(self, key: int, weight: int = 1) -> None:
        """Add to a key's sum."""
        _outside()


class Ring(Map):
    """Rows in the order in which they arrive."""

    def push(self, *values: float, **columns: float) -> None:
        """Add a row: a value for each column, in order or by name."""
        _outside()


def array(size: int, *, per: _Per = "grid", reduce: str = "sum", type: type = int, key: str = "key") -> Array:
    """Keep a number for each key from 0 to `size` - 1.

    Args:
        size: number of keys; other keys count as lost.
        per: owner of each copy: thread, warp, cta or grid.
        reduce: how values of a key combine: sum, min, max, or (bits), or the last of a thread or warp.
        type: 64-bit int or float; floats have no sum, because it would depend on thread order.
        key: name of the key column; `pc` adds the place of the instruction.
    """
    _check(size, per)
    if reduce not in _REDUCTIONS:
        raise UsageError(f"an array reduces by {', '.join(_REDUCTIONS)}, not {reduce!r}")
    if reduce == "last" and per not in ("thread", "warp"):
        raise UsageError(
            f"an array per {per} has no last value, since its threads have no order: per='thread' or 'warp'"
        )
    if type is float and reduce in ("sum", "or"):
        raise UsageError(
            "an array of floats reduces by min, max or last: a sum would depend on the order of threads"
        )
    return Array("array", per, size, size, reduce, {"value": _type(type)}, key=_name(key, per, "value"))


def counter(*, per: _Per = "grid") -> Counter:
    """Count events."""
    _check(1, per)
    return Counter("array", per, 1, 1, "sum", {"value": "int"})


def histogram(bins: int = 64, *, low: int = 0, width: int = 0, per: _Per = "grid") -> Histogram:
    """Count integers in bins of `width` starting at `low`, or of powers of two (width 0). The outer bins take the rest."""
    _check(bins, per)
    if width < 0:
        raise UsageError("the bins of a histogram must have a width of at least 1, or 0 for powers of two")
    if width == 0:
        return Histogram("histogram", per, 65, 65, width=0)
    return Histogram("histogram", per, bins + 2, bins + 2, low=low, width=width)


def top(rows: int = 10, *, keys: int = 4096, per: _Per = "grid", key: str = "key") -> Top:
    """Keep the `rows` keys with the largest sums; exact unless more than about `keys` keys occur (lost ones are counted).

    `key="pc"` adds the place of the instruction.
    """
    _check(keys, per)
    places = 1 << (2 * keys - 1).bit_length()
    return Top("top", per, 2 * places, places, top=rows, key=_name(key, per, "weight"))


def ring(rows: int, *, per: _Per = "grid", **columns: type) -> Ring:
    """Keep rows with a value per column, such as `ring(100, block=int, value=float)`.

    A ring per thread or warp keeps the last rows, one per CTA or grid the first; the others are counted. A column `pc` adds the
    place of the instruction.
    """
    _check(rows * max(len(columns), 1), per)
    if not columns:
        raise UsageError("a ring has columns: ring(100, block=int, value=float)")
    types = {_name(name, per, "row"): _type(kind) for name, kind in columns.items()}
    return Ring("ring", per, 1 + rows * len(types), rows, types=types, wraps=per in ("thread", "warp"))


def _check(size: int, per: str) -> None:
    if per not in SCOPES:
        raise UsageError(f"a map is per {', '.join(SCOPES)}, not {per!r}")
    if not 0 < size <= _LARGEST:
        raise UsageError(f"the size of a map must be between 1 and {_LARGEST:,}, not {size:,}")


def _name(given: str, per: str, *taken: str) -> str:
    """A column's name, which must be new in the table."""
    owner = {"grid": (), "cta": ("block",), "warp": ("block", "warp"), "thread": ("block", "thread")}[per]
    if given in ("launch", "kernel", "where", *owner, *taken):
        raise UsageError(f"the table of this map has a column {given} already")
    return given


def _type(given: type) -> str:
    if given not in (int, float):
        raise UsageError(f"a map keeps int or float, not {getattr(given, '__name__', given)}")
    return given.__name__


def _outside() -> NoReturn:
    raise UsageError("a map is used inside a probe; its results are tables")
