"""Layouts of events: how they are remembered and counted, and the steps that find where values are."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.formats.chrome.stream import EmptyObjects
from warpsight.formats.kineto import layouts as module
from warpsight.formats.kineto.layouts import Layouts, Piece


def every(phase: str, category: str) -> bool:
    """No event is left out."""
    return False


def written(events: list[Any], **how: Any) -> bytes:
    return json.dumps(events, **how)[1:-1].strip().encode()


def read(piece: Piece, text: bytes) -> dict[int, dict[str, Any]]:
    """By number, the fields of every event that was found."""
    found: dict[int, dict[str, Any]] = {}
    for part in piece.found:
        for at, row in enumerate(part.rows.tolist()):
            values = zip(part.layout.fields, part.starts, part.ends, strict=True)
            told = {field: json.loads(text[int(a[at]) : int(b[at])]) for field, a, b in values}
            told |= {field: json.loads(raw) for field, _, _, raw in part.layout.fixed}
            assert row not in found
            found[row] = told | {"ph": part.layout.phase, "cat": part.layout.category}
            assert text[int(part.begins[at])] == ord("{")
    return found


def event(number: int, **more: Any) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": "kernel",
        "name": "gemm",
        "pid": 0,
        "tid": number % 5,
        "ts": number,
        "dur": 3,
        **more,
    }


def expected(one: dict[str, Any]) -> dict[str, Any]:
    own = {f".{key}": value for key, value in one.items() if key not in ("ph", "cat", "args")}
    return {"ph": one.get("ph", ""), "cat": one.get("cat", ""), **own, **one.get("args", {})}


def kept(found: Layouts) -> list[Any]:
    return [layout for one in found._known.values() for layout in one]


def test_the_memory_that_layouts_take_is_counted_as_they_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LAYOUTS", 4)
    found = Layouts(every)
    for number in range(9):
        text = written([event(number), {"ph": "M", f"k{number % 3}": 1}], indent=number)
        found(text, len(text))
        assert found._bytes == sum(layout.size for layout in kept(found)) > 0
    assert max(map(len, found._known.values())) == 4
    # Those that came first went first: the literals of the last four indents of 5 to 8 are there.
    longest = max(found._known.values(), key=len)
    indents = [layout.literals[0].count(b" ") for layout in longest]
    assert indents == sorted(indents) and len(set(indents)) == 4
    found._forget()
    assert (found._bytes, found._known) == (0, {})


def test_the_size_of_a_layout_is_that_of_its_texts_and_of_as_many_objects() -> None:
    layout = module._Layout(
        "X", "c", ("ab", "c"), (b"xyz", b"", b"12345"), (0, 1), (2, 2), (("d", 0, 1, b"true"),)
    )
    # three literals, two fields, one fixed value: 3 + 0 + 5 + 2 + 1 + 4 bytes of text
    assert layout.size == 1024 + 15 + 6 * 128


def test_layouts_are_forgotten_when_they_take_more_than_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Layouts(every)
    text = written([event(1)])
    found(text, len(text))
    (one,) = kept(found)
    monkeypatch.setattr(module, "_LAYOUT_BYTES", 2 * one.size)
    for category, left in (("cpu_op", 2), ("python", 0)):  # names as long as the first
        other = written([event(1, cat=category)])
        found(other, len(other))
        assert len(kept(found)) == left and found._bytes == left * one.size


def test_events_that_nobody_wants_are_left_out_by_phase_and_category() -> None:
    asked: list[tuple[str, str]] = []

    def skipped(phase: str, category: str) -> bool:
        asked.append((phase, category))
        return (phase, category) == ("X", "kernel")

    events = [event(0), event(1, cat="cpu_op"), {"ph": "M", "name": "x"}, event(2), {"name": "y"}]
    text = written(events)
    (piece,) = Layouts(skipped)(text, len(text))
    assert piece.events == 5 and sorted(read(piece, text)) == [1, 2, 4]
    assert set(asked) >= {("X", "kernel"), ("X", "cpu_op"), ("M", "")}


def test_only_the_first_bytes_of_a_text_are_read() -> None:
    first = written([event(0), event(1)])
    text = first + b", " + written([event(2)])
    (piece,) = Layouts(every)(text, len(first))
    assert read(piece, text) == {0: expected(event(0)), 1: expected(event(1))}


VALUES = st.one_of(
    st.integers(-5, 5), st.booleans(), st.none(), st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.text('a":\\{},é ', max_size=6), st.lists(st.integers(0, 3), max_size=2),
    st.dictionaries(st.text('a":{}', max_size=3), st.integers(0, 3), max_size=2),
)  # fmt: skip
EVENTS = st.fixed_dictionaries(
    {"ph": st.sampled_from("XMi"), "ts": st.integers(0, 9)},
    optional={
        "cat": st.sampled_from(["kernel", "cpu_op"]), "name": VALUES, "pid": VALUES, "dur": VALUES,
        "args": st.dictionaries(st.sampled_from(["stream", "device", "size", 'a"b', "c:"]), VALUES, max_size=4),
    },
)  # fmt: skip


@settings(max_examples=120, deadline=None)
@given(
    st.lists(EVENTS, min_size=1, max_size=8), st.integers(1, 12), st.sampled_from([None, 0, 2]), st.booleans()
)
def test_fields_are_those_of_the_json_module_in_any_mixture(
    events: list[dict[str, Any]], times: int, indent: int | None, ascii_only: bool
) -> None:
    several = events * times
    text = written(several, indent=indent, ensure_ascii=ascii_only)
    found = Layouts(every)
    for _ in range(2):  # the second time with the layouts of the first
        (piece,) = found(text, len(text))
        assert piece.events == len(several)
        told = read(piece, text)
        assert told == {number: expected(one) for number, one in enumerate(several)}


def test_what_a_sample_shares_belongs_to_the_layout_and_a_stray_event_has_its_own() -> None:
    events = [event(n, args={"stream": 7, "device": 0, "bytes": 5}) for n in range(200)]
    events[151] = event(151, args={"stream": 9, "device": 0, "bytes": 5})
    text = written(events)
    (piece,) = Layouts(every)(text, len(text))
    assert read(piece, text) == {n: expected(one) for n, one in enumerate(events)}
    largest = max(piece.found, key=lambda part: len(part.rows))
    fixed = {field: raw for field, _, _, raw in largest.layout.fixed}
    # bytes are the same in all, but not a field that may be a part of a layout; threads differ
    assert fixed == {".name": b'"gemm"', ".pid": b"0", "stream": b"7", "device": b"0"}
    assert len(largest.rows) == 199
    for field, literal, place, raw in largest.layout.fixed:
        text_of = largest.layout.literals[literal]
        assert text_of[place : place + len(raw)] == raw, field


def test_few_events_have_nothing_fixed() -> None:
    for count, fixed in ((31, False), (32, True)):
        text = written([event(n) for n in range(count)])
        (piece,) = Layouts(every)(text, len(text))
        assert bool(piece.found[0].layout.fixed) == fixed


def test_only_the_first_layouts_of_a_kind_have_fixed_values() -> None:
    found = Layouts(every)
    for pid in range(6):
        text = written([event(n, pid=pid) for n in range(40)])
        (piece,) = found(text, len(text))
        assert read(piece, text) == {n: expected(event(n, pid=pid)) for n in range(40)}
    assert [bool(layout.fixed) for layout in kept(found)] == [True] * 4 + [False]


def test_a_kind_with_too_many_layouts_is_decoded_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TRIES", 3)
    texts = [json.dumps(event(0), separators=(",", ":" + " " * n)) for n in range(6)]
    text = ", ".join(texts).encode()
    (piece,) = Layouts(every)(text, len(text))
    assert read(piece, text) == dict.fromkeys(range(6), expected(event(0)))
    assert [len(part.layout.literals) > 0 for part in piece.found] == [True] * 3 + [False] * 3


def test_a_piece_with_too_many_kinds_of_events_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KINDS", 3)
    for count in (3, 4):
        text = written([{"ph": "X", **{f"key{n}": 1}} for n in range(count)])
        if count == 3:
            (piece,) = Layouts(every)(text, len(text))
            assert piece.events == 3
        else:  # each is decoded on its own
            (piece,) = Layouts(every)(text, len(text))
            assert [len(part.layout.literals) for part in piece.found] == [0] * 4


@settings(max_examples=80, deadline=None)
@given(st.binary(min_size=0, max_size=40).map(lambda raw: raw.replace(b"\x00", b'":')), st.binary(max_size=3),
       st.lists(st.integers(-5, 45), max_size=6))  # fmt: skip
def test_a_literal_is_found_where_it_is(text: bytes, literal: bytes, places: list[int]) -> None:
    found = module._equal(text, np.array(places, np.int64), literal)
    size = len(literal)
    there = [not size or (0 <= p <= len(text) - size and text[p : p + size] == literal) for p in places]
    assert found.tolist() == there


@settings(max_examples=80, deadline=None)
@given(st.text('ab":\\ {', max_size=60))
def test_keys_end_where_a_quote_and_a_colon_stand_unless_the_quote_is_escaped(text: str) -> None:
    data = np.frombuffer(text.encode() or b" ", np.uint8)
    raw = data.tobytes()
    places, words = module._keys(data)
    every_place = [
        n for n in range(len(raw) - 1) if raw[n : n + 2] == b'":' and raw[max(n - 1, 0) : n] != b"\\"
    ]
    long_enough = [n for n in every_place if n >= 4]
    assert [p for p in places.tolist() if p >= 4] == long_enough
    last = dict(zip(places.tolist(), words.tolist(), strict=True))
    for place in long_enough:
        assert last[place] == int.from_bytes(raw[place - 4 : place], "little")


def test_keys_are_found_across_the_blocks_they_are_looked_for_in(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [event(n, args={"stream": n}) for n in range(60)]
    text = written(events)
    whole = [one.tolist() for one in module._keys(np.frombuffer(text, np.uint8))]
    for block in (1, 2, 7, 64):
        monkeypatch.setattr(module, "_BLOCK", block)
        assert [one.tolist() for one in module._keys(np.frombuffer(text, np.uint8))] == whole
    for rows in (1, 7, 59, 60):
        monkeypatch.setattr(module, "_ROWS", rows)
        (piece,) = Layouts(every)(text, len(text))
        assert read(piece, text) == {n: expected(one) for n, one in enumerate(events)}


def test_events_with_other_keys_have_other_numbers() -> None:
    words = np.array([1, 2, 1, 2, 2, 1, 3, 1], np.uint32)
    found = module._hashes(words, np.array([0, 2, 4, 6])).tolist()
    assert found[0] == found[1] == found[2] != found[3]


@pytest.mark.parametrize(("length", "refused"), [(100_000, True), (1_000, False)])
def test_a_text_of_nothing_but_empty_objects_is_refused_when_it_is_long(length: int, refused: bool) -> None:
    text = b",".join([b"{}"] * length)
    if refused:
        with pytest.raises(EmptyObjects):
            Layouts(every)(text, len(text))
    else:
        (piece,) = Layouts(every)(text, len(text))
        assert piece.events == length


def test_the_error_of_text_that_is_not_json_says_where() -> None:
    text = written([event(0)]) + b", {]"
    with pytest.raises(msgspec.DecodeError, match=rf"byte {len(text)}"):
        Layouts(every)(text, len(text))
