"""Addresses of copies and fills: by call, by graph node, across segments and processes that convert on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.capture.recordings import Recording
from warpsight.analysis.stats.redundant_copies import redundant
from warpsight.capture.converter import Converter
from warpsight.capture.rows.addresses import Addresses


def calls(first: int, count: int, **other: Any) -> dict[str, Any]:
    """Copies of 4 KiB from 0x1000 to 0x2000."""
    ids = range(first, first + count)
    return {
        "start": [1000 * i for i in ids],
        "duration": 100,
        "correlation": list(ids),
        "stack": 2,
        "function": 31,
        "domain": 1,
        "object": 0x2000,
        "bytes": 4096,
        "source": 0x1000,
        "destination": 0x2000,
        **other,
    }


def copies(first: int, count: int, **other: Any) -> dict[str, Any]:
    """The device's rows of those calls."""
    ids = range(first, first + count)
    return {
        "start": [1000 * i + 200 for i in ids],
        "end": [1000 * i + 700 for i in ids],
        "bytes": 4096,
        "correlation": list(ids),
        "context": 1,
        "stream": 7,
        "kind": 8,
        "source_kind": 3,
        "destination_kind": 3,
        "source_device": 65535,
        "destination_device": 65535,
        **other,
    }


ADDRESSES = "SELECT source_address, destination_address FROM memcpy ORDER BY start"


def test_a_copy_has_the_addresses_of_its_call_and_the_call_is_in_table_api(tmp_path: Path) -> None:
    recording = Recording(tmp_path)
    with recording.file(recording.process(1)) as out:
        out.write(
            "CopyCall",
            calls(1, 3, source=[0x1000, 0, 0xFFFF_FFFF_FFFF_F000], destination=[0x2000, 0x3000, 0]),
        )
        out.write("Memcpy", copies(1, 3))
    trace = recording.finish()
    assert trace.sql(ADDRESSES).fetchall() == [
        (0x1000, 0x2000),
        (None, 0x3000),
        (0xFFFF_FFFF_FFFF_F000, None),
    ]
    assert trace.sql("SELECT count(*), count(stack), min(bytes) FROM api").fetchall() == [(3, 3, 4096)]
    assert trace.sql("SELECT count(stack) FROM memcpy").fetchall() == [(3,)]


def test_a_fill_has_its_address(tmp_path: Path) -> None:
    recording = Recording(tmp_path)
    with recording.file(recording.process(1)) as out:
        out.write("CopyCall", calls(1, 2, source=0, destination=[0x5000, 0x6000]))
        out.write(
            "Memset",
            {"start": [1100, 2100], "end": [1200, 2200], "bytes": 64, "correlation": [1, 2], "context": 1},
        )
    assert recording.finish().sql("SELECT address FROM memset ORDER BY start").fetchall() == [
        (0x5000,),
        (0x6000,),
    ]


def test_a_copy_that_arrives_segments_later_still_has_its_addresses(tmp_path: Path) -> None:
    """The converter is begun anew in between, as after a crash."""
    recording = Recording(tmp_path)
    arena = recording.process(1)
    with recording.file(arena) as out:
        out.write("CopyCall", calls(1, 2))
    first = Converter(tmp_path)
    first.convert(enough_bytes=0)
    first.close()
    for late in (2, 1):
        with recording.file(arena) as out:
            out.write("Memcpy", copies(late, 1))
    assert recording.finish().sql(ADDRESSES).fetchall() == [(0x1000, 0x2000)] * 2


def test_sessions_keep_their_addresses_apart(tmp_path: Path) -> None:
    recording = Recording(tmp_path)
    arena = recording.process(1)
    with recording.file(arena) as out:
        out.write("CopyCall", calls(1, 1), session=1)
        out.write("CopyCall", calls(1, 1, source=0x7000), session=2)
        out.write("Memcpy", copies(1, 1), session=1)
        out.write("Memcpy", copies(1, 1, start=[9000], end=[9100]), session=2)
    assert recording.finish().sql(ADDRESSES).fetchall() == [(0x1000, 0x2000), (0x7000, 0x2000)]


def test_a_graph_node_copies_what_it_was_told_before_the_launch(tmp_path: Path) -> None:
    recording = Recording(tmp_path)
    arena = recording.process(1)
    with recording.file(arena) as out:
        out.write(
            "NodeAddress",
            {
                "node": [200, 200, 200],
                "source": [1, 3, 0],
                "destination": [2, 4, 0],
                "time": [500, 1500, 3500],
            },
        )
        launched = {"start": [1000, 2000, 3000, 4000], "duration": 9, "correlation": [1, 2, 3, 4], "flags": 1}
        out.write("Api", {**launched, "function": 311, "domain": 1})
        out.write("Memcpy", copies(1, 4, graph_node=[200, 200, 100, 200], graph=9))
    assert recording.finish().sql(ADDRESSES).fetchall() == [(1, 2), (3, 4), (None, None), (None, None)]


@pytest.mark.parametrize(("source", "saved"), [(0x1000, 2), ([0x1000, 0x9000, 0xA000], 0)])
def test_redundant_copies_are_found_in_a_recording(tmp_path: Path, source: Any, saved: int) -> None:
    recording = Recording(tmp_path)
    with recording.file(recording.process(1)) as out:
        out.write("CopyCall", calls(1, 3, source=source))
        out.write("Memcpy", copies(1, 3))
    found, notes = redundant(recording.finish())
    assert sum(found.column("count").to_pylist()) == saved
    assert not notes


def test_every_node_has_its_own_addresses_at_its_own_time() -> None:
    """Against a search through every row."""
    random = np.random.default_rng(3)
    node, time = (
        random.integers(1, 50, 400).astype(np.uint64),
        random.permutation(4000)[:400].astype(np.int64),
    )
    source, destination = random.integers(0, 1 << 48, (2, 400)).astype(np.uint64)
    addresses = Addresses()
    addresses.put_nodes(node[:150], time[:150], source[:150], destination[:150])
    addresses.put_nodes(node[150:], time[150:], source[150:], destination[150:])
    asked, called = random.integers(1, 60, 1000).astype(np.uint64), random.integers(-5, 4100, 1000)
    found = addresses.find(np.zeros(1000, np.int64), asked, called)
    for i in range(1000):
        before = np.flatnonzero((node == asked[i]) & (time <= called[i]))
        last = before[np.argmax(time[before])] if len(before) else None
        expected = (0, 0) if last is None else (int(source[last]), int(destination[last]))
        assert (int(found[0][i]), int(found[1][i])) == expected
