"""Kinds of records that `--trace` has to ask for, of programs whose CUDA is a scripted stand-in (tests/standin)."""

from __future__ import annotations

from pathlib import Path

import pytest

import warpsight
from tests.integration import standin_programs
from tests.integration.standin_programs import Standin

STEPS = ("init", "numbered:4711", "device_graph", "numbered:18446744073709551615", "launch:plain", "sync")


@pytest.fixture(scope="module")
def standin(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Standin:
    return standin_programs.build(library, tmp_path_factory.mktemp("standin"))


def recorded(standin: Standin, path: Path, kinds: str, *options: str) -> warpsight.Trace:
    done = standin.run("record", "-o", str(path), "--trace", kinds, *options, "--", *standin.program(*STEPS))
    assert done.returncode == 0, done.stderr
    return warpsight.open(path)


def test_ids_that_the_program_pushed_join_its_launches_and_kernels(standin: Standin, tmp_path: Path) -> None:
    trace = recorded(standin, tmp_path / "t.warp", "kernel,external")
    for table in ("kernel", "launch"):
        rows = trace.sql(f"SELECT t.name, e.kind, e.external_id FROM {table} t JOIN external_id e USING (process, correlation) "
                         "ORDER BY t.start").fetchall()  # fmt: skip
        assert rows == [("numbered", "custom 1", 4711), ("numbered", "custom 1", 18446744073709551615)]
    assert not trace.sql("SELECT cause FROM loss WHERE severity <> 'note'").fetchall()


def test_graphs_that_the_device_launches_are_rows_without_a_call(standin: Standin, tmp_path: Path) -> None:
    trace = recorded(standin, tmp_path / "t.warp", "kernel,device_graph", "--graph", "graph")
    rows = trace.sql(
        "SELECT name, graph, stream, correlation, duration FROM kernel WHERE graph_level"
    ).fetchall()
    assert rows == [("graph launched on the device (tail)", 11, 7, None, 100)]
    assert not trace.sql("SELECT cause FROM loss WHERE severity <> 'note'").fetchall()


def test_they_are_said_to_be_missing_where_nodes_are_recorded(standin: Standin, tmp_path: Path) -> None:
    trace = recorded(standin, tmp_path / "t.warp", "kernel,device_graph")
    [(cause,)] = trace.sql("SELECT cause FROM loss WHERE severity <> 'note'").fetchall()
    assert cause.endswith("device_graph (needs --graph graph)") and trace.count("kernel") == 3


def test_neither_is_there_unless_asked_for(standin: Standin, tmp_path: Path) -> None:
    trace = recorded(standin, tmp_path / "t.warp", "kernel,memcpy")
    assert trace.count("external_id") == 0 and trace.count("kernel") == 3
