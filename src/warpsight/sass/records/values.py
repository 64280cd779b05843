"""Conditions on single values; the columnar counterpart is :mod:`warpsight.sass.records.masks`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import ge, gt, le, lt
from typing import Any

from warpsight.sass.records.filters import Condition, limits, number

#: Regular expressions with the same meaning in Python and in RE2 (which the other queries use), for ASCII strings.
_PLAIN = re.compile(r"(?!.*(?:\(\?|\[:|[*+?]\+|\[\]|\[\^\]))[\w .,;:@/=<>!\"'&%#~()\[\]|*+?^$-]*", re.ASCII)
_INT64 = 1 << 63
_ORDER: dict[str, Callable[[int, int], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
_literal = lru_cache(maxsize=256)(number)
_limits = lru_cache(maxsize=256)(limits)


def verdicts(group: Iterable[Condition], values: Iterable[Any]) -> dict[Any, bool]:
    """Which values of a field match any of its conditions; lists come as tuples, None never matches.

    Raises:
        UsageError: for a regular expression that the engine does not support.
    """
    listed = list(values)
    out = dict.fromkeys(listed, False)
    for condition in group:
        if condition.operator in ("~", "!~"):
            out.update(dict.fromkeys(_matching(condition, listed), True))
        else:
            out.update({value: True for value in listed if value is not None and _holds(condition, value)})
    return out


def _holds(condition: Condition, value: object) -> bool:
    if condition.operator in _ORDER:
        return _ordered(value, condition.operator, _literal(condition.text) or 0)
    any_of = any(_is(value, part) for part in condition.text.split("|"))
    return any_of == (condition.operator == "=")


def _is(value: object, text: str) -> bool:
    between = _limits(text)
    if between is not None:
        return _ordered(value, ">=", between[0]) and _ordered(value, "<=", between[1])
    if isinstance(value, tuple):
        wanted = _list(text)
        return wanted is not None and wanted == value
    if isinstance(value, bool):
        return text.lower() == str(value).lower()
    return _literal(text) == value if isinstance(value, int) else text == value


def _ordered(value: object, operator: str, wanted: int) -> bool:
    found = value if isinstance(value, int) else None if isinstance(value, tuple) else number(value)
    if found is None or not -_INT64 <= found < _INT64:
        return False
    return _ORDER[operator](found, wanted)


@lru_cache(maxsize=256)
def _list(text: str) -> tuple[int, ...] | None:
    try:
        wanted = json.loads(text)
    except ValueError:
        return None
    whole = isinstance(wanted, list) and all(isinstance(v, int) and not isinstance(v, bool) for v in wanted)
    return tuple(wanted) if whole else None


def _matching(condition: Condition, values: list[Any]) -> list[Any]:
    """Values that a regular expression matches, or does not."""
    texts = {value: _text(value) for value in values if value is not None}
    wanted = condition.operator == "~"
    if _PLAIN.fullmatch(condition.text) and all(map(str.isascii, texts.values())):
        found = re.compile(condition.text).search
        return [value for value, text in texts.items() if (found(text) is not None) == wanted]
    import pyarrow as pa

    from warpsight.sass.records import masks

    kept = masks.values(condition, pa.array(texts.values(), pa.string())).to_pylist()
    return [value for value, keep in zip(texts, kept, strict=True) if keep]


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return json.dumps(list(value))
    return value if isinstance(value, str) else str(value).lower()
