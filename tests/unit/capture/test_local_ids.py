"""Ids of a process become the trace's, in whatever order definitions arrive; what was lost is counted, never mixed up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsight.capture.columns import spread
from warpsight.capture.local_ids import LocalIds, _Lookup
from warpsight.capture.segments import layout
from warpsight.capture.segments.segment import DTYPES
from warpsight.model.definitions import Definitions

ONCE = layout.FIRST_ONCE_STRING
IDS = st.one_of(st.integers(1, 40), st.integers(1020, 1030), st.integers(ONCE, ONCE + 3))


def rows(kind: str, *values: dict[str, Any]) -> np.ndarray:
    """Definition rows; what is not given is zero."""
    out = np.zeros(len(values), DTYPES[layout.BY_NAME[kind].kind])
    for place, row in enumerate(values):
        for name, value in row.items():
            out[name][place] = value
    return out


@given(
    st.dictionaries(IDS, st.integers(0, 1000)),
    st.lists(st.one_of(IDS, st.just(0)), max_size=12),
    st.booleans(),
)
def test_a_column_is_translated_as_a_dictionary_does_it(
    known: dict[int, int], wanted: list[int], same: bool
) -> None:
    lookup = _Lookup()
    for local, value in known.items():
        lookup.set(local, value)
    column = np.array(wanted, np.uint32)
    if same and wanted:
        wanted = wanted[:1] * 3
        column = spread(wanted[0], 3, np.uint32)
    lost = [local for local in wanted if local and local not in known]
    assert lookup.unresolved(column) == sorted(set(lost))
    assert lookup.translate(column).tolist() == [known.get(local, 0) for local in wanted]
    assert lookup.missing == len(lost)
    assert [lookup.get(local) for local in wanted if local < 1000] == [
        known.get(local, -1) if local else 0 for local in wanted if local < 1000
    ]


def test_an_id_of_damage_does_not_size_memory() -> None:
    lookup = _Lookup()
    lookup.set((1 << 28) + 1, 5)
    assert len(lookup._ids) == 1024
    assert lookup.translate(np.array([(1 << 28) + 1], np.uint32)).tolist() == [0]
    lookup.set(5_000, 7)
    assert lookup.translate(np.array([5_000, 1_500], np.uint32)).tolist() == [7, 0]


def test_a_shape_has_its_numbers_in_the_columns_of_the_table_as_far_as_they_fit() -> None:
    trace = Definitions()
    local = LocalIds(trace)
    numbers = {
        "grid_x": 1, "grid_y": 2, "grid_z": 3, "block_x": 4, "block_y": 5, "block_z": 6, "cluster_x": 7, "cluster_y": 8,
        "cluster_z": 9, "registers": 10, "shared_static": 11, "shared_dynamic": 12, "local_per_thread": 13,
    }  # fmt: skip
    kinds = ("regular", "cooperative", "multi-device cooperative", "device-launched", "type 4")
    local.add_shapes(
        rows("Shape", *({"id": i + 1, **numbers, "launch_type": i, "shared_config": 14} for i in range(5)))
    )
    local.add_shapes(rows("Shape", {"id": 6, "registers": 0xFFFFFFFF, "shared_config": 0x80000000}))
    found = trace.take()["shape"].to_pylist()
    for place, (row, kind) in enumerate(zip(found, kinds, strict=False)):
        assert row == {"id": place + 1, **numbers, "launch_type": kind, "shared_config": 14}
    assert (found[5]["registers"], found[5]["shared_config"]) == (0x7FFFFFFF, 0x7FFFFFFF)
    assert local.shapes(np.array([6, 1, 0, 9], np.uint32)).tolist() == [6, 1, 0, 0]
    assert local.take_missing() == 1
    assert local.take_missing() == 0


def test_only_strings_used_as_names_become_names_and_lost_ones_are_counted() -> None:
    trace = Definitions()
    local = LocalIds(trace)
    local.strings.update({1: "other", 2: "gemm", 3: "copy"})
    assert local.names(np.array([3, 2, 3, 0, 9], np.uint32)).tolist() == [2, 1, 2, 0, 0]
    assert local.take_missing() == 1
    assert trace.take()["name"].column("name").to_pylist() == ["gemm", "copy"]
    assert local.texts(np.array([2, 0, 9, 1, 2], np.uint32)).to_pylist() == [
        "gemm",
        None,
        None,
        "other",
        "gemm",
    ]
    assert (local.text(3), local.text(0), local.text(9)) == ("copy", "", "")


FRAMES = {1: "main", 2: "step", 3: "annotate", 4: "__enter__", 5: "call_function", 6: "ctypes"}
FILES = {
    1: "train.py", 2: "train.py", 3: "/lib/warpsight/inside/annotating.py", 4: "/usr/lib/contextlib.py", 5: "/usr/bin/python3.11",
    6: "_ctypes.so",
}  # fmt: skip


@pytest.fixture
def stacked() -> tuple[Definitions, LocalIds]:
    """Frames 1 and 2 are the program's; 3 reports events, 4 and 5 are between, 6 is native code."""
    trace = Definitions()
    local = LocalIds(trace)
    local.strings.update(
        {10 + i: text for i, text in FRAMES.items()} | {20 + i: text for i, text in FILES.items()}
    )
    native = {5, 6}
    local.add_frames(rows("Frame", *(
        {"id": i, "function": 10 + i, "file": 20 + i, "line": i,
         "kind": layout.FRAME_NATIVE if i in native else layout.FRAME_PYTHON} for i in FRAMES
    )))  # fmt: skip
    return trace, local


