"""Interned definitions: ids from 1 without gaps, each row written once, and read back as they were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warpsight.model.definitions import Definitions
from warpsight.model.schema import TABLES
from warpsight.model.storage import store

FRAME = ("f", None, None, None, "python", None)
STEP = st.one_of(
    st.tuples(st.just("name"), st.sampled_from(("a", "b", "_Z3addPf"))),
    st.tuples(st.just("frame"), st.integers(1, 3)),
    st.tuples(st.just("stack"), st.tuples(st.integers(0, 4), st.integers(1, 2), st.booleans())),
    st.tuples(st.just("shape"), st.integers(1, 3)),
    st.tuples(st.just("take"), st.just(0)),
    st.tuples(st.just("load"), st.just(0)),
)
SHAPE = [c.name for c in TABLES["shape"].columns[1:]]


def shape(grid: int) -> list[Any]:
    return ["regular" if name == "launch_type" else grid if name == "grid_x" else 0 for name in SHAPE]


def interned(definitions: Definitions, kind: str, what: Any) -> int:
    if kind == "frame":
        return definitions.frame(("f", None, what, None, "python", None))
    if kind == "shape":
        return definitions.shape(shape(what))
    return definitions.name(what) if kind == "name" else definitions.stack(*what)


@settings(derandomize=True, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEP, max_size=14))
def test_the_same_content_has_one_id_however_often_it_is_taken_and_loaded(
    tmp_path: Path, steps: list[tuple[str, Any]]
) -> None:
    root = tmp_path / str(len(list(tmp_path.iterdir())))
    definitions = Definitions()
    known: dict[str, dict[Any, int]] = {name: {} for name in ("name", "frame", "stack", "shape")}
    taken = dict.fromkeys(known, 0)
    written: dict[str, list[dict[str, Any]]] = {name: [] for name in known}
    depth = [0]
    for number, (kind, what) in enumerate([*steps, ("take", 0)]):
        if kind in ("take", "load"):
            for table, rows in definitions.take().items():
                store.write_part(store.part_path(root, table, None, number), TABLES[table], rows)
                written[table] += rows.to_pylist()
            assert {name: len(rows) for name, rows in written.items()} == {
                name: len(of) for name, of in known.items()
            }
            assert definitions.take() == {}
            taken = definitions.counts()
            if kind == "load":
                definitions = Definitions()
                definitions.load(root)
            continue
        if kind == "stack":
            parent = min(what[0], len(known["stack"]))
            what = parent, what[1], "python", what[2]
            if what not in known["stack"]:
                depth.append(depth[parent] + 1)
        expected = known[kind].setdefault(what, len(known[kind]) + 1)
        found = interned(definitions, kind, what)
        assert found == expected
        assert definitions.counts() == {name: len(of) for name, of in known.items()}
        assert len(definitions.listed(kind, taken[kind])) == len(known[kind]) - taken[kind]
    for name, rows in written.items():
        assert [row["id"] for row in rows] == list(range(1, len(known[name]) + 1))
    assert [row["name"] for row in written["name"]] == list(known["name"])
    assert [row["line"] for row in written["frame"]] == list(known["frame"])
    assert [
        (row["parent"] or 0, row["frame"], row["method"], row["cut"]) for row in written["stack"]
    ] == list(known["stack"])
    assert [row["depth"] for row in written["stack"]] == depth[1:]
    assert [row["grid_x"] for row in written["shape"]] == list(known["shape"])


def test_a_whole_stack_is_interned_from_the_outermost_frame() -> None:
    definitions = Definitions()
    assert definitions.stack_of([]) == 0
    inner = definitions.stack_of([FRAME, (*FRAME[:2], 7, *FRAME[3:])], "nvtx")
    rows = definitions.take()["stack"].to_pylist()
    assert inner == 2 and [(row["parent"], row["frame"], row["method"]) for row in rows] == [
        (None, 1, "nvtx"),
        (1, 2, "nvtx"),
    ]


def test_names_are_written_with_their_readable_and_short_forms() -> None:
    definitions = Definitions()
    definitions.name("_ZN2at4mathIfEEvPT_")
    (row,) = definitions.take()["name"].to_pylist()
    assert row == {
        "id": 1,
        "name": "_ZN2at4mathIfEEvPT_",
        "demangled": "void at::math<float>(float*)",
        "short": row["short"],
    }
    assert "math" in row["short"] and "float*" not in row["short"]
    assert definitions.take() == {}
