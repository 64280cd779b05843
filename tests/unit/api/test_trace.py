"""A trace's methods answer what the verbs print, from one number or several, from texts or seconds."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import warpsight as ws
from warpsight.ui.cli import app, output


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Eight kernels of two names on two streams, launched by main."""
    made = tmp_path / "train.warp"
    with ws.TraceWriter(made) as writer:
        writer.add(
            "process", [{"process": 0, "pid": 7, "host": "h", "command": "p", "executable": "p", "start": 0}]
        )
        writer.add("device", [{"device": 0, "index": 0, "uuid": "u", "name": "g", "vendor": "NVIDIA", "platform": "cuda",
                               "host": "h"}])  # fmt: skip
        numbers = range(1, 9)
        names, stack = [writer.name("gemm"), writer.name("add")], writer.stack(["main"])
        place = {"device": 0, "context": 1, "process": 0, "graph_level": False}
        writer.add("kernel", [{"start": 1_000 * n, "duration": 100 * n, "name_id": names[n % 2], "correlation": n,
                               "stream": n % 2, "stack": stack, **place} for n in numbers])  # fmt: skip
        writer.add("launch", [{"start": 1_000 * n - 500, "duration": 90, "function": "cudaLaunchKernel", "name_id": names[n % 2],
                               "thread": 7, "process": 0, "correlation": n, "stack": stack, "captured": False}
                              for n in numbers])  # fmt: skip
    return made


@pytest.fixture
def trace(path: Path) -> Iterator[ws.Trace]:
    with ws.open(path) as opened:
        yield opened


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert app.main([*arguments]) == 0
    return json.loads(capsys.readouterr().out)


def plain(value: Any) -> Any:
    return json.loads(output.json_text(value))


