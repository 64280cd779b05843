"""A recording without device work: the verbs that draw say so, and what there is to see instead."""

import json

import pytest

from tests.unit.analysis.conftest import EPOCH
from warpsight.model import TraceWriter
from warpsight.ui.cli import parser


@pytest.fixture
def host(tmp_path):
    """Three samples and a range of one thread; nothing ran on a device."""
    path = tmp_path / "host.warp"
    with TraceWriter(path) as writer:
        stack = writer.stack(
            [("main", "run.py", 3, None, "python", None), ("load", "run.py", 9, None, "python", None)]
        )
        name = writer.name("epoch")
        common = {"thread": 7, "process": 0}
        writer.add(
            "process",
            [{"process": 0, "pid": 7, "host": "here", "command": "run", "executable": "run", "start": EPOCH}],
        )
        writer.add("marker", [{"start": EPOCH, "duration": 2 * 10**8, "kind": "push/pop", "open": False, "name_id": name,
                               "source": "nvtx", **common}])  # fmt: skip
        for state in "RSR":
            writer.add(
                "sample", [{"time": EPOCH + 10**8, "stack": stack, "state": state, "gil": False, **common}]
            )
    return path


def run(capfd, *arguments):
    code = parser.run([str(a) for a in arguments])
    return code, *capfd.readouterr()


def test_a_flame_graph_of_nothing_is_refused_and_the_samples_named(host, tmp_path, capfd):
    out = tmp_path / "a.html"
    code, _, err = run(capfd, "flame", host, "-o", out)
    assert code == 1 and not out.exists()
    assert "no device work" in err and "--weight samples draws its 3 samples" in err
    assert err.count("\n") == 1
    assert run(capfd, "flame", host, "-w", "samples", "--from", "10s", "-o", out)[0] == 2


def test_samples_are_drawn_in_every_form(host, tmp_path, capfd):
    code, folded, err = run(capfd, "flame", host, "--weight", "samples", "-o", "-")
    assert code == 0 and "3 samples measured, 3 samples in the graph" in err
    stack = "process 7;thread 7;main (run.py:3);load (run.py:9);epoch"
    assert sorted(folded.splitlines()) == [f"{stack};running 2", f"{stack};waiting 1"]
    only = run(capfd, "flame", host, "-w", "samples", "--by", "process", "--name", "running", "-o", "-")
    assert only[1] == "process 7;main (run.py:3);load (run.py:9);epoch;running 2\n"
    for form in ("html", "svg", "speedscope"):
        out = tmp_path / f"a.{form}"
        assert run(capfd, "flame", host, "-w", "samples", "--to", form, "-o", out)[0] == 0
        assert "load (run.py:9)" in out.read_text()
    written = run(capfd, "flame", host, "-w", "samples", "-o", tmp_path / "b.html", "--json")[1]
    assert json.loads(written)["accounts"][0]["shown"] == 3


def test_a_timeline_of_nothing_says_what_else_there_is(host, capfd):
    code, out, _ = run(capfd, "view", host, "--plain")
    assert code == 0 and "no device work" in out and "one character" not in out
    assert "1 events of the host: warpsight view --list" in out
    assert "3 samples of the host: warpsight flame --weight samples" in out


def test_times_begin_with_the_samples_where_there_is_nothing_else(tmp_path, capfd):
    path = tmp_path / "samples.warp"
    with TraceWriter(path) as writer:
        stack = writer.stack([("main", "run.py", 3, None, "python", None)])
        rows = [
            {
                "time": EPOCH + second * 10**9,
                "stack": stack,
                "state": "R",
                "gil": False,
                "thread": 7,
                "process": 0,
            }
            for second in range(5)
        ]
        writer.add("sample", rows)
    code, folded, err = run(
        capfd, "flame", path, "--weight", "samples", "--from", "2s", "--to", "folded", "-o", "-"
    )
    assert code == 0, err
    assert sum(int(line.rpartition(" ")[2]) for line in folded.splitlines()) == 3
