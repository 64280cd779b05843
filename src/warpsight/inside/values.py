"""Checks the values that a program reports: defines how unusual ones are stored and which are refused.

A name may hold anything: characters that UTF-8 or C cannot represent are escaped, and long names are cut. Numbers may come from
any library. Attributes never fail: values that JSON cannot represent become text. Meaningless values (a negative length, text
instead of a number) raise a `TypeError` or `ValueError` that names the argument, even while nothing records.
"""

from __future__ import annotations

import json
import math
import numbers
import operator
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

#: Bytes of one text in a recording (kMaxStringBytes of native/ring/arena.h).
MOST_TEXT_BYTES = 32 * 1024
#: The latest time and longest duration in ns.
MOST_TIME = 2**63 - 1
#: Maximum nesting of attributes, and maximum length of one string in attributes that are too long as a whole.
_MOST_DEPTH, _SHORT, _MOST_BITS = 32, 200, 1000


def check_text(value: object, argument: str) -> None:
    """Refuse anything that is not a string.

    Raises:
        TypeError: for an invalid value; the message names the argument.
    """
    if not isinstance(value, str):
        raise TypeError(f"{argument} must be text, not {_kind(value)}")


def encoded(text: str) -> bytes:
    """Encode a string for the recorder: lone surrogates and NUL as backslash escapes, cut to MOST_TEXT_BYTES."""
    out = text[:MOST_TEXT_BYTES].encode("utf-8", "backslashreplace")
    if b"\0" in out:
        out = out.replace(b"\0", b"\\x00")
    if len(out) <= MOST_TEXT_BYTES and len(text) <= MOST_TEXT_BYTES:
        return out
    mark = "…".encode()
    return out[: MOST_TEXT_BYTES - len(mark)].decode("utf-8", "ignore").encode() + mark


def nanoseconds(value: object, argument: str) -> int:
    """A time or length in ns from any number, rounded to whole nanoseconds.

    Raises:
        TypeError: for anything that is not a number (booleans are not).
        ValueError: below zero, not finite, or beyond 2^63-1.
    """
    return (
        value
        if type(value) is int and 0 <= value <= MOST_TIME
        else _whole(value, argument, "ns", 0, MOST_TIME)
    )


def whole(value: object, argument: str, least: int, most: int, unit: str = "") -> int:
    """An integer within bounds from any number, rounded.

    Raises:
        TypeError: for anything that is not a number.
        ValueError: out of bounds or not finite.
    """
    return (
        value if type(value) is int and least <= value <= most else _whole(value, argument, unit, least, most)
    )


def _whole(value: Any, argument: str, unit: str, least: int, most: int) -> int:
    name = f"{argument} must be a number of {unit}" if unit else f"{argument} must be a number"
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        raise TypeError(f"{name}, not {_kind(value)}")
    try:
        number = operator.index(value)
    except TypeError:
        real = _real(value, name)
        if not math.isfinite(real):
            raise ValueError(f"{name}, not {real}") from None
        number = round(real)
    if not least <= number <= most:
        shown = (
            str(number)
            if abs(number) < 10**20
            else f"{float(number):.3g}"
            if abs(number) < 10**300
            else "so large"
        )
        raise ValueError(f"{name} from {least} to {most}, not {shown}")
    return number


def check_number(value: object, argument: str) -> None:
    """Refuse anything that is not a single number, without asking a device for its value.

    Raises:
        TypeError: for an invalid value; the message names the argument.
    """
    if type(value) is float or type(value) is int or isinstance(value, (numbers.Real, Decimal)):
        return
    single = all(length == 1 for length in getattr(value, "shape", ()))
    numeric = getattr(getattr(value, "dtype", None), "kind", "f") in "biuf"
    convertible = hasattr(type(value), "__float__") or hasattr(type(value), "__index__")
    if not (single and numeric and convertible):
        raise TypeError(f"{argument} must be a number, not {_kind(value)}")


def number(value: object, argument: str) -> float:
    """Any library's number as a float; infinite if too large.

    Raises:
        TypeError: for anything that is not a single number.
    """
    return value if type(value) is float else _real(value, f"{argument} must be a number")


def _real(value: Any, name: str) -> float:
    if isinstance(value, (str, bytes, bytearray)):
        raise TypeError(f"{name}, not {_kind(value)}")
    try:
        return float(value.item() if hasattr(value, "item") else value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{name}, not {_kind(value)}") from None


def attributes(values: Mapping[str, Any]) -> bytes | None:
    """Attributes as a JSON object of at most MOST_TEXT_BYTES, or None. Never fails."""
    if not values:
        return None
    try:
        out = json.dumps(values, default=_other, allow_nan=False).encode()
    except Exception:  # not finite, circular, keys of other types: written as strings
        out = b""
    if not out or b"\\ud" in out:  # readers of the trace reject half a surrogate pair
        out = json.dumps(_plain(values, ())).encode()
    return out if len(out) <= MOST_TEXT_BYTES else _shortened(json.loads(out))


def _plain(value: object, above: tuple[int, ...]) -> object:
    """A value as JSON; values without a JSON form, and those that contain themselves, become strings."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _whole_characters(value)
    if isinstance(value, int):  # Python refuses to write very long ones in decimal
        return value if value.bit_length() <= _MOST_BITS else hex(value)
    if isinstance(value, float):
        return (
            value if math.isfinite(value) else "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"
        )
    if id(value) in above or len(above) >= _MOST_DEPTH:
        return "…"
    inside = (*above, id(value))
    if isinstance(value, Mapping):
        return {_key(key): _plain(one, inside) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one, inside) for one in value]
    other = _other(value)
    return _plain(other, inside) if type(other) in (bool, int, float) else other


def _key(key: object) -> str:
    if isinstance(key, str):
        return _whole_characters(key)
    return json.dumps(key) if key is None or isinstance(key, (bool, int, float)) else _text_of(key)


def _whole_characters(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _other(value: object) -> object:
    """Scalars of NumPy and similar libraries as numbers, anything else as a string."""
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        try:
            found = value.item()
        except Exception:
            return f"<{type(value).__name__}>"
        if type(found) in (bool, int, float):
            return found
    return _text_of(value)


def _text_of(value: object) -> str:
    try:
        return _whole_characters(str(value))
    except Exception:  # the program's own __repr__ or __str__ failed; the program must not see that
        return f"<{type(value).__name__}>"


def _shortened(values: Mapping[str, Any]) -> bytes:
    """An object that is too long: the beginnings of long values, then as many keys as there is room for."""
    kept: dict[str, Any] = {}
    left, room = len(values), MOST_TEXT_BYTES - 64
    for key, value in values.items():
        text = json.dumps(value)
        short = value if len(text) <= _SHORT else (value if isinstance(value, str) else text)[:_SHORT] + "…"
        name = key if len(key) <= _SHORT else key[:_SHORT] + "…"
        room -= len(json.dumps({name: short}))
        if room < 0:
            kept["…"] = f"{left} more"
            break
        kept[name] = short
        left -= 1
    return json.dumps(kept).encode()


def _kind(value: object) -> str:
    """The given value, for a message."""
    if isinstance(value, (str, bytes)) and len(value) <= 40:
        return repr(value)
    return f"a {type(value).__name__}" if value is not None else "None"