def test_sums_are_those_of_the_verb(trace: ws.Trace, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = printed(capsys, "stats", str(path), "kernels", "--stream", "1", "--from", "2us", "--json")
    found = plain(trace.stats("kernels", stream=1, begin="2us").to_json())
    assert found["tables"] == told["tables"] and found["tables"]["kernels"]["rows"][0]["name"] == "add"
    assert trace.stats(stream=[1], begin=2e-6).to_json() == trace.stats(stream=(1,), begin="2000ns").to_json()
    assert len(trace.stats(top=1).tables["kernels"]) == 1 and len(trace.stats(top=0).tables["kernels"]) == 2


def test_contents_and_analyses_are_those_of_the_verbs(
    trace: ws.Trace, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plain(trace.info()) == printed(capsys, "info", str(path), "--json")
    told = printed(capsys, "analyze", str(path), "utilization", "gaps", "--json")["analyses"]
    found = trace.analyze("utilization", "gaps")
    assert {
        name: plain(result.to_json()) for name, result in found.results.items()
    } == told and found.verdict is None
    judged = trace.analyze()
    assert judged.verdict is not None and judged.findings == judged.verdict.findings
    assert plain(judged.verdict.to_json()) == printed(capsys, "analyze", str(path), "--json")["verdict"]
    assert set(trace.analyze(everything=True).results) == set(trace.analyses()) - {"findings"}


def test_queries_and_events_are_those_of_the_verbs(
    trace: ws.Trace, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = printed(
        capsys, "query", str(path), "--filter", "stream=0", "--fields", "start,name", "--head", "3", "--json"
    )
    for fields in ("start,name", ["start", "name"]):
        found = trace.query(filters="stream=0", fields=fields, head=3)
        assert found.column_names == told["columns"] and plain(found.to_pylist()) == told["rows"]
    sql = "SELECT count(*) AS n FROM kernel"
    assert (
        trace.query(sql).to_pylist()
        == printed(capsys, "query", str(path), sql, "--json")["rows"]
        == [{"n": 8}]
    )
    told = printed(capsys, "view", str(path), "--list", "--kind", "kernel", "-n", "2", "--json")
    assert plain(trace.events(kind="kernel", count=2).to_json()["tables"]) == told["tables"]
    assert len(trace.events(kind="kernel").tables["events"]) == 8


def test_differences_are_those_of_the_verb(
    trace: ws.Trace, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = printed(capsys, "diff", str(path), str(path), "--by", "kernel", "--json")
    found = trace.diff(path, by="kernel")
    assert (found.headline, found.verdict) == (told["headline"], told["verdict"])
    assert plain(found.result.to_json()["tables"]) == told["tables"]


def test_files_and_streams_get_what_the_verbs_write(trace: ws.Trace, path: Path, tmp_path: Path) -> None:
    assert (
        app.main(
            ["export", str(path), "--to", "chrome", "-o", str(tmp_path / "verb.json"), "--kind", "kernel"]
        )
        == 0
    )
    stream = io.BytesIO()
    written = trace.export("chrome", stream, kind="kernel")
    assert stream.getvalue() == (tmp_path / "verb.json").read_bytes() and written.path is None
    assert trace.export("chrome", tmp_path / "own.json", kind=["kernel"]).bytes == len(stream.getvalue())
    assert app.main(["flame", str(path), "-o", str(tmp_path / "verb.folded")]) == 0
    folded = io.BytesIO()
    graph = trace.flame(to="folded", out=folded)
    assert (
        folded.getvalue() == (tmp_path / "verb.folded").read_bytes()
        and b"main" in folded.getvalue()
        and len(graph) > 3
    )
    page = trace.report(tmp_path / "page.html")
    assert page.path == tmp_path / "page.html" and page.bytes == page.path.stat().st_size > 10_000
    assert oct(page.path.stat().st_mode & 0o777) == "0o600"
    with pytest.raises(ws.WarpsightError, match="exists already"):
        trace.report(tmp_path / "page.html")
    packed = trace.pack(tmp_path / "p.warp.zip")
    with ws.open(packed) as again:
        assert isinstance(again, ws.Trace) and again.count("kernel") == 8


def test_names_of_new_files_are_those_of_the_verbs(
    trace: ws.Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    trace.report()
    trace.export("folded")
    assert trace.pack() == tmp_path / "train.warp.zip"
    assert sorted(os.listdir()) == ["train.folded", "train.report.html"]


@pytest.mark.parametrize("wrong", [
    {"begin": "soon"}, {"begin": -1}, {"end": float("nan")}, {"begin": True}, {"top": -1}, {"by": "colour"}, {"subject": "x"},
])  # fmt: skip
def test_wrong_options_are_named(trace: ws.Trace, wrong: dict[str, Any]) -> None:
    with pytest.raises(ws.UsageError):
        trace.stats(**wrong)


def test_a_closed_trace_says_so(path: Path) -> None:
    with ws.open(path) as trace:
        pass
    with pytest.raises(ws.TraceError, match="is closed"):
        trace.stats()


@pytest.mark.parametrize(
    ("form", "name"),
    [("perfetto", "run.trace"), ("perfetto", "run"), ("folded", "run.txt"), ("kineto", "run.json"), ("csv", "run.csv.zip"),
     ("perfetto", "run.pftrace.zst")],
)  # fmt: skip
def test_names_that_say_no_other_format_are_taken(
    trace: ws.Trace, tmp_path: Path, form: str, name: str
) -> None:
    assert trace.export(form, tmp_path / name).path == tmp_path / name


@pytest.mark.parametrize(
    ("form", "name"), [("csv", "run.parquet"), ("perfetto", "run.json"), ("chrome", "run.pftrace.zst"), ("csv", "run.csv.gz")]
)  # fmt: skip
def test_names_that_say_another_format_are_refused(
    trace: ws.Trace, tmp_path: Path, form: str, name: str
) -> None:
    with pytest.raises(ws.UsageError, match=name):
        trace.export(form, tmp_path / name)
    assert not (tmp_path / name).exists()
