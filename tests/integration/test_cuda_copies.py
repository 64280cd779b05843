"""Addresses of copies and fills, and memory pools, of programs whose CUDA is a scripted stand-in (tests/standin)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import warpsight
from tests.integration import standin_programs
from tests.integration.standin_programs import Standin


@pytest.fixture(scope="module")
def standin(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Standin:
    return standin_programs.build(library, tmp_path_factory.mktemp("standin"))


def recorded(
    standin: Standin, path: Path, *steps: str, options: tuple[str, ...] = (), **more: str
) -> warpsight.Trace:
    done = standin.run("record", "-o", str(path), *options, "--", *standin.program(*steps), **more)
    assert done.returncode == 0, done.stderr
    return warpsight.open(path)


def hexed(rows: list[Any]) -> list[tuple[Any, ...]]:
    return [tuple(hex(v) if isinstance(v, int) else v for v in row) for row in rows]


COPIES = """SELECT a.function, m.source_address, m.destination_address FROM memcpy m JOIN api a USING (process, correlation)
    ORDER BY a.start"""


def test_copies_of_every_form_have_their_addresses(standin: Standin, tmp_path: Path) -> None:
    trace = recorded(standin, tmp_path / "t.warp", "init", "copies", "sync")
    assert hexed(trace.sql(COPIES).fetchall()) == [
        ("cudaMemcpyAsync_ptsz", "0x510", "0xd10"),
        ("cudaMemcpy2D", "0x520", "0xd20"),
        ("cudaMemcpyPeerAsync", "0x530", "0xd30"),
        ("cuMemcpyDtoHAsync_v2", "0x560", "0xd60"),
        ("cudaMemcpy3D", "0x1a10", None),
        ("cudaMemcpy3DPeer", "0x2000", "0x3000"),
        ("cuMemcpy2DAsync_v2_ptsz", "0x4100", "0x5000"),
        ("cuMemcpy3DPeer", "0x6000", None),
        ("cudaMemcpyToSymbol", "0x540", "0xd40"),
        ("cudaMemcpyFromSymbol", None, "0xd50"),
    ]
    fills = trace.sql("SELECT address FROM memset ORDER BY start").fetchall()
    assert hexed(fills) == [("0xe10",), ("0xe20",), ("0xe30",)]


def test_copies_and_fills_of_graph_nodes_have_the_addresses_of_their_launch(
    standin: Standin, tmp_path: Path
) -> None:
    trace = recorded(standin, tmp_path / "t.warp", "init", "graph_copies", "sync")
    rows = trace.sql("SELECT source_address, destination_address FROM memcpy ORDER BY start").fetchall()
    assert hexed(rows) == [("0x570", "0xd70"), ("0x580", "0xd80"), ("0x580", "0xd80"), (None, None)]
    fills = hexed(trace.sql("SELECT address FROM memset ORDER BY start").fetchall())
    assert fills == [("0xe70",), (None,), (None,), (None,)]
    # CUPTI 13.0 calls every node a kernel: the calls that made them tell
    kinds = trace.sql("SELECT graph_node, kind FROM graph_node ORDER BY time").fetchall()
    assert set(kinds) == {
        (100, "memcpy"),
        (300, "memcpy"),
        (101, "memset"),
        (301, "memset"),
        (302, "unknown"),
        (303, "memcpy"),
    }


def test_without_calls_there_are_no_addresses(standin: Standin, tmp_path: Path) -> None:
    trace = recorded(standin, tmp_path / "t.warp", "init", "copies", "sync", options=("--api", "launches"))
    assert trace.sql("SELECT count(*), count(source_address) FROM memcpy").fetchall() == [(10, 0)]


def test_pools_and_what_is_allocated_from_them(standin: Standin, tmp_path: Path) -> None:
    trace = recorded(standin, tmp_path / "t.warp", "init", "pools", "sync")
    rows = trace.sql("SELECT operation, address, bytes, pool, stream FROM memory ORDER BY time").fetchall()
    assert rows == [
        ("pool create", 0x900, None, 0x900, None),
        ("allocate", 0xABC100, 64, 0x900, 21),
        ("allocate", 0xABC200, 128, 0x800, 21),
        ("free", 0xABC100, None, 0x900, 22),
        ("free", 0xABC200, None, 0x800, None),
        ("allocate", 0xABC300, 256, 0x900, 21),
        ("allocate", 0xABC400, 512, 0xA00, 7),
        ("pool trim", 0x900, None, 0x900, None),
        ("pool destroy", 0x900, None, 0x900, None),
    ]
    sizes = trace.sql(
        "SELECT pool_size, pool_used FROM memory WHERE operation LIKE 'pool%' ORDER BY time"
    ).fetchall()
    assert sizes == [(1 << 20, 192), (1 << 20, 192), (None, None)]
    assert trace.sql(
        "SELECT count(pool_used) FROM memory WHERE operation IN ('allocate', 'free')"
    ).fetchall() == [(0,)]
    assert trace.sql("SELECT count(*) FROM memory WHERE device = 0").fetchall() == [(9,)]


def test_our_own_questions_to_the_driver_are_no_calls_of_the_program(
    standin: Standin, tmp_path: Path
) -> None:
    trace = recorded(standin, tmp_path / "t.warp", "init", "pools", "sync", options=("--api", "cu*"))
    assert trace.sql("SELECT count(*) FROM api WHERE function = 'cuDeviceGetMemPool'").fetchall() == [(0,)]
