"""What single fields of a Kineto file become: copies, collectives, shapes, processes, stacks."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import warpsight as ws
from tests.unit.formats import kineto_file
from warpsight.formats.kineto import columns, device_rows, finishing, reader, stacks
from warpsight.formats.kineto.placing import Placing, is_triple


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Memcpy HtoD (Pageable -> Device)", ("HtoD", "pageable", "device")),
        ("Memcpy DtoH (Device -> Pinned)", ("DtoH", "device", "pinned")),
        ("Memory copy HostToDevice", ("HtoD", "unknown", "unknown")),
        ("Memory copy DeviceToHost (Device -> Moon)", ("DtoH", "device", "unknown")),
        ("Memcpy DeviceToDevice", ("DtoD", "unknown", "unknown")),
        ("Memcpy PtoP (Device -> Device)", ("PtoP", "device", "device")),
        ("Memcpy Sideways (Device -> Device)", ("unknown", "device", "device")),
        ("a Memcpy HtoD", ("unknown", "unknown", "unknown")),
    ],
)
def test_a_copy_says_its_direction_and_memory_in_its_name(name: str, found: tuple[str, ...]) -> None:
    assert device_rows._copy(name) == found


@pytest.mark.parametrize(
    ("raw", "found"),
    [(b"5", 5), (b'"5"', 5), (b'"-7"', -7), (b'"five"', None), (b"null", None), (b"1.5", None), (None, None)],
)
def test_numbers_may_be_written_as_text(raw: bytes | None, found: int | None) -> None:
    assert device_rows.number(raw) == found


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b"0", None),
        (b"1", 1),
        (b"-1", None),
        (b"%d" % ((1 << 64) - 1), (1 << 64) - 1),
        (b"%d" % (1 << 64), None),
    ],
)
def test_addresses_have_64_bits_and_are_not_zero(raw: bytes, found: int | None) -> None:
    assert device_rows._address(raw) == found


@pytest.mark.parametrize(
    ("dtype", "inward", "outward", "size"),
    [(b'"Float"', b"3", b"24", 96), (b'"BFloat16"', b"24", b"3", 48), (b'"Float"', b"0", b"0", None),
     (b'"Float"', None, b"5", 20), (b'"Quaternion"', b"3", b"3", None), (None, b"3", b"3", None), (b'"Byte"', b"1", None, 1)],
)  # fmt: skip
def test_a_collective_moves_the_larger_of_what_goes_in_and_out(
    dtype: bytes | None, inward: bytes | None, outward: bytes | None, size: int | None
) -> None:
    assert device_rows._bytes(dtype, inward, outward) == size


@pytest.mark.parametrize(
    ("listed", "size", "first", "stride", "members"),
    [
        ([3, 5], 9, 0, 1, [3, 5]),
        ([], 4, 2, 3, [2, 5, 8, 11]),
        ([], 1, 0, 1, [0]),
        ([], 4, -1, 1, None),
        ([], 4, 0, 0, None),
        ([], 4, 0, -1, None),
        ([], 0, 0, 1, None),
        ([], 4, None, 1, None),
        ("cut off [1, 2", 3, 4, 1, [4, 5, 6]),
    ],
)
def test_the_members_of_a_group_are_listed_or_counted(
    listed: Any, size: int, first: int | None, stride: int, members: list[int] | None
) -> None:
    text = listed if isinstance(listed, str) else json.dumps(listed)
    raw = [json.dumps(one).encode() for one in (text, size, first, stride)]
    found = device_rows._members(*raw)
    assert (found and json.loads(found)) == members


@pytest.mark.parametrize(("name", "peer"), [("send", 7), ("recv", 5), ("allreduce", None)])
def test_a_message_has_the_rank_at_its_other_end(name: str, peer: int | None) -> None:
    assert device_rows._peer(json.dumps(name).encode(), b"5", b"7") == peer
    assert device_rows._peer(json.dumps(name).encode(), None, None) is None


@pytest.mark.parametrize(
    ("value", "good"),
    [
        ([1, 2, 3], True),
        ([1, 2], False),
        ([1, 2, 3, 4], False),
        ([1, 2, 3.0], False),
        ([1, 2, True], False),
        ((1, 2, 3), False),
    ],
)
def test_a_grid_is_three_integers(value: Any, good: bool) -> None:
    assert is_triple(value) == good


class Target:
    """Notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def process(self, key: Any, **columns: Any) -> int:
        self.asked.append((key, columns))
        return [one for one, _ in self.asked].index(key)

    def shape(self, **columns: int) -> int:
        self.asked.append(columns)
        return 9


