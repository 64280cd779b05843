"""Fields are found where the json module finds them, however a file is written and whatever its texts hold."""

import json
from pathlib import Path

import msgspec
import pytest

import warpsight
from warpsight.errors import WarpsightError
from warpsight.formats.kineto import layouts as layouts_module
from warpsight.formats.kineto.group import groups
from warpsight.formats.kineto.layouts import Layouts

NAMES = [
    "plain",
    'with "quotes":',
    "back\\slash\\",
    "a},{",
    'b}, {"ph":',
    "c},\n  {",
    "ünïcode",
    "{lambda(int)#1}",
    "",
    ":",
    '":',
]
WRITINGS = {
    "compact": {"separators": (",", ":")},
    "python": {},
    "indented": {"indent": 2},
    "tabs": {"indent": "\t"},
    "ascii": {"ensure_ascii": True, "indent": 1},
}


def event(number):
    name = NAMES[number % len(NAMES)]
    made = {
        "ph": "X",
        "cat": "cpu_op",
        "name": name,
        "pid": 7,
        "tid": 7 + number % 3,
        "ts": number + 0.25,
        "dur": number,
    }
    if number % 5:
        made["args"] = {
            "External id": number,
            "Input Dims": [[number % 4, 2], []],
            "new field": {"name": name, "ph": "{"},
        }
    if number % 7 == 0:
        made = {"name": name, "ph": "M", "pid": "Spans", "args": {"name": [1, {"x": "}"}]}}
    return made


def flat(found):
    fields = {("." + k if k != "args" else k): v for k, v in found.items() if k not in ("ph", "cat", "args")}
    return {**fields, **found.get("args", {})}


def spans(events, **writing):
    """What the layouts of a text give, event by event in order."""
    text = (
        json.dumps(events, ensure_ascii=writing.pop("ensure_ascii", False), **writing)
        .strip()[1:-1]
        .strip()
        .encode()
    )
    (piece,) = Layouts(lambda phase, category: False)(text + b", behind", len(text))
    assert piece.events == len(events)
    found = {}
    for part in piece.found:
        for at, row in enumerate(part.rows.tolist()):
            values = zip(part.layout.fields, part.starts, part.ends, strict=True)
            told = {field: json.loads(text[int(a[at]) : int(b[at])]) for field, a, b in values}
            told |= {field: json.loads(raw) for field, _, _, raw in part.layout.fixed}
            found[row] = (part.layout.phase, part.layout.category, told)
    return [found[row] for row in sorted(found)]


@pytest.mark.parametrize("writing", WRITINGS)
def test_fields_are_those_of_the_json_module(writing):
    events = [event(number) for number in range(400)]
    expected = [(e["ph"], e.get("cat", ""), flat(e)) for e in events]
    assert spans(events, **WRITINGS[writing]) == expected


def test_groups_have_the_values_in_order():
    events = [event(number) for number in range(400)]
    text = json.dumps(events, indent=1)[1:-1].strip().encode()
    (piece,) = Layouts(lambda phase, category: False)(text, len(text))
    told = {(phase, category): group for phase, category, group in groups(piece)}
    operators = [e for e in events if e["ph"] == "X"]
    group = told["X", "cpu_op"]
    assert group.values(".name") == [e["name"] for e in operators]
    assert group.values(".pid") == [7] * len(operators)
    assert group.values(".tid") == [e["tid"] for e in operators]
    assert group.integers("External id").to_pylist() == [
        e.get("args", {}).get("External id") for e in operators
    ]
    assert group.times(".ts").tolist() == [int(e["ts"] * 1000) for e in operators]
    assert group.times(".dur").tolist() == [e["dur"] * 1000 for e in operators]


@pytest.mark.parametrize("damage", ['{"ph": "X", "name": }', '{"ph": "X"', "{]", '{"ph": "X"} {"ph": "X"}'])
def test_what_is_no_json_is_an_error(damage):
    text = ", ".join([*(json.dumps(event(n)) for n in range(1, 7)), damage]).encode()
    with pytest.raises(msgspec.DecodeError):
        Layouts(lambda phase, category: False)(text, len(text))


@pytest.mark.parametrize(
    ("bound", "most"), [("_LAYOUTS", 3), ("_LAYOUT_BYTES", 20_000), ("_LAYOUT_KINDS", 5)]
)
def test_layouts_that_are_remembered_are_bounded(monkeypatch, bound, most):
    monkeypatch.setattr(layouts_module, bound, most)
    layouts = Layouts(lambda phase, category: False)
    for number in range(200):
        # The same keys and never the same text between them; keys that no other event has.
        blanks = [{"a": 1}, {"a": 1}, {f"key {number}": number, "a": 2}]
        texts = [json.dumps(made, indent=number + place) for place, made in enumerate(blanks)]
        text = ", ".join(texts).encode()
        (piece,) = layouts(text, len(text))
        assert sum(len(found.rows) for found in piece.found) == 3
        known = [layout for kept in layouts._known.values() for layout in kept]
        assert all(len(kept) <= layouts_module._LAYOUTS for kept in layouts._known.values())
        assert sum(layout.size for layout in known) <= layouts_module._LAYOUT_BYTES
        assert len(layouts._known) <= layouts_module._LAYOUT_KINDS


def test_values_that_are_no_objects_are_left_out():
    text = json.dumps([event(1), 5, "x", None, event(2)])[1:-1].encode()
    (piece,) = Layouts(lambda phase, category: False)(text, len(text))
    assert sorted(row for found in piece.found for row in found.rows.tolist()) == [0, 4]


def test_objects_without_anything_in_them_are_refused_before_they_fill_memory(tmp_path):
    whole = (Path(__file__).parents[3] / "golden" / "formats" / "kineto" / "every_kind.json").read_bytes()
    path = tmp_path / "many.json"
    path.write_bytes(whole[: len(whole) // 2] + b"{}," * 1_000_000)
    with pytest.raises(WarpsightError, match="millions of empty objects"):
        warpsight.open(path)
