"""Which process, thread, device, context and stream the rows of a file belong to."""

from __future__ import annotations

import pytest

import warpsight as ws
from tests.unit.formats.kineto_file import event, kernel, launch, write
from warpsight.formats.importing import import_files


@pytest.fixture
def made(tmp_path):
    """A function that imports events and returns one that asks the trace."""
    opened = []

    def make(*events):
        opened.append(ws.open(write(tmp_path / "one.json", list(events))))
        return lambda sql: opened[0].sql(sql).fetchall()

    yield make
    for trace in opened:
        trace.close()


def named(pid, tid, name):
    return {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "ts": 0, "args": {"name": name}}


def test_a_stream_is_named_on_its_own_device_alone(made):
    ask = made(
        kernel(1), kernel(2, device=1, context=2), kernel(3, stream=8),
        named(0, 7, "first"), named(1, 7, "second"), named(2, 7, "third"),
    )  # fmt: skip
    found = ask('SELECT d."index", s.stream, s.name FROM stream s JOIN device d USING (device) ORDER BY 1, 2')
    assert found == [(0, 7, "first"), (0, 8, None), (1, 7, "second")]


def test_work_of_one_context_and_stream_is_of_one_stream_and_of_others_is_not(made):
    ask = made(kernel(1), kernel(2), kernel(3, context=2), kernel(4, device=1), kernel(5, stream=9))
    places = ask("SELECT device, context, stream FROM kernel ORDER BY start")
    assert places[0] == places[1]
    assert len(set(places)) == 4


def test_a_process_without_a_number_is_that_of_the_file_and_others_are_their_own(made):
    ask = made(
        event("cpu_op", "a", 1, 2, 100, 100), event("cpu_op", "b", 2, 2, 0, 100), event("cpu_op", "c", 3, 2, 200, 200),
        event("cpu_op", "d", 4, 2, -1, 7), event("cpu_op", "e", 5, 2, "node", 7),
    )  # fmt: skip
    rows = ask("SELECT o.name, p.pid, o.thread FROM op o JOIN process p USING (process) ORDER BY o.start")
    assert rows == [("a", 100, 100), ("b", 100, 100), ("c", 200, 200), ("d", 100, 7), ("e", 100, 7)]


