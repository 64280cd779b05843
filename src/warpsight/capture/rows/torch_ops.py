"""Operators that torch announces as NVTX ranges (`emit_nvtx`, `--ranges torch`) as rows of table `op`.

torch writes everything into the range's text: `aten::mm, seq = 3, op_id = 17, sizes = [[2, 3], []], input_op_ids =
[...]` (torch/csrc/profiler/util.cpp, getNvtxStr), so no two ranges share a name. This module takes the text apart: the name is
the operator's, the rest become columns. A backward operator has the sequence number of its forward one.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from warpsight.capture.columns import Nullable, zero_is_null

if TYPE_CHECKING:
    from warpsight.capture.arena import Arena

Array = npt.NDArray[Any]
_TEXT = re.compile(
    r"(?P<name>.+?)(?:, seq = (?P<seq>\d+))?, op_id = (?P<id>\d+)"
    r"(?:, sizes = (?P<sizes>\[.*?\]))?(?:, input_op_ids = (?P<inputs>\[.*\]))?",
    re.DOTALL,
)


class _Operator(NamedTuple):
    """The contents of one range's name; `shapes` and `attributes` are JSON."""

    name: str
    sequence: int | None
    shapes: str | None
    attributes: str


def parse(text: str) -> _Operator | None:
    """The operator in a range's name; None if torch did not write the range."""
    if ", op_id = " not in text:
        return None
    found = _TEXT.fullmatch(text)
    if found is None:
        return None
    more: dict[str, Any] = {"op_id": int(found["id"])}
    if found["inputs"]:
        more["input_op_ids"] = found["inputs"]
    sequence = None if found["seq"] is None else int(found["seq"])
    return _Operator(found["name"], sequence, found["sizes"], json.dumps(more))


def take(arena: Arena, rows: Array, duration: Nullable, thread: Array) -> Array:
    """Write operator rows to table `op`; returns which rows they were.

    `rows` are the begin records of the ranges; `duration` (ns) and `thread` belong to these rows.
    """
    distinct, places = np.unique(rows["name"], return_inverse=True)
    found = [parse(arena.local.text(int(number))) for number in distinct]
    chosen = np.array([one is not None for one in found], bool)[places]
    if not chosen.any():
        return chosen
    names = np.array([0 if one is None else arena.local.name_of(one.name) for one in found], np.int32)
    sequences = [None if one is None else one.sequence for one in found]
    numbers = np.array([0 if s is None else s for s in sequences], np.int64)
    without = np.array([s is None for s in sequences], bool)
    places = places[chosen]
    picked = rows[chosen]
    arena.emit(
        "op",
        len(picked),
        start=picked["time"].astype(np.int64),
        duration=duration.take(chosen),
        name_id=names[places],
        sequence=Nullable(numbers[places], without[places]),
        shapes=_texts([None if one is None else one.shapes for one in found], places),
        stack=zero_is_null(arena.local.stacks(picked["stack"])),
        attributes=_texts([None if one is None else one.attributes for one in found], places),
        thread=thread[chosen],
        process=arena.process_id(),
    )
    return chosen


def _texts(values: list[str | None], places: Array) -> pa.DictionaryArray:
    """One string per place, decoding each distinct string once."""
    return pa.array(values, pa.string()).take(pa.array(places)).dictionary_encode()
