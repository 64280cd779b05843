"""torch's NVTX ranges become operators with shapes and sequence numbers, under their own names."""

from __future__ import annotations

import json

from tests.unit.capture.recordings import Recording
from warpsight.capture.rows.torch_ops import parse

#: As torch 2.11 wrote them under emit_nvtx(record_shapes=True).
ADDMM = "aten::addmm, seq = 12, op_id = 40, sizes = [[16], [8, 32], [32, 16], [], []], input_op_ids = [(38, 0), (39, 0)]"
VIEW = "aten::view, op_id = 41, sizes = [[8, 16], []]"


def test_the_text_is_taken_apart() -> None:
    assert parse(ADDMM) == (
        "aten::addmm",
        12,
        "[[16], [8, 32], [32, 16], [], []]",
        json.dumps({"op_id": 40, "input_op_ids": "[(38, 0), (39, 0)]"}),
    )
    assert parse(VIEW) == ("aten::view", None, "[[8, 16], []]", '{"op_id": 41}')
    assert parse("autograd::engine::evaluate_function: AddmmBackward0, seq = 12, op_id = 99") == (
        "autograd::engine::evaluate_function: AddmmBackward0",
        12,
        None,
        '{"op_id": 99}',
    )


def test_other_ranges_stay_ranges() -> None:
    for text in ("forward", "step, op_id = x", "seq = 3", ", op_id = 3", "aten::add, op_id = 3, more"):
        assert parse(text) is None, text


def test_a_recording_has_operators_beside_ranges(recording: Recording) -> None:
    arena = recording.process(1)
    with recording.file(arena, "definitions") as out:
        out.write_strings({900: ADDMM, 901: VIEW})
    with recording.file(arena) as out:
        out.write(
            "Marker",
            {
                "time": [5, 10, 11, 12, 13, 20],
                "phase": [1, 1, 2, 1, 2, 2],
                "name": [12, 900, 0, 901, 0, 0],
                "id": [0, 1, 1, 1, 1, 0],
                "source": 1,
            },
            thread=7,
        )
    with recording.finish() as trace:
        ops = trace.sql("SELECT name, start, duration, sequence, shapes, thread FROM op ORDER BY start")
        assert ops.fetchall() == [
            ("aten::addmm", 10, 1, 12, "[[16], [8, 32], [32, 16], [], []]", 7),
            ("aten::view", 12, 1, None, "[[8, 16], []]", 7),
        ]
        assert trace.sql("SELECT name, duration FROM marker").fetchall() == [("forward", 15)]
