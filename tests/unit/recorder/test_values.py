"""Odd values that a program reports about itself: used, or refused by the name of the argument; recorded or not."""

from __future__ import annotations

import datetime
import decimal
import enum
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import warpsight as ws
from warpsight.inside import values

HUGE = 10**400


class Broken:
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Color(enum.IntEnum):
    RED = 3


@pytest.mark.parametrize(("given", "taken"), [
    (5, 5), (2.0, 2), (1234.6, 1235), (np.int32(7), 7), (np.uint64(8), 8), (np.float32(9.5), 10), (np.array(4), 4),
    (decimal.Decimal("3.4"), 3), (Color.RED, 3), (0, 0), (2**63 - 1, 2**63 - 1),
])  # fmt: skip
def test_times_may_be_numbers_of_any_library(given: Any, taken: int) -> None:
    assert values.nanoseconds(given, "start") == taken
    ws.emit("event", start=given, duration=0)


REFUSED: list[tuple[Callable[[], None], type[Exception], str]] = [
    (lambda: ws.emit("e", duration=-1), ValueError, "duration must be a number of ns from 0 to .*, not -1"),
    (lambda: ws.emit("e", start=-5), ValueError, "start must be a number of ns"),
    (lambda: ws.emit("e", start=float("nan")), ValueError, "start .* not nan"),
    (lambda: ws.emit("e", duration=float("inf")), ValueError, "duration .* not inf"),
    (lambda: ws.emit("e", start=HUGE), ValueError, "start .* not so large"),
    (lambda: ws.emit("e", start=2**63), ValueError, "start"),
    (lambda: ws.emit("e", start=2**62, duration=2**62), ValueError, r"start \+ duration"),
    (lambda: ws.emit("e", duration="5"), TypeError, "duration .* not '5'"),  # type: ignore[arg-type]
    (lambda: ws.emit("e", duration=True), TypeError, "duration .* not a bool"),
    (lambda: ws.emit("e", duration=np.True_), TypeError, "duration .* not a bool"),
    (lambda: ws.emit("e", duration=None), TypeError, "duration .* not None"),  # type: ignore[arg-type]
    (lambda: ws.emit("e", duration=datetime.timedelta(seconds=1)), TypeError, "duration .* a timedelta"),  # type: ignore[arg-type]
    (lambda: ws.emit("e", start=np.arange(3)), TypeError, "start"),  # type: ignore[arg-type]
    (lambda: ws.emit(b"e"), TypeError, "name must be text, not b'e'"),  # type: ignore[arg-type]
    (lambda: ws.emit(None), TypeError, "name must be text, not None"),  # type: ignore[arg-type]
    (lambda: ws.emit("e", kind=3), TypeError, "kind must be text, not a int"),  # type: ignore[arg-type]
    (lambda: ws.mark(3), TypeError, "name"),  # type: ignore[arg-type]
    (lambda: ws.annotate(3), TypeError, "name"),  # type: ignore[arg-type,func-returns-value]
    (lambda: ws.trigger(3), TypeError, "reason"),  # type: ignore[arg-type]
    (lambda: ws.counter("c", "5"), TypeError, "value must be a number, not '5'"),  # type: ignore[arg-type]
    (lambda: ws.counter("c", np.str_("5")), TypeError, "value"),  # type: ignore[arg-type]
    (lambda: ws.counter("c", None), TypeError, "value .* None"),  # type: ignore[arg-type]
    (lambda: ws.counter("c", 1j), TypeError, "value .* complex"),  # type: ignore[arg-type]
    (lambda: ws.counter("c", np.arange(3)), TypeError, "value .* ndarray"),  # type: ignore[arg-type]
    (lambda: ws.counter("c", [1]), TypeError, "value .* list"),  # type: ignore[arg-type]
    (lambda: ws.counter(3, 1), TypeError, "name"),  # type: ignore[arg-type]
    (lambda: ws.counter("c", 1, unit=None), TypeError, "unit"),  # type: ignore[arg-type]
    (lambda: ws.memory.allocate(-1, 8), ValueError, "address"),
    (lambda: ws.memory.allocate(2**64, 8), ValueError, "address"),
    (lambda: ws.memory.allocate(8, -8), ValueError, "size must be a number of bytes"),
    (lambda: ws.memory.allocate(8, "8"), TypeError, "size"),  # type: ignore[arg-type]
    (lambda: ws.memory.allocate(8, 8, device=99999), ValueError, "device"),
    (lambda: ws.memory.allocate(8, 8, device=-2), ValueError, "device"),
    (lambda: ws.memory.allocate(8, 8, tag=3), TypeError, "tag"),  # type: ignore[arg-type]
    (lambda: ws.memory.free(8, allocator=b"a"), TypeError, "allocator"),  # type: ignore[arg-type]
    (lambda: ws.memory.allocate(8, 8, category=["cached"]), TypeError, "category"),  # type: ignore[arg-type]
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_what_has_no_meaning_is_refused_by_name_while_nothing_records(
    call: Callable[[], None], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(("given", "taken"), [
    (1, 1.0), (True, 1.0), (np.float16(0.5), 0.5), (np.array([2.5]), 2.5), (decimal.Decimal("1.5"), 1.5),
    (HUGE, float("inf")), (-HUGE, float("-inf")), (float("inf"), float("inf")), (np.bool_(True), 1.0),
])  # fmt: skip
def test_counters_take_numbers_of_any_library(given: Any, taken: float) -> None:
    values.check_number(given, "value")
    assert values.number(given, "value") == taken


def test_a_tensor_on_a_device_is_not_read_while_nothing_records() -> None:
    class Tensor:
        shape = (1,)

        def __float__(self) -> float:
            pytest.fail("the device was asked")

    ws.counter("loss", Tensor())  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "bytes_"), [
    ("plain", b"plain"), ("", b""), ("a\0b", b"a\\x00b"), ("half \ud800", b"half \\ud800"), ("é", "é".encode()),
])  # fmt: skip
def test_names_keep_what_utf8_and_c_can_hold(text: str, bytes_: bytes) -> None:
    assert values.encoded(text) == bytes_