@pytest.mark.parametrize(
    ("grid", "registers", "shared", "known"),
    [([1, 2, 3], 40, 128, True), ([1, 2, 3], None, "128", True), ([1, 2], 40, 128, False), ([1, 2, -1], 40, 128, False),
     ([1, 2, 1 << 31], 40, 128, False), ([1, 2, (1 << 31) - 1], 40, 128, True), ([0, 0, 0], 0, 0, True)],
)  # fmt: skip
def test_a_shape_is_a_grid_and_a_block_that_fit(
    grid: list[int], registers: Any, shared: Any, known: bool
) -> None:
    target = Target()
    placing = Placing(cast(Any, target))
    assert placing._shape(grid, [4, 5, 6], registers, shared) == (9 if known else None)
    assert placing._shape([1, 1, 1], [4, 5], 1, 1) is None
    if known:
        assert target.asked[-1] == {
            "grid_x": grid[0], "grid_y": grid[1], "grid_z": grid[2], "block_x": 4, "block_y": 5, "block_z": 6,
            "registers": registers or 0, "shared_dynamic": shared if isinstance(shared, int) else 0,
        }  # fmt: skip


def test_a_file_is_about_the_first_process_that_it_names() -> None:
    target = Target()
    placing = Placing(cast(Any, target))
    assert [placing.process(pid) for pid in (0, "CPU", 40, 41, 40, 0, -3, None)] == [0, 0, 0, 2, 0, 0, 0, 0]
    assert placing.pid == 40
    assert target.asked[1] == ("the process", {"pid": 40})
    other = Target()
    Placing(cast(Any, other)).process(1 << 31)  # more than a pid can be
    assert other.asked[-1] == ("the process", {"pid": 0})


@pytest.mark.parametrize(
    ("name", "frame"),
    [
        ("train.py(12): step", ("step", "train.py", 12, None, "python", None)),
        ("a(1).py(12): f", ("f", "a(1).py", 12, None, "python", None)),
        ("train.py(2147483647): f", ("train.py(2147483647): f", None, None, None, "python", None)),
        ("train.py(999999999): f", ("f", "train.py", 999_999_999, None, "python", None)),
        ("<built-in method>", ("<built-in method>", None, None, None, "python", None)),
        ("nn.Module: Linear_0", ("nn.Module: Linear_0", None, None, None, "marker", None)),
    ],
)
def test_frames_of_python_functions(name: str, frame: tuple[Any, ...]) -> None:
    assert stacks.frame_of(name) == frame


ASKED = (-1, 0, 1, 2, 5, 65_535, 65_536, 65_540, 65_547, 80_000, 1 << 40)
IDS = st.lists(st.tuples(st.sampled_from(ASKED), st.integers(1, 9)), max_size=6)


@settings(derandomize=True, max_examples=60)
@given(st.lists(IDS, max_size=4))
def test_stacks_by_python_id_are_those_of_a_dictionary(batches: list[list[tuple[int, int]]]) -> None:
    """Each id is kept once; ids far beyond their number take no memory."""
    by_id, known = stacks._ById(), {}
    asked = np.array(ASKED)
    for batch in batches:
        fresh = {one: stack for one, stack in batch if one not in known}
        by_id.keep(np.array(list(fresh), np.int64), np.array(list(fresh.values()), np.int32))
        known |= {one: stack for one, stack in fresh.items() if one >= 0}
        assert by_id.of(asked).tolist() == [known.get(one, 0) for one in asked.tolist()]
    assert len(by_id._dense) <= 1 << 17


