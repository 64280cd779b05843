"""Tables as bytes and back."""

import numpy as np
import pyarrow as pa
import pytest

from warpsight.formats.enclosed import sections
from warpsight.model.schema import TABLES
from warpsight.model.storage.store import conform

EDGES = [0, -1, 1, (1 << 63) - 1, -(1 << 63), 7, None, 1 << 40]


def again(table, data):
    ((name, found),) = sections.decode(sections.encode(table, data))
    assert name == table
    return found


def test_every_type_keeps_its_values_and_nulls():
    rows = len(EDGES)
    kernel = pa.table({
        "start": pa.array(EDGES, pa.int64()), "duration": pa.array(EDGES[::-1], pa.int64()), "graph_level": [True, False] * 4,
        "device": pa.array([None, 32767, -1, 0] * 2, pa.int16()),
    })  # fmt: skip
    assert again("kernel", kernel).equals(kernel)
    memory = pa.table({
        "address": pa.array([0, (1 << 64) - 1, 1 << 63, 5] * 2, pa.uint64()),
        "allocator": pa.array(["CUDA", None, "", "naïve"] * 2), "kind": pa.array([None] * rows, pa.string()),
    })  # fmt: skip
    assert again("memory", memory).equals(memory)
    counter = pa.table({"value": pa.array([0.0, -0.0, np.inf, -np.inf, 1e-300, 3.5, 1.0, 2.0])})
    assert again("counter", counter).equals(counter)
    odd = pa.table({"payload": pa.array([np.nan, None, 1.0])})
    assert repr(again("marker", odd)["payload"].to_pylist()) == "[nan, None, 1.0]"


@pytest.mark.parametrize("table", TABLES)
def test_random_rows_of_every_table_come_back(table):
    rng = np.random.default_rng(len(table))
    kinds = {"string": lambda: rng.choice(["a", "b", "ccc"], 500), "bool": lambda: rng.random(500) < 0.5,
             "float64": lambda: rng.normal(size=500)}  # fmt: skip

    def column(one):
        values = kinds.get(one.type, lambda: rng.integers(0, 100, 500))()
        null = rng.random(500) < 0.2 if one.nullable else None
        return pa.array(values, TABLES[table].schema().field(one.name).type, mask=null)

    data = pa.table({one.name: column(one) for one in TABLES[table].columns})
    data = conform(TABLES[table], data).replace_schema_metadata(None)
    found = conform(TABLES[table], again(table, data))
    assert found.equals(data)
    empty = data.slice(0, 0)
    assert len(again(table, empty)) == 0


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_what_ends_early_is_an_error(cut):
    data = pa.table({"time": [1, 2, 3], "name": ["a", "b", None]})
    whole = sections.encode("counter", data)
    with pytest.raises((ValueError, sections.msgspec.MsgspecError)):
        list(sections.decode(whole[: len(whole) - cut]))


def test_columns_that_the_schema_lacks_are_an_error():
    with pytest.raises(ValueError, match=r"kernel\.nothing"):
        list(sections.decode(sections.encode("kernel", pa.table({"nothing": [1]}))))