@pytest.mark.parametrize(
    ("frames", "caller"),
    [
        ((1, 2), (1, 2)),
        ((1, 2, 3), (1, 2)),
        ((1, 2, 4, 3), (1, 2)),  # through contextlib
        ((1, 2, 5, 4, 3), (1, 2)),  # and the interpreter
        ((1, 2, 3, 3), (1, 2)),
        ((1, 2, 3, 6), (1, 2)),  # ctypes, on its way to the recorder
        ((1, 2, 3, 6, 5), (1, 2)),
        ((1, 2, 3, 1), (1, 2, 3, 1)),  # the program again, called from ours
        ((1, 4), (1, 4)),  # nothing of ours
        ((1, 4, 2), (1, 4, 2)),
        ((1, 4, 2, 3), (1, 4, 2)),
        ((3,), ()),
    ],
)
@pytest.mark.parametrize("backwards", [False, True])
def test_rows_that_a_program_reports_are_its_own_frames(stacked, frames, caller, backwards) -> None:
    trace, local = stacked
    made = [{"id": i, "parent": i - 1, "frame": frame, "method": 1} for i, frame in enumerate(frames, 1)]
    if backwards and len(made) > 1:  # the inner ones come first, in a segment of their own
        local.add_stacks(rows("Stack", *made[1:]))
        assert local.stacks(np.array([len(made)], np.uint32)).tolist() == [0]
        local.take_missing()
        local.add_stacks(rows("Stack", made[0]))
    else:
        local.add_stacks(rows("Stack", *made))
    (found,) = local.callers(np.array([len(made)], np.uint32)).tolist()
    stacks = {i: (parent or 0, frame) for i, (parent, frame, *_) in enumerate(trace._stacks, 1)}
    read = []
    while found:
        found, frame = stacks[found]
        read.append(frame)
    assert tuple(read[::-1]) == caller
    assert local.take_missing() == 0


def test_frames_are_read_from_their_strings() -> None:
    trace = Definitions()
    local = LocalIds(trace)
    local.strings.update({1: "f", 2: "a.py", 3: "abc123"})
    kinds = {
        layout.FRAME_PYTHON: "python", layout.FRAME_NATIVE: "native", layout.FRAME_MARKER: "marker",
        layout.FRAME_KERNEL: "kernel", layout.FRAME_LINE: "line", 99: "native",
    }  # fmt: skip
    local.add_frames(rows("Frame", *(
        {"id": i, "function": 1, "file": 2, "line": 1 << 31 | i, "address": i, "kind": kind, "build_id": 3}
        for i, kind in enumerate(kinds, 1)
    )))  # fmt: skip
    local.add_frames(rows("Frame", {"id": 9, "function": 7, "kind": layout.FRAME_PYTHON}))
    found = trace.take()["frame"].to_pylist()
    for place, (row, kind) in enumerate(zip(found, kinds.values(), strict=False), 1):
        assert row == {"id": place, "function": "f", "file": "a.py", "line": place, "address": place, "kind": kind,
                       "build_id": "abc123"}  # fmt: skip
    assert found[-1] == {"id": 7, "function": "?", "file": None, "line": None, "address": None, "kind": "python",
                         "build_id": None}  # fmt: skip


def test_a_stack_says_how_it_was_taken_and_whether_it_is_cut() -> None:
    trace = Definitions()
    local = LocalIds(trace)
    local.add_frames(rows("Frame", {"id": 1}))
    methods = {
        layout.STACK_FRAME_CHAIN: "frame chain", layout.STACK_WITH_GIL: "with GIL", layout.STACK_UNWINDER: "unwinder",
        layout.STACK_IMPORTED: "imported", layout.STACK_REMOTE: "remote", layout.STACK_WAITER: "waiter", 99: "method 99",
    }  # fmt: skip
    local.add_stacks(rows("Stack", *(
        {"id": i, "parent": i - 1, "frame": 1, "method": method, "flags": i & 3} for i, method in enumerate(methods, 1)
    )))  # fmt: skip
    found = trace.take()["stack"].to_pylist()
    assert [row["method"] for row in found] == list(methods.values())
    assert [row["cut"] for row in found] == [bool(i & 1) for i in range(1, 8)]
    assert [(row["parent"] or 0, row["depth"]) for row in found] == [(i - 1, i) for i in range(1, 8)]


@pytest.mark.parametrize("known", [1, 1023, 1024, 2047, 5000])
def test_ids_around_the_last_known_one_are_unknown(known: int) -> None:
    ids = _Lookup()
    ids.set(known, 7)
    asked = [0, known - 1, known, known + 1, 1024, 2048, 8192]
    assert [ids.get(one) for one in asked] == [{0: 0, known: 7}.get(one, -1) for one in asked]
