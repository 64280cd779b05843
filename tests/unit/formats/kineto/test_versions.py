"""The words that versions of Kineto since 2020 use, from its writer (`libkineto/src/output_json.cpp`)."""

import subprocess
import sys

import pytest

import warpsight as ws
from tests.unit.formats import kineto_file


def arrow(category, phase, number, at, pid=100, tid=100):
    return {
        "ph": phase, "id": number, "pid": pid, "tid": tid, "ts": at, "cat": category, "name": category, "bp": "e"
    }  # fmt: skip


def losses(trace):
    return trace.sql("SELECT count, cause FROM loss WHERE severity = 'lost'").fetchall()


@pytest.mark.parametrize("category", ["ac2g", "async_cpu_to_gpu", "async_gpu", "async"])
def test_arrows_from_calls_to_their_work_are_no_loss(tmp_path, category):
    events = [kineto_file.launch(10, 1), kineto_file.kernel(20, correlation=1),
              arrow(category, "s", 1, 10), arrow(category, "f", 1, 20, 0, 7),
              arrow(category, "f", 2, 30, 0, 7)]  # fmt: skip
    file = kineto_file.write(tmp_path / "trace.json", events)
    with ws.open(file) as trace:
        assert losses(trace) == [] and trace.tables.get("flow", 0) == 0
    command = [sys.executable, "-m", "warpsight.ui.cli", "import", str(file), "-o", str(tmp_path / "t.warp")]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("category", ["fwdbwd", "forward_backward", "fwd_bwd"])
def test_arrows_from_forward_to_backward_are_links(tmp_path, category):
    operators = [
        kineto_file.event("cpu_op", name, at, 5, 100, tid, **{"External id": i})
        for i, (name, at, tid) in enumerate((("aten::mul", 10, 100), ("MulBackward0", 30, 101)), 1)
    ]
    arrows = [arrow(category, "s", 5, 10), arrow(category, "f", 5, 30, 100, 101)]
    with ws.open(kineto_file.write(tmp_path / "trace.json", [*operators, *arrows])) as trace:
        assert losses(trace) == []
        assert trace.sql("SELECT from_correlation, to_correlation, kind FROM flow").fetchall() == [
            (1, 2, "forward-backward")
        ]


def test_arrows_drawn_over_a_trace_are_noted_and_make_it_no_less_complete(tmp_path):
    arrows = [arrow("dataflow", "s", 5, 10), arrow("dataflow", "f", 5, 30)]
    with ws.open(kineto_file.write(tmp_path / "trace.json", [kineto_file.kernel(20), *arrows])) as trace:
        said = "arrows of category 'dataflow', which torch.profiler does not write, are not kept"
        assert trace.sql("SELECT count, cause, severity FROM loss").fetchall() == [(2, said, "note")]
        assert "loss" not in [finding.severity for finding in trace.analyze().findings]


def test_categories_of_2021_are_the_tables_of_today(tmp_path):
    where = {"device": 0, "context": 1, "stream": 7}
    calls = [("cudaLaunchKernel", 10, 1), ("cudaMemcpyAsync", 20, 2), ("cudaMemsetAsync", 30, 3)]
    events = [
        kineto_file.event("Operator", "aten::mul", 5, 40, 100, 100, **{"External id": 9}),
        *(
            kineto_file.event(
                "Runtime",
                name,
                at,
                2,
                100,
                100,
                cbid=1,
                correlation=i,
                **{"external id": 9, "external ts": 5},
            )
            for name, at, i in calls
        ),
        kineto_file.event(
            "Kernel", "k", 50, 3, 0, 7, **where, correlation=1, grid=[1, 1, 1], block=[32, 1, 1]
        ),
        kineto_file.event(
            "Memcpy", "Memcpy HtoD (Pageable -> Device)", 60, 3, 0, 7, **where, correlation=2, bytes=64
        ),
        kineto_file.event("Memset", "Memset (Device)", 70, 3, 0, 7, **where, correlation=3, bytes=32),
    ]
    with ws.open(kineto_file.write(tmp_path / "trace.json", events)) as trace:
        tables = ("op", "launch", "api", "kernel", "memcpy", "memset")
        assert [trace.tables.get(name, 0) for name in tables] == [1, 1, 2, 1, 1, 1]
        assert trace.tables.get("marker", 0) == 0 and trace.tables.get("attribute", 0) == 0