@pytest.mark.parametrize("text", ["é" * 70_000, "\ud800" * 10_000, "\0" * 20_000, "x" * 32_769])
def test_long_names_are_cut_between_characters(text: str) -> None:
    found = values.encoded(text)
    assert len(found) <= 32_768 and found.decode().endswith("…")


def test_a_name_that_just_fits_is_whole() -> None:
    assert values.encoded("x" * 32_768) == b"x" * 32_768


def test_attributes_never_fail() -> None:
    circle: dict[str, Any] = {"own": 1}
    circle["circle"] = circle
    given = {
        "circle": circle, "nan": float("nan"), "keys": {(1, 2): 3, 4: 5, None: 6, 1.5: 7, True: 8}, "set": {1},
        "broken": Broken(), "huge": HUGE**20, "numpy": np.float32(0.5), "number": np.int64(3), "half": "\ud800",
        "\udcff": 1, "date": datetime.date(2026, 1, 2), "color": Color.RED, "bytes": b"x", "deep": (1, [2]),
    }  # fmt: skip
    told = values.attributes(given)
    assert told is not None
    found = json.loads(told, parse_constant=pytest.fail)
    assert found["circle"] == {"own": 1, "circle": "…"} or found["circle"]["circle"]["circle"] == "…"
    assert found["nan"] == "NaN" and found["keys"] == {"(1, 2)": 3, "4": 5, "null": 6, "1.5": 7, "true": 8}
    assert (found["broken"], found["numpy"], found["number"], found["half"]) == (
        "<Broken>",
        0.5,
        3,
        "\\ud800",
    )
    assert found["huge"].startswith("0x") and found["\\udcff"] == 1 and found["deep"] == [1, [2]]
    assert (found["set"], found["date"], found["color"], found["bytes"]) == ("{1}", "2026-01-02", 3, "b'x'")
    assert values.attributes({}) is None
    assert (
        values.attributes({"plain": np.int64(3), "emoji": "😀"}) == b'{"plain": 3, "emoji": "\\ud83d\\ude00"}'
    )


def test_attributes_that_are_too_long_stay_json_and_say_what_is_missing() -> None:
    told = values.attributes({"prompt": "é" * 100_000, "tokens": list(range(50_000)), "step": 3})
    assert told is not None and len(told) <= values.MOST_TEXT_BYTES
    found = json.loads(told)
    assert found["step"] == 3 and found["prompt"].endswith("é…") and found["tokens"].startswith("[0, 1, 2")
    many = values.attributes({f"key {number}": number for number in range(10_000)})
    assert many is not None and len(many) <= values.MOST_TEXT_BYTES
    kept = json.loads(many)
    assert kept["…"] == f"{10_001 - len(kept)} more"


def test_a_decorated_function_is_itself_in_all_but_its_ranges() -> None:
    @ws.annotate("work", size=3)
    def double(value: int) -> int:
        """Twice."""
        return 2 * value

    assert double(4) == 8 and (double.__name__, double.__doc__) == ("double", "Twice.")
