"""A shared trace: every row, and nothing in any column that tells who and where."""

import json
from pathlib import Path

import pytest

from warpsight.formats.registry import EXPORTERS
from warpsight.formats.selection import Selection
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace
from warpsight.model.schema import TABLES
from warpsight.model.sharing import pack
from warpsight.model.sharing.shared import shared

_PRIVATE = ("margaret", "gpu17", "acme", "hunter2", "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH")


@pytest.fixture
def trace(tmp_path):
    """Private things in every column of text that a program can fill."""
    bad = "/home/margaret/acme/net/src/x.py on gpu17 --token hunter2"
    with TraceWriter(tmp_path / "t.warp") as writer:
        name, kernel = writer.name(f"step {bad}"), writer.name("_Z3addPf")
        stack = writer.stack([("main", "/home/margaret/acme/net/src/train.py", 3, None, "python", None)])
        writer.add(
            "process",
            [
                {
                    "process": 0,
                    "pid": 9,
                    "host": "gpu17",
                    "start": 0,
                    "command": "python /home/margaret/acme/train.py --token hunter2 --customer acme",
                    "executable": "/home/margaret/acme/env/bin/python",
                    "settings": json.dumps({"log": bad}),
                    "environment": json.dumps({"CUDA_HOME": "/home/margaret/acme/cuda", "USER": "margaret"}),
                }
            ],
        )
        writer.add("thread", [{"thread": 9, "process": 0, "name": "margaret main"}])
        writer.add(
            "device",
            [
                {
                    "device": 0,
                    "index": 0,
                    "uuid": "GPU-1",
                    "name": "H200",
                    "vendor": "NVIDIA",
                    "platform": "cuda",
                    "host": "gpu17",
                }
            ],
        )
        writer.add(
            "module",
            [{"module": 1, "name": "/home/margaret/acme/net/src/k.cubin", "bytes": 3, "process": 0}],
        )
        writer.add(
            "attribute", [{"table": "op", "row": 0, "key": "env", "value": json.dumps(bad), "process": 0}]
        )
        writer.add("loss", [{"source": "ring", "cause": f"{bad} was full", "count": 1, "severity": "lost"}])
        writer.add(
            "marker",
            [
                {
                    "start": 1,
                    "duration": 50,
                    "thread": 9,
                    "process": 0,
                    "name_id": name,
                    "kind": "push/pop",
                    "open": False,
                    "source": "nvtx",
                    "domain": "margaret",
                    "category": "gpu17",
                    "attributes": json.dumps({"p": bad}),
                }
            ],
        )
        writer.add(
            "op",
            [
                {
                    "start": 2,
                    "duration": 40,
                    "thread": 9,
                    "process": 0,
                    "name_id": name,
                    "attributes": json.dumps({"p": bad}),
                }
            ],
        )
        writer.add(
            "user_event",
            [
                {
                    "start": 3,
                    "duration": 4,
                    "thread": 9,
                    "process": 0,
                    "name": bad,
                    "kind": "user",
                    "attributes": json.dumps(
                        {"password": "hunter2", "k": "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"}
                    ),
                }
            ],
        )
        writer.add(
            "launch",
            [
                {
                    "start": 5,
                    "duration": 3,
                    "thread": 9,
                    "process": 0,
                    "correlation": 1,
                    "stack": stack,
                    "function": "cudaLaunchKernel",
                    "captured": False,
                }
            ],
        )
        writer.add(
            "kernel",
            [
                {
                    "start": 10,
                    "duration": 9,
                    "process": 0,
                    "device": 0,
                    "context": 1,
                    "stream": 7,
                    "correlation": 1,
                    "name_id": kernel,
                    "stack": stack,
                    "graph_level": False,
                }
            ],
        )
        writer.add(
            "warp_event",
            [
                {
                    "grid_launch": 0,
                    "event": 0,
                    "kind": "opcode_only",
                    "time": 11,
                    "cta_x": 0,
                    "cta_y": 0,
                    "cta_z": 0,
                    "warp": 0,
                    "opcode": 0,
                    "pc": 0,
                    "name_id": kernel,
                    "process": 0,
                }
            ],
        )
    return tmp_path / "t.warp"


def test_every_row_stays_and_nothing_private(trace):
    with open_trace(trace) as whole, shared(whole) as other:
        assert other.tables == whole.tables
        for table in TABLES:
            told = json.dumps(other.arrow(table).to_pylist(), default=str) + str(
                other.sql(f"SELECT * FROM {table}").fetchall()
            )
            assert [word for word in _PRIVATE if word in told] == [], table
        assert [word for word in _PRIVATE if word in json.dumps(other.manifest)] == []
        kernels = "SELECT start, duration, demangled FROM kernel"
        assert other.sql(kernels).fetchall() == whole.sql(kernels).fetchall()
        assert other.sql("SELECT command, environment FROM process").fetchall() == [
            ("python train.py … (4 arguments hidden)", None)
        ]
        assert whole.sql("SELECT host FROM process").fetchall() == [("gpu17",)]


def test_what_is_asked_for_stays_but_no_secret(trace):
    with open_trace(trace) as whole, shared(whole, ("paths", "arguments", "environment")) as other:
        told = other.sql("SELECT command, host, environment FROM process").fetchall()[0]
        assert told[0] == "python /home/margaret/acme/train.py --token *** --customer acme"
        assert told[1] == "gpu17"
        assert json.loads(told[2])["CUDA_HOME"] == "/home/margaret/acme/cuda"
        assert other.sql("SELECT file FROM frame").fetchall() == [("/home/margaret/acme/net/src/train.py",)]
        assert "hunter2" not in json.dumps(other.arrow("user_event").to_pylist())


def test_packing_hides_no_paths_arguments_or_environment(trace: Path, tmp_path: Path) -> None:
    pack.pack(trace, tmp_path / "t.warp.zip")
    asked = ("SELECT command, environment FROM process", "SELECT file FROM frame")
    with open_trace(trace) as whole, open_trace(tmp_path / "t.warp.zip") as packed:
        for sql in asked:
            rows = packed.sql(sql).fetchall()
            assert rows == whole.sql(sql).fetchall() and rows[0][0]


def test_a_table_with_one_private_part_keeps_all_its_parts(tmp_path):
    thread = {"thread": 9, "process": 0, "name": "worker"}
    with TraceWriter(tmp_path / "t.warp") as writer:
        for name in ("worker", "/home/margaret/run", "loader"):
            writer.add("thread", [{**thread, "name": name}])
    with open_trace(tmp_path / "t.warp") as whole, shared(whole) as other:
        assert [name for (name,) in other.sql("SELECT name FROM thread ORDER BY name").fetchall()] == [
            "loader",
            "worker",
            "~/run",
        ]


def test_its_files_go_when_it_is_closed_and_those_of_the_trace_stay(trace):
    with open_trace(trace) as whole:
        other = shared(whole)
        folder = other._temporary.name
        other.close()
        assert whole.count("kernel") == 1
    assert not Path(folder).exists()
    assert (trace / "manifest.json").exists()


@pytest.mark.parametrize("form", EXPORTERS)
def test_no_export_of_it_tells_anything(trace, tmp_path, form):
    import gzip
    import zipfile

    file = tmp_path / "out"
    with open_trace(trace) as whole, shared(whole) as other, file.open("wb") as out:
        EXPORTERS[form].write(other, out, Selection())
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            told = b"".join(archive.read(name) for name in archive.namelist())
    else:
        told = file.read_bytes()
        told = gzip.decompress(told) if told[:2] == b"\x1f\x8b" else told
    assert [word for word in _PRIVATE if word.encode() in told] == []
