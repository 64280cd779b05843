"""A trace is written, opened from wherever it is, and can be read but not left."""

from __future__ import annotations

import json
import os
import stat
import threading
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import warpsight.model
from warpsight.errors import TraceError, UsageError
from warpsight.model import TraceWriter
from warpsight.model.schema import SCHEMA_VERSION, TABLES
from warpsight.model.sharing import pack


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small trace: two kernels, a range, one process."""
    path = tmp_path / "run.warp"
    with TraceWriter(path) as writer:
        name = writer.name("_Z9vectorAddPKfS0_Pfi")
        stack = writer.stack(["main", ("step", "train.py", 7, None, "python", None)])
        writer.add(
            "process", [{"process": 0, "pid": 5, "host": "h", "command": "x", "executable": "x", "start": 0}]
        )
        writer.add(
            "kernel",
            {
                "start": [50, 10],
                "duration": [1, 2],
                "name_id": [name, name],
                "context": [1, 1],
                "stream": [7, 7],
                "process": [0, 0],
                "stack": [stack, stack],
                "graph_level": [False, False],
                "shape_id": [writer.shape(grid_x=4, block_x=32)] * 2,
            },
        )
        writer.add("counter", [{"time": 1, "name": "power", "value": 3.5, "unit": "W", "source": "nvml"}])
        writer.describe(settings={"source": "test"})
    return path


def test_names_and_shapes_are_looked_up_and_missing_ones_are_null(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "a.warp") as writer:
        names = [writer.name(text) for text in ("first", "second", "third")]
        shape = writer.shape(grid_x=4, block_x=32)
        where = {"context": 1, "stream": 7, "process": 0, "graph_level": False}
        given = [(names[2], shape), (names[0], None), (None, shape), (99, 99)]
        writer.add(
            "kernel", [{"start": i, "name_id": n, "shape_id": s, **where} for i, (n, s) in enumerate(given)]
        )
    text = "SELECT short, grid_x, cluster_x, launch_type FROM kernel ORDER BY start"
    with warpsight.model.open(tmp_path / "a.warp") as trace:
        found = trace.sql(text).fetchall()
        assert [row[:2] for row in found] == [("third", 4), ("first", None), (None, 4), (None, None)]
        in_thread: list[object] = []
        worker = threading.Thread(target=lambda: in_thread.extend(trace.sql(text).fetchall()))
        worker.start()
        worker.join()
        assert in_thread == found
        (path,) = (tmp_path / "a.warp" / "table=name").glob("*.parquet")
        kept = pq.read_table(path, partitioning=None)
    pq.write_table(kept.filter(pc.not_equal(kept["id"], 2)), path)  # an id that was lost shifts no other
    with warpsight.model.open(tmp_path / "a.warp") as trace:
        assert [row[0] for row in trace.sql(text).fetchall()] == ["third", "first", None, None]


def test_what_is_written_is_read(folder: Path) -> None:
    with warpsight.model.open(folder) as trace:
        assert trace.tables == {
            "kernel": 2,
            "counter": 1,
            "name": 1,
            "shape": 1,
            "stack": 2,
            "frame": 2,
            "process": 1,
        }
        assert trace.sql("SELECT start, short, grid_x FROM kernel").fetchall() == [
            (10, "vectorAdd", 4),
            (50, "vectorAdd", 4),
        ]
        assert trace.sql("SELECT duration FROM kernel WHERE start = $at", at=50).fetchall() == [(1,)]
        assert trace.stacks([2, 99]) == {2: ("main", "step (train.py:7)"), 99: ()}
        assert trace.table("kernel_ids").columns == [c.name for c in TABLES["kernel"].columns]
        assert trace.manifest["settings"] == {"source": "test"}
        assert "2 kernel" in repr(trace)


def test_every_table_can_be_asked_even_when_it_has_no_rows(folder: Path) -> None:
    with warpsight.model.open(folder) as trace:
        for name, table in TABLES.items():
            assert trace.table(name).columns[: len(table.columns)] == [c.name for c in table.columns]
            assert trace.arrow(name).schema.equals(table.schema(), check_metadata=True)
        assert len(trace.loss) == 0
        with pytest.raises(UsageError, match="no table 'kernels'"):
            trace.table("kernels")


REFUSED = [
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM read_text('{folder}/../../../../etc/passwd')",
    "COPY (SELECT 1) TO '{folder}/out.csv'",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{folder}/out.csv'",
    "/* */ EXPLAIN ANALYZE COPY (SELECT 1) TO '{folder}/out.csv'",
    "CREATE TABLE t AS SELECT 1",
    "DROP VIEW kernel",
    "ATTACH '{folder}/x.db'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "PRAGMA enable_object_cache",
    "SELECT 1; SELECT 2",
    "",
    "SELEC 1",
    "SELECT nothing FROM kernel",
]


@pytest.mark.parametrize("text", REFUSED)
def test_a_query_reads_the_trace_and_nothing_else(folder: Path, text: str) -> None:
    before = sorted(folder.rglob("*"))
    with warpsight.model.open(folder) as trace, pytest.raises(UsageError):
        trace.sql(text.format(folder=folder))
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    "text",
    [
        "EXPLAIN SELECT 1",
        "EXPLAIN ANALYZE SELECT 1",
        "DESCRIBE kernel",
        "SHOW TABLES",
        "WITH a AS (SELECT 1) FROM a",
        "FROM kernel",
        "SUMMARIZE kernel",
        "VALUES (1)",
    ],
)
def test_reading_statements_are_allowed(folder: Path, text: str) -> None:
    with warpsight.model.open(folder) as trace:
        assert trace.sql(text).fetchall()


def test_variables_of_the_program_are_not_tables(folder: Path) -> None:
    local = pa.table({"secret": [1]})  # noqa: F841 - DuckDB would find it by name
    with warpsight.model.open(folder) as trace, pytest.raises(UsageError):
        trace.sql("SELECT * FROM local")


def test_threads_share_a_trace(folder: Path) -> None:
    found = []
    with warpsight.model.open(folder) as trace:
        threads = [
            threading.Thread(
                target=lambda: found.append(trace.sql("SELECT sum(duration) FROM kernel").fetchall())
            )
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [[(3,)]] * 8


def test_an_error_is_told_while_another_thread_still_asks(folder: Path) -> None:
    asked, answer, done = threading.Event(), threading.Event(), []

    def wait(value: int) -> int:
        asked.set()
        answer.wait()
        return value

    def ask(trace: warpsight.model.StoredTrace) -> None:
        cursor = trace._cursor()
        cursor.create_function("wait", wait, ["BIGINT"], "BIGINT")
        done.append(cursor.execute("SELECT wait(7)").fetchall())

    with pytest.raises(LookupError, match="what went wrong"), warpsight.model.open(folder) as trace:  # noqa: PT012
        thread = threading.Thread(target=ask, args=(trace,))
        thread.start()
        asked.wait()
        raise LookupError("what went wrong")
    answer.set()
    thread.join()
    assert done == [[(7,)]]


def test_a_closed_trace_says_so(folder: Path) -> None:
    trace = warpsight.model.open(folder)
    trace.close()
    trace.close()
    with pytest.raises(TraceError, match="closed"):
        trace.sql("SELECT 1")


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (SCHEMA_VERSION + 1, "install a newer warpsight"),
        (0, "open it with the warpsight"),
        ("x", "schema 'x'"),
        (None, "schema None"),
    ],
)
def test_other_schema_versions_are_refused(folder: Path, schema: object, message: str) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": schema}))
    with pytest.raises(TraceError, match=message):
        warpsight.model.open(folder)


@pytest.mark.parametrize(
    ("key", "value", "opens"),
    [("host", None, True), ("clocks", None, True), ("rows", None, False), ("loss", None, False), ("rows", [], False),
     ("settings", "all", False), ("more", None, True)],
)  # fmt: skip
def test_a_manifest_may_lack_what_nobody_knows(folder: Path, key: str, value: object, opens: bool) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    if opens:
        warpsight.model.open(folder).close()
    else:
        with pytest.raises(TraceError, match=f"{key} is not a"):
            warpsight.model.open(folder)


def test_what_is_no_trace_is_told_apart(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="does not exist"):
        warpsight.model.open(tmp_path / "absent.warp")
    with pytest.raises(TraceError, match="not a warpsight trace"):
        warpsight.model.open(tmp_path)
    (tmp_path / "half.warp" / "raw").mkdir(parents=True)
    with pytest.raises(TraceError, match="warpsight recover"):
        warpsight.model.open(tmp_path / "half.warp")
    (folder / "manifest.json").write_text("{")
    with pytest.raises(TraceError, match="damaged"):
        warpsight.model.open(folder)
    (tmp_path / "note.txt").write_text("hello")
    with pytest.raises(TraceError, match="not a packed trace"):
        warpsight.model.open(tmp_path / "note.txt")


def test_a_damaged_part_is_an_error_not_an_empty_table(folder: Path) -> None:
    part = next((folder / "table=kernel").rglob("*.parquet"))
    part.write_bytes(part.read_bytes()[:-20])
    with pytest.raises((TraceError, UsageError)), warpsight.model.open(folder) as trace:
        trace.sql("SELECT count(*) FROM kernel").fetchall()


def test_a_read_only_folder_opens(folder: Path) -> None:
    for path in [*folder.rglob("*"), folder]:
        path.chmod(path.stat().st_mode & 0o555)
    try:
        with warpsight.model.open(folder) as trace:
            assert trace.tables["kernel"] == 2
    finally:
        for path in [folder, *folder.rglob("*")]:
            path.chmod(path.stat().st_mode | 0o200)


def test_a_quote_in_the_path_is_no_sql(folder: Path, tmp_path: Path) -> None:
    odd = folder.rename(tmp_path / "it's [odd] *.warp")
    with warpsight.model.open(odd) as trace:
        assert trace.sql("SELECT count(*) FROM kernel").fetchall() == [(2,)]


def test_a_packed_trace_opens_like_the_folder_and_unpacks_to_the_same(folder: Path, tmp_path: Path) -> None:
    packed = tmp_path / "run.warp.zip"
    pack.pack(folder, packed)
    assert stat.S_IMODE(packed.stat().st_mode) == 0o600
    with warpsight.model.open(packed) as trace:
        copy = trace.folder
        assert trace.sql("SELECT sum(duration) FROM kernel").fetchall() == [(3,)]
    assert not copy.exists()
    again = pack.unpack(packed, tmp_path / "again.warp")
    files = {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert files == {p.relative_to(again): p.read_bytes() for p in again.rglob("*") if p.is_file()}
    with pytest.raises(TraceError, match="-f replaces it"):
        pack.pack(folder, packed)
    first = packed.read_bytes()
    pack.pack(folder, packed, force=True)
    assert packed.read_bytes() == first


def test_kept_code_travels_with_a_packed_trace(folder: Path, tmp_path: Path) -> None:
    cubins = folder / "cubins"
    cubins.mkdir()
    (cubins / "00000000000000aa.cubin").write_bytes(b"\x7fELF code")
    pack.pack(folder, tmp_path / "a.warp.zip")
    unpacked = pack.unpack(tmp_path / "a.warp.zip", tmp_path / "b.warp")
    assert (unpacked / "cubins" / "00000000000000aa.cubin").read_bytes() == b"\x7fELF code"


def test_remote_folders_and_files_open(folder: Path, tmp_path: Path) -> None:
    pack.pack(folder, tmp_path / "run.warp.zip")
    for url in (folder.as_uri(), (tmp_path / "run.warp.zip").as_uri()):
        with warpsight.model.open(url) as trace:
            assert trace.tables["kernel"] == 2
    with pytest.raises(TraceError, match="does not exist"):
        warpsight.model.open("file:///nowhere/run.warp")
    with pytest.raises(TraceError, match="cannot be read"):
        warpsight.model.open("nosuchprotocol://x")


@pytest.mark.parametrize("url", ["memory://nothing/x.warp", "simplecache::memory://nothing/x.warp"])
def test_a_place_that_is_a_url_is_asked_for_as_one(url: str) -> None:
    with pytest.raises(TraceError, match=f"^{url} does not exist$"):
        warpsight.model.open(url)


def test_a_chain_of_file_systems_is_a_url(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"^nothing::here cannot be read: "):
        warpsight.model.open("nothing::here")


def test_a_damaged_packed_trace_is_refused(folder: Path, tmp_path: Path) -> None:
    packed = tmp_path / "run.warp.zip"
    pack.pack(folder, packed)
    data = bytearray(packed.read_bytes())
    with zipfile.ZipFile(packed) as file:
        member = next(m for m in file.infolist() if "table=kernel" in m.filename)
    data[member.header_offset + 200] ^= 1
    packed.write_bytes(data)
    with pytest.raises(TraceError, match="damaged"):
        warpsight.model.open(packed)


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil", "a\\..\\evil", "C:evil"])
def test_unsafe_members_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "bad.warp.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("manifest.json", "{}")
        file.writestr(zipfile.ZipInfo(name), "x")
    with pytest.raises(TraceError, match="unsafe"):
        warpsight.model.open(path)
    assert not (tmp_path / "evil").exists()


def test_a_link_in_a_packed_trace_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.warp.zip"
    link = zipfile.ZipInfo("table=kernel")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("manifest.json", "{}")
        file.writestr(link, "/etc")
    with pytest.raises(TraceError, match="unsafe"):
        warpsight.model.open(path)


def test_files_are_private(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    assert not [name for name in os.listdir(folder) if name.startswith(".")]


@pytest.mark.parametrize("statistics", [True, False])
def test_the_least_value_and_whether_there_is_one_do_not_depend_on_footers(
    folder: Path, statistics: bool
) -> None:
    for part in folder.glob("table=kernel/**/*.parquet"):
        rows = pq.ParquetFile(part).read()
        place = rows.column_names.index("graph")
        rows = rows.set_column(place, rows.field(place), pa.array([None, 3], rows.field(place).type))
        pq.write_table(rows, part, write_statistics=statistics)
    with warpsight.model.open(folder) as trace:
        assert trace.least("kernel", "start") == 10
        assert trace.least("memcpy", "start") is None
        assert trace.has("kernel", "graph")
        assert not trace.has("kernel", "graph_node")


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_the_last_moment_is_that_of_all_rows(tmp_path: Path, seed: int, statistics: bool) -> None:
    random = np.random.default_rng(seed)
    with TraceWriter(tmp_path / "x.warp") as writer:
        for _ in range(random.integers(1, 4)):
            count = int(random.integers(1, 9))
            start, duration = random.integers(0, 100, count), random.integers(-5, 40, count)
            writer.add("kernel", {
                "start": pa.array(start, pa.int64(), mask=random.random(count) < 0.4),
                "duration": pa.array(duration, pa.int64(), mask=random.random(count) < 0.4), "name_id": [1] * count,
                "device": [0] * count, "context": [1] * count, "stream": [7] * count, "correlation": list(range(count)),
                "process": [0] * count, "graph_level": [False] * count,
            })  # fmt: skip
    for part in (tmp_path / "x.warp").glob("table=kernel/**/*.parquet"):
        pq.write_table(pq.ParquetFile(part).read(), part, row_group_size=3, write_statistics=statistics)
    with warpsight.model.open(tmp_path / "x.warp") as trace:
        expected = trace.sql("SELECT max(start + coalesce(duration, 0)) FROM kernel_ids").fetchall()[0][0]
        assert trace.latest("kernel", "start") == expected
        assert trace.latest("memory", "time") is None


def test_a_statement_needs_only_the_tables_that_it_names(folder: Path) -> None:
    for part in folder.glob("table=counter/**/*.parquet"):
        part.write_bytes(b"nothing")
    with warpsight.model.open(folder) as trace:
        assert trace.sql("SELECT count(*) FROM kernel").fetchall() == [(2,)]
        with pytest.raises(TraceError, match="cannot be read"):
            trace.sql("SELECT count(*) FROM counter")
