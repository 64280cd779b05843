"""Sixty kinds of secrets in the command line, environment, folder, ranges, events and kernels of a real recording: no output
shows any, whatever is requested, and texts that only look a little like secrets stay."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.integration.opencl_recording import require_pocl
from tests.integration.recorded import ROOT, environment, launcher
from tests.integration.secret_canaries import CANARIES, IN_NAMES, INNOCENT
from warpsight.formats.registry import EXPORTERS
from warpsight.ui.cli import app
from warpsight.ui.mcp.places import Places
from warpsight.ui.mcp.tools import Tools

PROGRAM = """
import json, threading
import pyopencl as cl
import warpsight as ws
from tests.integration.secret_canaries import CANARIES, IN_NAMES, INNOCENT

context = cl.Context(dev_type=cl.device_type.ALL)
names = ["k_" + one.secret.replace("-", "_") for one in IN_NAMES]
source = "".join(f"kernel void {name}(global float *x) {{ x[get_global_id(0)] += 1; }}" for name in names)
program = cl.Program(context, source).build(options="-DNOTE=ghp_x")
queue = cl.CommandQueue(context)
buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4096)
for name in names:
    getattr(program, name)(queue, (64,), None, buffer)
queue.finish()
for one in CANARIES:
    with ws.annotate(one.text):
        ws.emit("event " + one.text, kind="test", note=one.text, nested={"words": list(one.words)})
    ws.counter("counter " + one.text, 1.0)
thread = threading.Thread(target=ws.mark, args=(CANARIES[0].text,), name="--password=" + CANARIES[0].secret)
thread.start(); thread.join()
for text in INNOCENT:
    ws.mark(text)
"""
#: Verbs that answer in text.
ASKED = (
    ("info",), ("info", "--json"), ("stats",), ("stats", "@", "events"), ("stats", "@", "nvtx", "--json"),
    ("stats", "@", "counters"),
    ("stats", "@", "--by", "stack"), ("analyze",), ("analyze", "--json"), ("view", "@", "--list", "-n", "1000"),
    ("view", "@", "--plain"),
    ("query", "@", "SELECT * FROM process", "--format", "json"), ("query", "@", "SELECT * FROM user_event", "--all"),
    ("query", "@", "SELECT * FROM marker", "--all"), ("query", "@", "SELECT * FROM kernel", "--format", "csv"),
    ("query", "@", "SELECT * FROM name", "--format", "ndjson"), ("query", "@", "--table", "thread"), ("diff", "@", "@"),
    ("query", "@", "SELECT * FROM attribute", "--all"), ("query", "@", "SELECT * FROM loss", "--all"),
)  # fmt: skip
EVERYTHING = ("--include-paths", "--include-arguments", "--include-environment")


@pytest.fixture(scope="module")
def recorded(library: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The trace, and what recording it printed."""
    require_pocl()
    pytest.importorskip("pyopencl")
    root = tmp_path_factory.mktemp("secrets")
    place = root / f"token={CANARIES[1].secret}"
    place.mkdir()
    (place / "train.py").write_text(PROGRAM)
    words = [word for one in CANARIES for word in one.words]
    planted = {f"CUDA_CANARY_{i}": one.text.replace("\n", " ") for i, one in enumerate(CANARIES)}
    paths = f"{ROOT}{os.pathsep}{Path(__file__).parents[2]}"
    done = subprocess.run(
        launcher("-o", str(root / "run.warp"), "--", sys.executable, "train.py", *words),
        cwd=place, env=environment(library, **planted) | {"PYTHONPATH": paths}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return root / "run.warp", done.stdout + done.stderr


def shown(text: str) -> list[str]:
    """Kinds of the secrets that a text holds; as identifiers too."""
    return [one.kind for one in CANARIES if one.secret in text or one.secret.replace("-", "_") in text]


def contents(path: Path) -> str:
    """Everything in a file: what is packed, unpacked; Parquet and Arrow as text."""
    if path.is_dir():
        return "\n".join(contents(file) for file in sorted(path.rglob("*")) if file.is_file())
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            folder = path.with_name(path.name + ".unpacked")
            archive.extractall(folder)
        return contents(folder)
    if path.suffix == ".parquet":
        return str(pq.read_table(path, partitioning=None).to_pylist())
    data = path.read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    return data.decode(errors="replace") + data.decode("utf-16-le", errors="replace")


def ask(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    code = app.main(list(words))
    out, err = capfd.readouterr()
    assert code in (0, 4, 5), err
    return out + err


def test_the_trace_itself_holds_none(recorded: tuple[Path, str]) -> None:
    path, printed = recorded
    assert shown(printed) == []
    assert shown(contents(path)) == []
    manifest = json.loads((path / "manifest.json").read_text())
    assert "train.py" in manifest["processes"][0]["command"]


def test_what_was_planted_was_recorded(recorded: tuple[Path, str], capfd: pytest.CaptureFixture[str]) -> None:
    path, _ = recorded
    counts = "SELECT (SELECT count(*) FROM user_event), (SELECT count(*) FROM kernel), (SELECT count(*) FROM counter)"
    rows = json.loads(ask(capfd, "query", str(path), counts, "--format", "json"))["rows"][0]
    assert (
        rows[0] >= len(CANARIES) and rows[1] == len(IN_NAMES)
        if isinstance(rows, list)
        else all(rows.values())
    )
    told = contents(path)
    assert all(text in told for text in INNOCENT)
    assert "DB_PASS=***" in told and "https://***@host/x" in told and "--api-key ***" in told


@pytest.mark.parametrize("words", ASKED, ids=" ".join)
def test_no_verb_prints_any(
    words: tuple[str, ...], recorded: tuple[Path, str], capfd: pytest.CaptureFixture[str]
) -> None:
    path, _ = recorded
    given = [str(path) if word == "@" else word for word in words]
    if "@" not in words:
        given[1:1] = [str(path)]
    assert shown(ask(capfd, *given)) == []


@pytest.mark.parametrize("to", [*EXPORTERS])
def test_no_export_holds_any(
    to: str, recorded: tuple[Path, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    if app.main(["export", str(recorded[0]), "--to", to, "-o", str(out), *EVERYTHING]):
        pytest.skip(capfd.readouterr().err)
    assert shown(contents(next(tmp_path.iterdir()))) == []


@pytest.mark.parametrize(
    "words",
    [
        ("report",),
        ("report", *EVERYTHING),
        ("flame", "--include-paths", "--to", "html"),
        ("flame", "--to", "folded"),
        ("pack",),
    ],
    ids=" ".join,
)
def test_nothing_that_is_sent_around_holds_any(
    words: tuple[str, ...], recorded: tuple[Path, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ask(capfd, words[0], str(recorded[0]), *words[1:], "-o", str(tmp_path / "out"))
    assert shown(contents(tmp_path / "out")) == []


def test_agents_see_none(recorded: tuple[Path, str]) -> None:
    path, _ = recorded
    tools = Tools(Places([path.parent]))
    tables = ("process", "user_event", "marker", "kernel", "counter", "thread", "name")
    answers = [tools.query(path.name, f"SELECT * FROM {table}", 200) for table in tables]
    answers += [
        tools.info(path.name),
        tools.analyze(path.name),
        tools.stats(path.name, "events"),
        tools.flame(path.name),
    ]
    assert shown(json.dumps(answers, default=str)) == []
