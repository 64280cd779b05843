"""Foreign files keep their stream and context ids, whatever numbers those are."""

import json
import subprocess
import sys

import pytest

from tests.unit.formats import kineto_file
from warpsight.formats.target import Target
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace

#: (context, stream)
STREAMS = [(-1, 7), (1, -1), (1, 7), (1, 16777223), (1, 7 + (1 << 40)), (1 << 24, 7)]


def warpsight(*arguments):
    command = [sys.executable, "-m", "warpsight.ui.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def streams(path):
    rows = json.loads(warpsight("stats", path, "--by", "stream", "--json"))["tables"]["kernels"]["rows"]
    return sorted((row["context"], row["stream"]) for row in rows)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    kernels = [kineto_file.kernel(10.0 * i, context=c, stream=s) for i, (c, s) in enumerate(STREAMS)]
    return kineto_file.write(tmp_path_factory.mktemp("kineto") / "trace.json", kernels)


def test_a_file_of_torch_profiler_keeps_its_streams(file):
    assert streams(file) == sorted(STREAMS)


@pytest.mark.parametrize("form", ["kineto", "chrome", "perfetto"])
def test_an_export_keeps_them_too(file, form, tmp_path):
    out = tmp_path / f"out.{'pftrace' if form == 'perfetto' else 'json'}"
    warpsight("export", file, "--to", form, "-o", out)
    assert streams(out) == sorted(STREAMS)


def test_keys_that_are_no_numbers_get_numbers_that_no_stream_has(tmp_path):
    with TraceWriter(tmp_path / "t.warp") as writer, Target(writer) as target:
        process = target.process(1)
        context = target.context(process, -1)
        found = [target.stream(process, context, key) for key in (-2, "a", "b", -1, 1 << 64, "a", -2, -1)]
        assert found[:3] == [-2, -1, -3]
        assert found[5:7] == [-1, -2] and found[7] == found[3]
        assert len(set(found[:5])) == 5
        target.close()
    with open_trace(tmp_path / "t.warp") as trace:
        names = dict(trace.sql("SELECT stream, name FROM stream").fetchall())
        assert {names[number] for number in found} == {None, "a", "b", "-1", str(1 << 64)}
