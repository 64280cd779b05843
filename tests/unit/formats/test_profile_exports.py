"""pprof, OpenTelemetry profiles, Chakra and tables: read back with protobuf's own decoder and the schemas' field numbers."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from warpsight.errors import UsageError
from warpsight.formats.registry import EXPORTERS
from warpsight.formats.selection import Selection
from warpsight.model import StoredTrace, TraceWriter
from warpsight.model import open as open_trace

#: Messages as `name: type label`; `*` repeated, other types are messages of the same file.
PPROF = {
    "Profile": {1: "sample_type ValueType*", 2: "sample Sample*", 4: "location Location*", 5: "function Function*",
                6: "string_table string*", 9: "time_nanos int64", 10: "duration_nanos int64", 11: "period_type ValueType",
                12: "period int64", 14: "default_sample_type int64"},
    "ValueType": {1: "type int64", 2: "unit int64"},
    "Sample": {1: "location_id uint64*", 2: "value int64*", 3: "label Label*"},
    "Label": {1: "key int64", 2: "str int64", 3: "num int64", 4: "num_unit int64"},
    "Location": {1: "id uint64", 4: "line Line*"},
    "Line": {1: "function_id uint64", 2: "line int64"},
    "Function": {1: "id uint64", 2: "name int64", 3: "system_name int64", 4: "filename int64"},
}  # fmt: skip
OTLP = {
    "ProfilesData": {1: "resource_profiles ResourceProfiles*", 2: "dictionary Dictionary"},
    "Dictionary": {1: "mapping_table Empty*", 2: "location_table Location*", 3: "function_table Function*",
                   4: "link_table Empty*", 5: "string_table string*", 6: "attribute_table Attribute*", 7: "stack_table Stack*"},
    "Empty": {},
    "ResourceProfiles": {1: "resource Resource", 2: "scope_profiles ScopeProfiles*"},
    "Resource": {1: "attributes KeyValue*"},
    "KeyValue": {1: "key string", 2: "value AnyValue"},
    "AnyValue": {1: "string_value string", 3: "int_value int64"},
    "ScopeProfiles": {2: "profiles Profile*"},
    "Profile": {1: "sample_type ValueType", 2: "samples Sample*", 3: "time_unix_nano fixed64", 4: "duration_nano uint64",
                7: "profile_id bytes"},
    "ValueType": {1: "type_strindex int32", 2: "unit_strindex int32"},
    "Sample": {1: "stack_index int32", 2: "attribute_indices int32*", 4: "values int64*"},
    "Stack": {1: "location_indices int32*"},
    "Location": {3: "lines Line*", 4: "attribute_indices int32*"},
    "Line": {1: "function_index int32", 2: "line int64"},
    "Function": {1: "name_strindex int32", 2: "system_name_strindex int32", 3: "filename_strindex int32"},
    "Attribute": {1: "key_strindex int32", 2: "value AnyValue"},
}  # fmt: skip
CHAKRA = {
    "GlobalMetadata": {1: "version string", 2: "attr Attribute*"},
    "Node": {1: "id uint64", 2: "name string", 3: "type int32", 5: "data_deps uint64*", 6: "start_time_micros uint64",
             7: "duration_micros uint64", 10: "attr Attribute*"},
    "Attribute": {1: "name string", 9: "int64_val int64", 27: "bool_val bool", 29: "string_val string"},
}  # fmt: skip


def message(name: str, schema: dict[str, dict[int, str]], root: str) -> Any:
    """The class of one message of a schema."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package=name, syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    for title, fields in schema.items():
        made = file.message_type.add(name=title)
        for number, told in fields.items():
            field, kind = told.split()
            label = kinds.LABEL_REPEATED if kind.endswith("*") else kinds.LABEL_OPTIONAL
            kind = kind.rstrip("*")
            entry = made.field.add(name=field, number=number, label=label)
            if kind in schema:
                entry.type, entry.type_name = kinds.TYPE_MESSAGE, f".{name}.{kind}"
            else:
                entry.type = getattr(kinds, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{name}.{root}"))


@pytest.fixture
def trace(tmp_path: Path) -> Iterator[StoredTrace]:
    """Three kernels of two names under one stack, a copy without one, an all-reduce; two streams, two threads."""
    with TraceWriter(tmp_path / "x.warp") as made:
        made.add("process", [{"process": 0, "pid": 77, "host": "h", "command": "python x.py", "executable": "python",
                              "start": 0, "rank": 3, "world_size": 8}])  # fmt: skip
        made.add("clock", [{"monotonic": 1_000, "realtime": 1_700_000_000_000_001_000}])
        main = ("main", "x.py", 3, None, "python", None)
        stack = made.stack([main, ("step", "x.py", 9, None, "python", None)])
        place = {"device": 0, "context": 1, "process": 0, "graph_level": False}
        for i, (name, stream) in enumerate(
            (("add", 7), ("mul", 7), ("add", 8), ("ncclDevKernel_AllReduce_Sum_f32", 9))
        ):
            call = {
                "start": 1_000 + 100 * i,
                "duration": 20,
                "function": "cudaLaunchKernel",
                "thread": 1 + i % 2,
                "captured": False,
            }
            made.add("launch", [{**call, "correlation": i + 1, "process": 0, "stack": stack}])
            row = {
                **place,
                "start": 5_000 + 1_000 * i,
                "duration": 500 + i,
                "name_id": made.name(name),
                "stream": stream,
            }
            made.add("kernel", [{**row, "correlation": i + 1}])
        made.add("collective", [{"operation": "all-reduce", "bytes": 4096, "correlation": 4, "process": 0}])
        copy = {
            "kind": "HtoD",
            "source_kind": "pinned",
            "destination_kind": "device",
            "asynchronous": True,
            "bytes": 64,
        }
        made.add(
            "memcpy",
            [{**copy, "start": 9_500, "duration": 40, "stream": 7, "device": 0, "context": 1, "process": 0}],
        )
    with open_trace(tmp_path / "x.warp") as opened:
        yield opened


def written(trace: StoredTrace, form: str, selection: Selection = Selection()) -> bytes:
    out = io.BytesIO()
    EXPORTERS[form].write(trace, out, selection)
    return out.getvalue()


EXPECTED = {
    ("add", "step", "main"): (2, 1002),
    ("mul", "step", "main"): (1, 501),
    ("ncclDevKernel_AllReduce_Sum_f32", "step", "main"): (1, 503),
    ("Memcpy HtoD",): (1, 40),
}


def test_pprof_has_every_stack_with_work_and_time(trace: StoredTrace) -> None:
    profile = message("pprof", PPROF, "Profile")()
    profile.ParseFromString(gzip.decompress(written(trace, "pprof")))
    text = profile.string_table
    assert [(text[t.type], text[t.unit]) for t in profile.sample_type] == [
        ("gpu_work", "count"),
        ("gpu_time", "nanoseconds"),
    ]
    assert text[0] == "" and text[profile.default_sample_type] == "gpu_time"
    functions = {f.id: text[f.name] for f in profile.function}
    locations = {at.id: functions[at.line[0].function_id] for at in profile.location}
    found = {tuple(locations[i] for i in s.location_id): tuple(s.value) for s in profile.sample}
    assert found == EXPECTED
    assert profile.time_nanos == 1_700_000_000_000_005_000
    labels = {text[label.key]: label.num or text[label.str] for s in profile.sample for label in s.label}
    assert labels["bytes"] == 64 and labels["kind"] in ("kernel", "memcpy")


def test_opentelemetry_profiles_have_the_same(trace: StoredTrace) -> None:
    data = message("otlp", OTLP, "ProfilesData")()
    data.ParseFromString(written(trace, "otlp"))
    tables = data.dictionary
    text = tables.string_table
    for table in (tables.mapping_table, tables.location_table, tables.function_table, tables.link_table,
                  tables.attribute_table, tables.stack_table):  # fmt: skip
        assert table[0].ByteSize() == 0
    assert text[0] == ""
    (resource,) = data.resource_profiles
    attributes = {a.key: a.value.string_value or a.value.int_value for a in resource.resource.attributes}
    assert attributes["process.pid"] == 77 and attributes["host.name"] == "h"
    found: dict[tuple[str, ...], dict[str, int]] = {}
    for profile in resource.scope_profiles[0].profiles:
        assert len(profile.profile_id) == 16 and profile.time_unix_nano == 1_700_000_000_000_005_000
        kind = text[profile.sample_type.type_strindex]
        for sample in profile.samples:
            places = [
                tables.location_table[i] for i in tables.stack_table[sample.stack_index].location_indices
            ]
            names = tuple(
                text[tables.function_table[p.lines[0].function_index].name_strindex] for p in places
            )
            found.setdefault(names, {})[kind] = sample.values[0]
    assert {k: (v["gpu_work"], v["gpu_time"]) for k, v in found.items()} == EXPECTED


def chakra(data: bytes) -> tuple[Any, list[Any]]:
    """Metadata and nodes, each message after its length."""
    at, pieces = 0, []
    while at < len(data):
        size = shift = 0
        while True:
            byte = data[at]
            at += 1
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        pieces.append(data[at : at + size])
        at += size
    first = message("chakra", CHAKRA, "GlobalMetadata").FromString(pieces[0])
    return first, [message("chakra", CHAKRA, "Node").FromString(piece) for piece in pieces[1:]]


def test_chakra_nodes_depend_on_their_launch_and_their_stream(trace: StoredTrace) -> None:
    metadata, nodes = chakra(written(trace, "chakra"))
    assert metadata.version == "0.0.4"
    assert {a.name: a.int64_val for a in metadata.attr} == {"rank": 3, "world_size": 8, "pid": 77}
    assert [node.id for node in nodes] == list(range(9))
    assert all(dep < node.id for node in nodes for dep in node.data_deps)
    assert [list(node.data_deps) for node in nodes] == [[], [], [0], [1], [0], [4, 1], [2], [3], [5]]
    assert [node.name for node in nodes[4:]] == [
        "add",
        "mul",
        "add",
        "ncclDevKernel_AllReduce_Sum_f32",
        "Memcpy HtoD",
    ]
    assert [node.type for node in nodes] == [4] * 7 + [7, 4]
    attributes = {a.name: a.int64_val for a in nodes[7].attr}
    assert (attributes["comm_type"], attributes["comm_size"], attributes["duration_ns"]) == (0, 4096, 503)
    assert (nodes[7].start_time_micros, nodes[7].duration_micros) == (8, 1)


def test_chakra_wants_one_rank(trace: StoredTrace, tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "two.warp") as made:
        for i in range(2):
            made.add(
                "process", [{"process": i, "pid": i, "host": "", "command": "", "executable": "", "start": 0}]
            )
    with open_trace(tmp_path / "two.warp") as two, pytest.raises(UsageError, match="--process"):
        written(two, "chakra")


def test_tables_hold_every_row_with_names_and_units(trace: StoredTrace) -> None:
    archives = {
        form: zipfile.ZipFile(io.BytesIO(written(trace, form)))
        for form in ("parquet", "arrow", "csv", "jsonl")
    }
    question = "SELECT start, duration, name, stream FROM kernel ORDER BY start"
    expected = trace.sql(question).fetchall()
    parquet = pq.read_table(io.BytesIO(archives["parquet"].read("kernel.parquet")))
    arrow = pa.ipc.open_file(archives["arrow"].read("kernel.arrow")).read_all()
    for table in (parquet, arrow):
        assert table.schema.field("duration").metadata[b"unit"] == b"ns"
        rows = table.select(["start", "duration", "name", "stream"]).to_pylist()
        assert [tuple(row.values()) for row in rows] == expected
    text = list(csv.DictReader(io.StringIO(archives["csv"].read("kernel.csv").decode())))
    assert [(int(r["start"]), int(r["duration"]), r["name"], int(r["stream"])) for r in text] == expected
    lines = [json.loads(line) for line in archives["jsonl"].read("kernel.jsonl").splitlines()]
    assert [(r["start"], r["duration"], r["name"], r["stream"]) for r in lines] == expected
    assert {name.split(".")[0] for name in archives["csv"].namelist()} == set(trace.tables)


def test_a_window_and_kinds_select_rows(trace: StoredTrace) -> None:
    chosen = Selection(begin=6_000, end=7_000, kinds=("kernel",))
    archive = zipfile.ZipFile(io.BytesIO(written(trace, "csv", chosen)))
    rows = list(csv.DictReader(io.StringIO(archive.read("kernel.csv").decode())))
    assert [row["name"] for row in rows] == ["mul"]
    assert "memcpy.csv" not in archive.namelist() and "launch.csv" not in archive.namelist()
