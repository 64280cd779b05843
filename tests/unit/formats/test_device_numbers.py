"""A device is called what the file calls it; --device takes that number and refuses others."""

import json
import subprocess
import sys

import pytest

from tests.unit.formats import kineto_file, nsys_export
from warpsight.formats.importing import import_files
from warpsight.formats.target import Target
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace


def run(*arguments):
    command = [sys.executable, "-m", "warpsight.ui.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def durations(path, device):
    """Total of each kernel name on a device."""
    result = run("stats", path, "--device", device, "--json")
    assert result.returncode == 0, result.stderr
    return {row["name"]: row["total"] for row in json.loads(result.stdout)["tables"]["kernels"]["rows"]}


def of_devices(folder, *devices):
    """A file in which the kernel of each device bears its number, written in this order."""
    kernels = [kineto_file.kernel(10 * i, name=f"on {d}", device=d) for i, d in enumerate(devices, 1)]
    properties = [{"id": d, "name": f"NVIDIA H{d}"} for d in devices]
    return kineto_file.write(folder / "trace.json", kernels, deviceProperties=properties)


def test_the_only_device_of_a_file_keeps_its_number(tmp_path):
    file = of_devices(tmp_path, 3)
    assert durations(file, 3) == {"on 3": 5_000}
    refused = run("stats", file, "--device", 0)
    assert refused.returncode == 2
    assert refused.stderr.strip().endswith("there is no device 0; the trace has 3 (NVIDIA H3)")


@pytest.mark.parametrize("form", ["kineto", "chrome", "perfetto"])
def test_devices_seen_in_another_order_keep_number_index_and_name_through_an_export(tmp_path, form):
    file = of_devices(tmp_path, 5, 1, 3)
    out = tmp_path / f"out.{'pftrace' if form == 'perfetto' else 'json'}"
    assert run("export", file, "--to", form, "-o", out).returncode == 0
    for path in (file, out):
        rows = run("query", path, 'SELECT device, "index", name FROM device ORDER BY 1', "--format", "csv")
        assert rows.stdout.splitlines()[1:] == ["1,1,NVIDIA H1", "3,3,NVIDIA H3", "5,5,NVIDIA H5"]
        for device in (1, 3, 5):
            assert durations(path, device) == {f"on {device}": 5_000}


def test_a_report_of_nsight_systems_keeps_its_ordinals(tmp_path):
    first = nsys_export.TABLES["CUPTI_ACTIVITY_KIND_KERNEL"][0]
    tables = {
        **nsys_export.TABLES,
        "TARGET_INFO_CUDA_DEVICE": [{"gpuId": g, "cudaId": g, "pid": 42} for g in (0, 1)],
        "CUPTI_ACTIVITY_KIND_KERNEL": [
            {**first, "deviceId": 1, "end": first["start"] + 111},
            {**first, "deviceId": 0, "start": first["start"] + 500, "end": first["start"] + 722},
        ],
    }
    file = nsys_export.write_sqlite(tmp_path / "report.sqlite", tables)
    assert sum(durations(file, 0).values()) == 222 + 900  # the second is a graph's
    assert sum(durations(file, 1).values()) == 111


def test_equal_numbers_of_two_files_are_two_devices(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    files = [of_devices(tmp_path / name, 0, 1) for name in ("one", "two")]
    import_files(files, tmp_path / "both.warp")
    with open_trace(tmp_path / "both.warp") as trace:
        rows = trace.sql('SELECT device, "index" FROM device ORDER BY device').fetchall()
    assert rows == [(0, 0), (1, 1), (2, 0), (3, 1)]


def test_devices_without_a_number_get_the_first_free_ones(tmp_path):
    with TraceWriter(tmp_path / "t.warp") as writer, Target(writer) as target:
        assert target.device("a", index=1) == 1
        assert [target.device(key) for key in ("b", "c")] == [0, 2]
        assert target.device("d", index=1 << 20) == 3
        assert target.device("e", index=-1) == 4
        assert target.device("a", index=7) == 1
        target.close()


@pytest.mark.parametrize(
    "verb",
    [("analyze",), ("flame", "-o", "out.svg"), ("view",), ("report", "-o", "out.html"),
     ("export", "--to", "chrome", "-o", "out.json")],
)  # fmt: skip
def test_every_verb_refuses_a_device_that_is_not_there(tmp_path, verb):
    file = of_devices(tmp_path, 3, 4)
    options = [tmp_path / word if word.startswith("out.") else word for word in verb[1:]]
    result = run(verb[0], file, "--device", 0, *options)
    assert result.returncode == 2
    assert "there is no device 0; the trace has 3 (NVIDIA H3), 4 (NVIDIA H4)" in result.stderr
    assert not list(tmp_path.glob("out.*"))


def test_diff_refuses_a_device_that_one_of_the_traces_lacks(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    one, two = of_devices(tmp_path / "one", 3, 4), of_devices(tmp_path / "two", 3)
    assert run("diff", one, two, "--device", 3).returncode in (0, 1)
    assert run("diff", one, two, "--device", 4).returncode == 2
    assert run("diff", two, one, "--device", 4).returncode == 2