@settings(derandomize=True, max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from(("launch", "api")), st.integers(-1, 5), st.integers(0, 2)), max_size=9)
)
def test_device_work_belongs_to_the_only_process_whose_calls_have_its_correlation(
    calls: list[tuple[str, int, int]],
) -> None:
    held = {
        table: pa.table({"correlation": pa.array([c if c >= 0 else None for t, c, _ in calls if t == table], pa.int64()),
                         "process": pa.array([p for t, _, p in calls if t == table], pa.int32())})
        for table in ("launch", "api")
    }  # fmt: skip
    found = finishing._launching(cast(Any, SimpleNamespace(tables=lambda name: iter([held[name]]))))
    owners: dict[int, set[int]] = {}
    for _, correlation, process in calls:
        if correlation >= 0:
            owners.setdefault(correlation, set()).add(process)
    if len({one for own in owners.values() for one in own}) < 2:
        owners = {}
    expected = {one: own for one, own in sorted(owners.items()) if len(own) == 1}
    assert found[0].tolist() == list(expected)
    assert found[1].tolist() == [next(iter(own)) for own in expected.values()]
    empty = SimpleNamespace(tables=lambda name: iter(()))
    assert [len(column) for column in finishing._launching(cast(Any, empty))] == [0, 0]


def test_fields_that_are_not_there(tmp_path: Any) -> None:
    place = {"device": 0, "context": 1, "stream": 7}
    between = {"inDevice": 1, "inContext": 3, "stream": 9, "fromDevice": 1, "toDevice": 0}
    events = [
        kineto_file.kernel(10),
        kineto_file.event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 20, 5, 0, 7, **place),
        kineto_file.event("gpu_memcpy", "Memcpy PtoP (Device -> Device)", 30, 5, 0, 7, bytes="12", **between),
        kineto_file.event("gpu_memset", "Memset", 40, 5, 0, 7, **place),
        kineto_file.event("cuda_sync", "Stream Sync", 50, 5, 0, 7, **place),
        kineto_file.event("cuda_sync", "a name", 60, 5, 0, 7, cuda_sync_kind="Context Sync", **place),
        kineto_file.event("cuda_sync", "Something new", 70, 5, 0, 7, **place),
    ]
    with ws.open(kineto_file.write(tmp_path / "trace.json", events)) as trace:
        copies = trace.sql("""SELECT m.bytes, d."index", m.context, m.stream, s."index", t."index" FROM memcpy m
                              JOIN device d USING (device) LEFT JOIN device s ON s.device = m.source_device
                              LEFT JOIN device t ON t.device = m.destination_device ORDER BY m.start""").fetchall()  # fmt: skip
        assert copies == [(0, 0, 1, 7, None, None), (12, 1, 3, 9, 1, 0)]
        assert trace.sql("SELECT bytes, memory_kind, value FROM memset").fetchall() == [(0, "unknown", 0)]
        assert trace.sql("SELECT kind FROM sync ORDER BY start").fetchall() == [
            ("stream",),
            ("context",),
            ("Something new",),
        ]


def test_columns_of_nulls_have_their_type_and_arrays_keep_theirs() -> None:
    coded = pa.array(["a", "b"]).dictionary_encode()
    made = columns.table(
        {"correlation": [None, None], "kind": coded, "own": np.array([1, 2]), "graph": [1, None]}
    )
    assert [made.schema.field(name).type for name in made.column_names] == [
        pa.int64(),
        coded.type,
        pa.int64(),
        pa.int32(),
    ]
    assert made.to_pylist() == [{"correlation": None, "kind": "a", "own": 1, "graph": 1},
                                {"correlation": None, "kind": "b", "own": 2, "graph": None}]  # fmt: skip
    assert columns.constant(None, 2).to_pylist() == [None, None] and columns.constant(5, 2).to_pylist() == [
        5,
        5,
    ]


@pytest.mark.parametrize(
    ("phase", "category", "derived"),
    [("s", "ac2g", True), ("f", "ac2g", True), ("M", "ac2g", False), ("s", "fwdbwd", False)],
)
def test_arrows_between_calls_and_their_work_repeat_the_correlation(
    phase: str, category: str, derived: bool
) -> None:
    assert reader._derived(phase, category) == derived
