"""Arrow's functions without `pyarrow.compute`: the same answers, and a small file is read without that module."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from warpsight.model import arrow

ROOT = Path(__file__).parents[3]
NUMBERS = pa.chunked_array([[3, None], [1, 3]])
TEXTS = pa.array(["b", None, "a", "b"])
MASK = pa.array([True, False, None, True])


def test_answers_are_those_of_arrow() -> None:
    assert arrow.take(TEXTS, pa.array([2, 0, 0])).equals(TEXTS.take(pa.array([2, 0, 0])))
    assert arrow.keep(NUMBERS, MASK).equals(NUMBERS.filter(MASK))
    assert arrow.encoded(TEXTS).equals(TEXTS.dictionary_encode())
    assert arrow.distinct(NUMBERS).equals(NUMBERS.unique())
    assert arrow.fill_null(NUMBERS, -1).equals(NUMBERS.fill_null(-1))
    assert arrow.is_null(NUMBERS).equals(pc.is_null(NUMBERS)) and arrow.is_valid(TEXTS).equals(
        pc.is_valid(TEXTS)
    )
    assert arrow.equal(NUMBERS, 3).equals(pc.equal(NUMBERS, 3)) and arrow.less(NUMBERS, 3).equals(
        pc.less(NUMBERS, 3)
    )
    assert arrow.add(NUMBERS, NUMBERS).equals(pc.add(NUMBERS, NUMBERS))
    assert arrow.invert(MASK).equals(pc.invert(MASK))
    assert arrow.if_else(MASK, TEXTS, "x").equals(pc.if_else(MASK, TEXTS, "x"))
    assert [f(NUMBERS).as_py() for f in (arrow.least, arrow.most, arrow.total)] == [1, 3, 7]


def test_texts_with_a_word() -> None:
    assert arrow.matched(pa.array(["my Key", None, "other"]), "key|tok").to_pylist() == [True, None, False]


def test_a_filled_column_keeps_its_type() -> None:
    assert arrow.fill_null(pa.array([1, None], pa.int16()), 0).equals(pa.array([1, 0], pa.int16()))


def test_a_cast_is_safe() -> None:
    assert arrow.cast(NUMBERS, pa.int8()).type == pa.int8()
    assert arrow.cast(TEXTS, pa.string()) is TEXTS
    with pytest.raises(pa.ArrowInvalid):
        arrow.cast(pa.array([300]), pa.int8())


def test_a_table_in_order() -> None:
    table = pa.table({"number": NUMBERS, "text": TEXTS})
    assert arrow.in_order(table, "number").equals(table.sort_by("number"))


@pytest.mark.parametrize("name", ["recorded/kineto_h200.json.gz", "planted_slow_step.warp.zip"])
def test_analyze_does_without_the_module(name: str) -> None:
    program = f"""
import sys, warpsight
warpsight.open({str(ROOT / "tests" / "golden" / name)!r}).analyze()
assert "pyarrow.compute" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
