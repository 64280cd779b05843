"""What leaves as Kineto, Chrome or Perfetto comes back with the same rows."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

import warpsight as ws
from tests.unit.formats import kineto_file, same_rows
from warpsight.formats.enclosed.reading import CHANGED
from warpsight.formats.importing import import_files
from warpsight.model import StoredTrace, TraceWriter
from warpsight.model import open as open_trace
from warpsight.model.selection import begin_of

GOLDEN = Path(__file__).parents[3] / "golden"
RECORDINGS = sorted(GOLDEN.glob("*.warp.zip"))
FORMS = {"kineto": ".pt.trace.json", "chrome": ".json", "perfetto": ".pftrace"}
EVERYTHING = {"include_paths": True, "include_arguments": True, "include_environment": True}


def exported(trace: Any, form: str, folder: Path, suffix: str = "", **options: Any) -> Path:
    path = folder / f"out{FORMS[form]}{suffix}"
    written = trace.export(form, path, **{**EVERYTHING, **options})
    return Path(written.path)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.name.partition(".")[0])
def test_a_recording_comes_back_with_the_same_rows(recording: Path, form: str, tmp_path: Path) -> None:
    with ws.open(recording) as trace, ws.open(exported(trace, form, tmp_path)) as again:
        assert same_rows.rows(again) == same_rows.rows(trace)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["kineto_h100_qwen.json.gz", "kineto_mi300_qwen.json.gz"])
def test_a_real_file_of_torch_profiler_comes_back(name: str, form: str, tmp_path: Path) -> None:
    folder = os.environ.get("WARPSIGHT_TEST_DATA")
    if not folder:
        pytest.skip("WARPSIGHT_TEST_DATA names no folder of real traces")
    with ws.open(Path(folder) / name) as trace, ws.open(exported(trace, form, tmp_path)) as again:
        before, after = same_rows.rows(trace), same_rows.rows(again)
        before.pop("attribute"), after.pop("attribute")  # secrets in a user's metadata are redacted
        assert after == before


@pytest.mark.parametrize("form", FORMS)
def test_every_kind_of_kineto_comes_back(form: str, tmp_path: Path) -> None:
    file = GOLDEN / "formats" / "kineto" / "every_kind.json"
    with ws.open(file) as trace, ws.open(exported(trace, form, tmp_path)) as again:
        rows = same_rows.rows(trace)
        assert {"collective", "flow", "memory", "counter", "attribute", "event", "sync"} <= rows.keys()
        assert same_rows.rows(again) == rows


@pytest.mark.parametrize("form", ["chrome", "perfetto"])
@pytest.mark.parametrize("suffix", ["", ".zst"])
def test_two_processes_come_back_from_one_file(form: str, suffix: str, tmp_path: Path) -> None:
    with two_processes(tmp_path) as trace, ws.open(exported(trace, form, tmp_path, suffix)) as again:
        assert same_rows.rows(again) == same_rows.rows(trace)


def test_two_processes_come_back_from_a_folder_of_kineto_files(tmp_path: Path) -> None:
    with two_processes(tmp_path) as trace:
        folder = exported(trace, "kineto", tmp_path)
        assert len(list(folder.iterdir())) == 2
        rows = same_rows.rows(trace)
        with ws.open(folder) as again:
            assert same_rows.rows(again) == rows
        import_files([folder], tmp_path / "again.warp")
        with open_trace(tmp_path / "again.warp") as again:
            assert same_rows.rows(again) == rows


def two_processes(folder: Path) -> Any:
    """Two ranks that share a device, of which one has no kernels with times."""
    path = folder / "two.warp"
    with TraceWriter(path) as writer:
        stack = writer.stack(["main", ("step", "train.py", 7, None, "python", None)])
        name, shape = writer.name("void gemm<float>(float const*)"), writer.shape(grid_x=2, shared_static=16)
        writer.add(
            "device",
            [{"device": 3, "index": 3, "uuid": "", "name": "H200", "vendor": "NVIDIA", "platform": "cuda"}],
        )
        for process in (0, 1):
            place = {"device": 3, "context": 1, "stream": 7, "process": process, "correlation": 5}
            writer.add("process", [{"process": process, "pid": 100 + process, "host": "node", "command": "python train.py",
                                    "executable": "python", "rank": process, "start": 1, "end": 99}])  # fmt: skip
            writer.add("kernel", [{"start": None if process else 50, "duration": None if process else 9, "name_id": name,
                                   "shape_id": shape, "stack": stack, "graph_level": False, **place}])  # fmt: skip
            writer.add("launch", [{"start": 10, "duration": 5, "function": "cudaLaunchKernel", "thread": 7, "result": 0,
                                   "process": process, "correlation": 5, "stack": stack, "captured": False}])  # fmt: skip
            writer.add("memory", [{"time": 12, "operation": "allocate", "address": (1 << 63) + 8, "bytes": 64, "kind": "device",
                                   "process": process, "allocator": "CUDA", "device": 3}])  # fmt: skip
            writer.add("counter", [{"time": 20, "name": "used", "value": 1.5, "unit": "B", "device": 3, "source": "user",
                                    "process": process or None}])  # fmt: skip
        writer.add("clock", [{"monotonic": 1, "realtime": 1_790_000_000_000_000_000}])
        writer.add("loss", [{"source": "ring", "cause": "the ring was full", "count": 3, "severity": "lost"}])
    return ws.open(path)


@pytest.mark.parametrize("form", FORMS)
def test_a_folder_of_foreign_files_is_a_job(form: str, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    for rank in (2, 10):
        job = {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 11}}
        kineto_file.write(folder / f"rank-{rank}.json", [kineto_file.kernel(10 * rank)], **job)
    (folder / "notes.txt").write_text("of the run")
    with ws.open(folder) as trace:
        assert trace.sql("SELECT process, rank FROM process ORDER BY 1").fetchall() == [(0, 2), (1, 10)]


@pytest.mark.parametrize("form", FORMS)
def test_a_part_comes_back_as_that_part(form: str, tmp_path: Path) -> None:
    with ws.open(GOLDEN / "planted_slow_step.warp.zip") as trace:
        ((first, last),) = trace.sql(
            "SELECT quantile_disc(start, 0.3), quantile_disc(start, 0.6) + 1 FROM kernel"
        ).fetchall()
        origin = begin_of(trace)
        window = {"begin": f"{first - origin}ns", "end": f"{last - origin}ns"}
        part = exported(trace, form, tmp_path, kind=("kernel", "launch"), **window)
        with ws.open(part) as again:
            names = {name for (name,) in again.sql("SELECT name FROM name").fetchall()}
            used = {
                name
                for (name,) in again.sql("SELECT name FROM kernel UNION SELECT name FROM launch").fetchall()
            }
            assert names == used  # nothing that was left out can be read
            assert again.tables.keys() <= {"kernel", "launch", "name", "shape", "stack", "frame", "process", "device",
                                           "context", "stream", "thread", "module"}  # fmt: skip
            for table in ("kernel", "launch"):
                ((count,),) = trace.sql(
                    f"SELECT count(*) FROM {table} WHERE start < {last} AND (start >= {first} OR start + duration > {first})"
                ).fetchall()
                assert count and again.count(table) == count


@pytest.mark.parametrize("form", FORMS)
def test_files_of_two_recordings_are_one_trace(form: str, tmp_path: Path) -> None:
    files, both = [], []
    for name in ("planted_slow_step", "planted_tiny_kernels"):
        (tmp_path / name).mkdir()
        with ws.open(GOLDEN / f"{name}.warp.zip") as trace:
            files.append(exported(trace, form, tmp_path / name))
            sql = "SELECT name, grid_x, start, duration, stack IS NULL FROM kernel"
            both += trace.sql(sql).fetchall()
    import_files(files, tmp_path / "both.warp")
    with open_trace(tmp_path / "both.warp") as trace:
        assert sorted(trace.sql(sql).fetchall()) == sorted(both)
        assert trace.sql("SELECT count(DISTINCT process) FROM kernel").fetchall() == [(2,)]


def notes(trace: StoredTrace) -> list[str]:
    return [cause for (cause,) in trace.sql("SELECT cause FROM loss WHERE source = 'import'").fetchall()]


@pytest.mark.parametrize("form", ["kineto", "chrome"])
def test_a_file_that_was_changed_is_read_by_its_events(form: str, tmp_path: Path) -> None:
    with ws.open(GOLDEN / "planted_slow_step.warp.zip") as trace:
        file = exported(trace, form, tmp_path)
    content = json.loads(file.read_text())
    events = [e for e in content["traceEvents"] if e.get("cat") != "kernel"]
    content["traceEvents"] = events + [e for e in content["traceEvents"] if e.get("cat") == "kernel"][:100]
    file.write_text(json.dumps(content, separators=(",", ":")))
    with ws.open(file) as again:
        assert again.count("kernel") == 100
        assert (
            CHANGED in notes(again)
            and again.sql("SELECT * FROM attribute WHERE key = 'warpsight'").fetchall() == []
        )


@pytest.mark.parametrize("form", FORMS)
def test_damaged_rows_give_way_to_the_events(form: str, tmp_path: Path) -> None:
    with ws.open(GOLDEN / "planted_tiny_kernels.warp.zip") as trace:
        file = exported(trace, form, tmp_path)
        expected = trace.sql("SELECT start, duration FROM kernel ORDER BY ALL").fetchall()
    data = bytearray(file.read_bytes())
    data[-2000] ^= 1
    file.write_bytes(data)
    with ws.open(file) as again:
        assert again.sql("SELECT start, duration FROM kernel ORDER BY ALL").fetchall() == expected
        assert CHANGED in notes(again)


@pytest.mark.parametrize("form", FORMS)
def test_without_rows_the_file_is_events_alone(form: str, tmp_path: Path) -> None:
    with two_processes(tmp_path) as trace:
        file = exported(trace, form, tmp_path, rows=False, process=0)
    assert b"warpsigh" not in file.read_bytes().replace(b'"recorder": "warpsight"', b"").replace(
        b'"recorder":"warpsight"', b""
    )
    with ws.open(file) as again:
        assert (again.count("kernel") == 1 and "memory" not in again.tables) or form == "kineto"


def test_a_compressed_file_comes_back(tmp_path: Path) -> None:
    with two_processes(tmp_path) as trace:
        rows = same_rows.rows(trace)
        for form in ("chrome", "perfetto"):
            file = exported(trace, form, tmp_path)
            packed = tmp_path / f"{file.name}.gz"
            packed.write_bytes(gzip.compress(file.read_bytes()))
            with ws.open(packed) as again:
                assert same_rows.rows(again) == rows
