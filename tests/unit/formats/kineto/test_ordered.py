"""Values by line and key are the same whether they wait in memory or in sorted runs of a file."""

import random
from contextlib import closing

import numpy as np
import pytest

from warpsight.formats.kineto import ordered, reader
from warpsight.formats.kineto.ordered import Ordered
from warpsight.formats.registry import Options
from warpsight.formats.source import Source
from warpsight.formats.target import Target
from warpsight.model.storage.writer import TraceWriter


def small(monkeypatch):
    for name, size in (("RUN", 64), ("BLOCK", 4), ("RANGE", 16)):
        monkeypatch.setattr(ordered, name, size)


def records(seed):
    """Line, key, order and value of records with many that are equal, and in about half of the cases in no order."""
    random.seed(seed)
    lines, orders = (0, 7, 1 << 40), (-3, -1, 0, 2)
    made = [
        (random.choice(lines), random.randrange(-50, 400), random.choice(orders), n + 1) for n in range(700)
    ]
    return made if seed % 2 else sorted(made, key=lambda record: record[1])


def counting(listed):
    """Of records with one line and key: those that start before those that end, and so on."""
    best = {}
    for count, (line, key, order, value) in enumerate(listed):
        rank = (order < 0, order, count if order < 0 else -count)
        if (line, key) not in best or rank > best[line, key][0]:
            best[line, key] = rank, value
    return {place: value for place, (_, value) in best.items()}


@pytest.mark.parametrize("in_file", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_answers_are_those_of_a_list(monkeypatch, in_file, seed):
    if in_file:
        small(monkeypatch)
    listed = records(seed)
    best = counting(listed)
    asked = [(line, key) for line in (0, 7, 9, 1 << 40) for key in range(-60, 410)]
    random.shuffle(asked)
    lines, keys = (np.array(column, np.int64) for column in zip(*asked, strict=True))
    with closing(Ordered()) as known:
        for begin in range(0, len(listed), 50):
            line, key, order, value = (
                np.array(c, np.int64) for c in zip(*listed[begin : begin + 50], strict=True)
            )
            known.add(line, key, value, order)
        assert known.find(lines, keys).tolist() == [best.get(place, 0) for place in asked]
        by_line = {line: sorted(k for at, k in best if at == line) for line in (0, 7, 9, 1 << 40)}
        expected = []
        for line, key in asked:
            earlier = [k for k in by_line[line] if k <= key]
            expected.append(best[line, earlier[-1]] if earlier else 0)
        assert known.before(lines, keys).tolist() == expected


def test_nothing_known_answers_nothing():
    with closing(Ordered()) as known:
        assert not known
        assert known.find(np.zeros(3, np.int64), np.arange(3)).tolist() == [0, 0, 0]
        assert known.before(np.zeros(3, np.int64), np.arange(3)).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("name", "table", "column"),
    [("kineto_h200", "launch", "stack"), ("kineto_h200x2_rank0", "flow", "to_correlation")],
)
def test_a_file_reads_the_same_through_sorted_runs(tmp_path, monkeypatch, name, table, column):
    path = f"tests/golden/recorded/{name}.json.gz"

    def tables(name):
        with TraceWriter(tmp_path / name) as writer, Target(writer) as target, Source(path) as source:
            reader.read(source, target, Options({}))
            target.close()
        import warpsight as ws

        with ws.open(tmp_path / name) as trace:
            return {
                t: trace.arrow(t).to_pylist() for t in ("op", "launch", "api", "kernel", "marker", "flow")
            }

    whole = tables("whole.warp")
    assert any(row[column] for row in whole[table])
    small(monkeypatch)
    assert tables("runs.warp") == whole