def test_the_process_of_the_file_has_the_name_of_its_own_number(made):
    names = [{"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "ts": 0, "args": {"name": name}}
             for pid, name in ((100, "python train.py"), (200, "other"), (0, "GPU 0"))]  # fmt: skip
    ask = made(event("cpu_op", "a", 1, 2, 100, 100), event("cpu_op", "c", 3, 2, 200, 200), *names)
    assert ask("SELECT pid, command FROM process ORDER BY pid")[0] == (100, "python train.py")


def test_an_arrow_joins_two_operators_or_is_counted(made):
    """Forward and backward on two threads; the other arrows begin, end or do both where there is no operator."""

    def arrow(number, *ends):
        return [{"ph": phase, "cat": "fwdbwd", "name": "fwdbwd", "id": number, "pid": 100, "tid": tid, "ts": at, "bp": "e"}
                for phase, tid, at in ends]  # fmt: skip

    ask = made(
        *(event("cpu_op", name, at, 2, 100, tid, **{"External id": number}) for number, (name, at, tid) in enumerate(
            (("first", 1, 100), ("relu", 10, 100), ("ReluBackward0", 50, 101), ("other", 60, 101)))),
        *arrow(1, ("s", 100, 10), ("f", 101, 50)), *arrow(2, ("s", 100, 30), ("f", 101, 60)),
        *arrow(3, ("s", 100, 1), ("f", 101, 70)), *arrow(4, ("f", 101, 60)), *arrow(5, ("s", 100, 1)),
        *arrow(6, ("s", 100, 50), ("f", 101, 60)),
    )  # fmt: skip
    named = "SELECT {} FROM flow f JOIN op a ON a.correlation = f.from_correlation JOIN op b ON b.correlation = f.to_correlation"
    assert ask(named.format("a.name, b.name, f.kind")) == [("relu", "ReluBackward0", "forward-backward")]
    assert ask("SELECT count(*) FROM flow") == [(1,)]
    assert ask("SELECT cause, count FROM loss WHERE kind = 'flow'") == [
        ("links between forward and backward whose operators are not in the file", 4)
    ]


@pytest.mark.parametrize("phase", ["i", "I", "R"])
def test_moments_have_no_length_in_every_spelling(made, phase):
    place = {"pid": 100, "tid": 100, "s": "t"}
    ask = made(
        event("cpu_op", "a", 1, 2, 100, 100),
        {**place, "ph": phase, "cat": "user", "name": "here", "ts": 5},
        {**place, "ph": phase, "cat": "cpu_instant_event", "name": "[memory]", "ts": 6,
         "args": {"Bytes": 8, "Addr": 4096, "Device Type": 1, "Device Id": 0}},
    )  # fmt: skip
    assert ask("SELECT kind, duration FROM marker") == [("instant", None)]
    assert ask("SELECT operation, bytes FROM memory") == [("allocate", 8)]


@pytest.mark.parametrize(
    ("args", "shape"),
    [
        (
            {"grid": [1, 2, 3], "block": [4, 5, 6], "registers per thread": 7, "shared memory": 8},
            (1, 2, 3, 4, 5, 6, 7, 8),
        ),
        ({"grid": [1, 2, 3], "block": [4, 5, 6]}, (1, 2, 3, 4, 5, 6, 0, 0)),
        ({"grid": [(1 << 31) - 1, 1, 1], "block": [1, 1, 1]}, ((1 << 31) - 1, 1, 1, 1, 1, 1, 0, 0)),
        ({"grid": [1 << 31, 1, 1], "block": [1, 1, 1]}, None),
        ({"grid": [-1, 1, 1], "block": [1, 1, 1]}, None),
        ({"grid": [1, 1], "block": [1, 1, 1]}, None),
        ({"grid": [1, 1, 1.5], "block": [1, 1, 1]}, None),
        ({"grid": [1, 1, 1]}, None),
        ({"grid": [0, 1, 1], "block": [1, 1, 1]}, (0, 1, 1, 1, 1, 1, 0, 0)),
    ],
)
def test_a_kernel_has_a_shape_when_grid_and_block_are_three_numbers(made, args, shape):
    columns = "grid_x, grid_y, grid_z, block_x, block_y, block_z, registers, shared_dynamic"
    (found,) = made(kernel(1, **args))(f"SELECT {columns} FROM kernel")
    assert found == (shape or (None,) * 8)


def test_a_copy_between_devices_is_of_the_one_it_comes_from_where_it_names_no_other(made):
    def copy(start, **args):
        return event(
            "gpu_memcpy",
            "Memcpy PtoP (Device -> Device)",
            start,
            1,
            0,
            7,
            stream=7,
            bytes=4,
            correlation=start,
            **args,
        )

    ask = made(
        launch(0, 1),
        copy(1, inDevice=1, inContext=5, outDevice=2),
        copy(2, device=3, context=6, inDevice=1, inContext=5),
    )
    assert ask('SELECT d."index" FROM memcpy m JOIN device d USING (device) ORDER BY start') == [(1,), (3,)]


def test_events_without_a_time_are_counted_and_the_others_are_there(tmp_path):
    events = [
        event("cpu_op", "a", 1, 2, 100, 100),
        event("cpu_op", "b", "soon", 2, 100, 100),
        event("cpu_op", "c", None, 2, 100, 100),
    ]
    made = import_files([write(tmp_path / "one.json", events)], tmp_path / "t.warp")
    assert made.rows["op"] == 1
    assert [loss["count"] for loss in made.losses if "time" in loss["cause"]] == [2]


@pytest.mark.parametrize(("number", "index"), [((1 << 31) - 1, (1 << 31) - 1), (1 << 31, None), (-1, None)])
def test_a_device_has_its_number_in_the_file_as_far_as_a_column_holds_it(number, index):
    from types import SimpleNamespace

    from warpsight.formats.kineto.placing import Placing

    asked = []
    target = SimpleNamespace(scope=0, device=lambda key, **columns: asked.append((key, columns)) or 7)
    placing = Placing.__new__(Placing)
    placing.target, placing.devices = target, {}
    assert placing.device(number) == placing.device(number) == 7
    assert asked == [((0, number), {} if index is None else {"index": index})]


def test_a_damaged_event_costs_itself_and_is_told(tmp_path):
    path = write(
        tmp_path / "one.json", [event("cpu_op", name, at, 2, 100, 100) for at, name in enumerate("abc")]
    )
    path.write_text(path.read_text().replace('"name": "b"', '"name" "b"'))
    with ws.open(path) as trace:
        assert trace.sql("SELECT name FROM op").fetchall() == [("a",), ("c",)]
        ((cause, count),) = trace.sql("SELECT cause, count FROM loss WHERE severity <> 'note'").fetchall()
    assert "one.json is damaged at byte 222: events there were skipped" in cause and count == 1
