"""Answers sized for agents: plain data, with strings cut and rows limited to a number of bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from warpsight.model.sharing.secrets import shareable

#: Maximum rows of a table, and maximum length of one string, in an answer.
MOST_ROWS, MOST_TEXT = 200, 300
#: Bytes of an answer as JSON, unless the agent asks for more.
MOST_BYTES = 8_000
#: Maximum string length if full strings leave no room for a single row.
_SHORTER = (MOST_TEXT, 120, 60)
#: Maximum string length that is searched for secrets, before cutting: searching 100 MB took minutes.
_MOST_READ = 16_384
#: Reserved for the protocol's own text, and for names and numbers of the cursor.
_SPARE = 200

Answer = dict[str, Any]


class Page:
    """The rows of each table in one answer, starting at a cursor; tracks whether there are more."""

    def __init__(self, cursor: int, rows: int) -> None:
        """Take the first row and the number of rows."""
        self.first, self.stop = max(cursor, 0), max(cursor, 0) + rows
        self.cut: dict[str, int] = {}

    def of(self, name: str, rows: list[Any]) -> list[Any]:
        """The rows of the page; `name` is the answer's name for them."""
        if len(rows) > self.stop:
            self.cut[name] = len(rows)
        return rows[self.first : self.stop]


def fitted(build: Callable[[Page], Answer], rows: int, cursor: int, most_bytes: int) -> Answer:
    """The answer with as many rows of each table as `rows` and `most_bytes` allow, at least one.

    An incomplete answer has `rows_in_all`, by table, and `next_cursor`, which asks for the rest.
    """
    room = most_bytes - _SPARE
    low, high = 1, min(max(rows, 1), MOST_ROWS)
    best = _page(build, high, cursor, MOST_TEXT)
    if _size(best) <= room:
        return best
    while low < high:
        middle = (low + high) // 2
        tried = _page(build, middle, cursor, MOST_TEXT)
        if _size(tried) <= room:
            low, best = middle + 1, tried
        else:
            high = middle
    if _size(best) > room:
        for length in _SHORTER:
            best = _page(build, 1, cursor, length)
            if _size(best) <= room:
                break
    return best


def _page(build: Callable[[Page], Answer], rows: int, cursor: int, text: int) -> Answer:
    page = Page(cursor, rows)
    answer = build(page)
    if page.cut:
        answer = {**answer, "rows_in_all": page.cut, "next_cursor": page.stop}
    return bounded(answer, text)


def _size(answer: Answer) -> int:
    return len(json.dumps(answer, default=str))


def bounded(answer: Answer, most_text: int = MOST_TEXT) -> Answer:
    """An answer as plain data, with strings cut and secrets removed: because the agent's provider sees everything."""
    return {str(key): _plain(value, most_text) for key, value in answer.items()}


def tail(text: str) -> str:
    """The end of a stack: its innermost frames and the kernel."""
    text = shareable(text[-_MOST_READ:])
    return text if len(text) <= MOST_TEXT else f"…{text[1 - MOST_TEXT :]}"


def _plain(value: object, most_text: int) -> object:
    """Plain data; values that JSON cannot represent become strings."""
    if isinstance(value, dict):
        return bounded(value, most_text)
    if isinstance(value, (list, tuple)):
        return [_plain(v, most_text) for v in value]
    if isinstance(value, str):
        value = shareable(value[:_MOST_READ])
        return value if len(value) <= most_text else f"{value[: most_text - 1]}…"
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return _plain(str(value), most_text)
