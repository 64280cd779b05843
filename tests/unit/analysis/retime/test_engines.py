"""Copies of one direction of a device wait for each other, unless the recording shows two side by side."""

from __future__ import annotations

import itertools
import random

import pytest

from tests.unit.analysis.conftest import EPOCH, copy, launch
from warpsight.analysis.path import dependencies
from warpsight.analysis.retime.building import build as build_program


def linked(build, copies):
    """Begins of the copies that an engine runs one after another, and the lag between them."""
    rows = [
        copy(EPOCH + start, duration, kind=kind, device=device, stream=stream, context=1 + device,
             correlation=number, source_kind=source)
        for number, (device, stream, kind, start, duration, source) in enumerate(copies, 1)
    ]  # fmt: skip
    calls = [launch(row["start"] - 9_000, 500, row["correlation"]) for row in rows]
    program = build_program(build(memcpy=rows, launch=calls))
    links, graph = program.links, program.graph
    begin = [int(time) - EPOCH for time in graph.start]
    return sorted(
        (begin[source - program.base], begin[target - program.base], lag)
        for source, target, lag, kind in zip(*(c.tolist() for c in (links.source, links.target, links.lag, links.kind)),
                                             strict=True)
        if kind == dependencies.STREAM
    )  # fmt: skip


def one_by_one(copies):
    """The same, copy by copy."""
    out = []
    for _, same in itertools.groupby(
        sorted(copies, key=lambda c: (c[0], c[2], c[3])), key=lambda c: (c[0], c[2])
    ):
        pairs = list(itertools.pairwise(same))
        if pairs and pairs[0][0][2] != "DtoD" and all(one[3] + one[4] <= two[3] for one, two in pairs):
            out += [
                (one[3], two[3], min(two[3] - one[3] - one[4], 1_000))
                for one, two in pairs
                if one[1] != two[1]
            ]
    return sorted(out)


@pytest.mark.parametrize(
    ("begin", "lag"), [(100, 0), (101, 1), (1_099, 999), (1_100, 1_000), (9_000, 1_000), (99, None)]
)
def test_the_second_begins_when_the_engine_is_free_and_at_most_a_microsecond_later(build, begin, lag):
    copies = [(0, 7, "HtoD", 0, 100, "pinned"), (0, 8, "HtoD", begin, 50, "pageable")]
    assert linked(build, copies) == ([] if lag is None else [(0, begin, lag)])


@pytest.mark.parametrize("seed", range(12))
def test_links_are_those_of_every_device_and_direction(build, seed):
    draw = random.Random(seed)
    copies, start = [], 0
    for _ in range(14):
        start += draw.choice((40, 900, 2_000))
        duration = draw.choice((0, 40) if draw.random() < 0.9 else (950,))
        where = (draw.choice((0, 1)), draw.choice((7, 8)), draw.choice(("HtoD", "DtoH", "DtoD")))
        copies.append((*where, start, duration, draw.choice(("pinned", "pageable"))))
    assert linked(build, copies) == one_by_one(copies)
