"""Replays in a process of their own, on a stand-in for the driver: what they compare, what they say, what they refuse."""

from __future__ import annotations

import ctypes
import hashlib
import json
import shutil
import struct
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from tests.standin import replaying
from tests.standin.replaying import BASE, COUNT, INPUT, KERNEL, answer, parameters, write
from warpsight import _native
from warpsight.model import TraceWriter
from warpsight.replay.capsule import manifest as m
from warpsight.replay.capsule.store import Writer

pytestmark = pytest.mark.skipif(
    (library := _native.library_path()) is None or not library.with_name("warpsight-replay").is_file(),
    reason="this build has no warpsight-replay",
)
Y = BASE + 16384


@pytest.fixture(scope="module")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return replaying.build(tmp_path_factory.mktemp("standin"))


def test_a_deterministic_kernel_is_bit_exact(standin: Path, tmp_path: Path) -> None:
    write(tmp_path / "x.capsule")
    found = answer(standin, tmp_path / "x.capsule", "--repeat", "4")
    schema = json.loads((resources.files("warpsight.ui.cli") / "schemas" / "replay.json").read_text("utf-8"))
    Draft202012Validator(schema).validate({name: value for name, value in found.items() if name != "code"})
    assert found["code"] == 0 and found["verdict"] == "bit-exact"
    (version,) = found["versions"]
    assert version["runs"] == 8 and version["totals_ns"] == [10_000] * 4
    (operation,) = version["operations"]
    assert (
        operation["name"] == "scale"
        and operation["median_ns"] == 10_000
        and operation["recorded_ns"] == 12_000
    )


def test_the_first_difference_from_the_recording_is_named(standin: Path, tmp_path: Path) -> None:
    write(tmp_path / "x.capsule", (KERNEL, "scale_off"))
    found = answer(standin, tmp_path / "x.capsule")
    assert found["code"] == 4 and found["verdict"] == "different"
    (row,) = found["versions"][0]["recorded"]
    assert (row["allocation"], row["element"], row["dtype"]) == (1, 7, "float32")
    assert (
        row["largest"] == 1
        and row["differing"] == 1
        and row["elements"] == COUNT
        and row["address"] == Y + 28
    )
    assert row["operation"] == 1 and row["kernel"] == "scale_off"


def test_a_kernel_that_varies_is_non_deterministic_and_named(standin: Path, tmp_path: Path) -> None:
    write(tmp_path / "x.capsule", (KERNEL, "noisy"))
    found = answer(standin, tmp_path / "x.capsule")
    assert found["code"] == 5 and found["verdict"] == "non-deterministic"
    (row,) = found["versions"][0]["runs_differ"]
    assert (row["element"], row["kernel"], row["operation"], row["largest"]) == (3, "noisy", 1, 1)


def test_a_failing_kernel_is_named(standin: Path, tmp_path: Path) -> None:
    write(tmp_path / "x.capsule", (KERNEL, "faulty"))
    done = replaying.replay(standin, tmp_path / "x.capsule")
    assert done.returncode == 6 and "Traceback" not in done.stderr
    assert "CUDA_ERROR_ILLEGAL_ADDRESS in operation 1, faulty" in done.stdout


def test_a_kernel_of_several_modules_is_swapped_in_each(standin: Path, tmp_path: Path) -> None:
    write(tmp_path / "x.capsule", (KERNEL, KERNEL))
    (tmp_path / "fast.ptx").write_text(".entry scale_fast(\n kernels: scale_fast ")
    found = answer(standin, tmp_path / "x.capsule", "--swap", f"scale={tmp_path / 'fast.ptx'}")
    assert [row["median_ns"] for row in found["versions"][1]["operations"]] == [5_000, 5_000]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--scale", "nan", "--schedule", "original"], "--scale nan: a factor"),
        (["--scale", "inf", "--schedule", "original"], "--scale inf: a factor"),
        (["--scale", "2"], "--schedule original"),
        (["--mode", "partial"], "needs --operations"),
        (["--mode", "stream", "--stream", "9"], "streams 0 to 0"),
        (["--operations", "5..2"], "operations 0 to 0"),
        (["--schedule", "slow"], "write fast, original or graph"),
        (["--dtype", "float7"], "write one of float64"),
        (["--swap", "add=x.ptx"], "it has: scale"),
        (["--swap", "scale=missing.ptx"], "missing.ptx"),
        (["--under", "no-such-tool"], "not installed"),
    ],
)
def test_a_wrong_use_is_one_line_with_a_remedy(
    standin: Path, tmp_path: Path, options: list[str], words: str
) -> None:
    write(tmp_path / "x.capsule")
    done = replaying.replay(standin, tmp_path / "x.capsule", *options)
    assert (done.returncode, done.stdout) == (2, "") and words in done.stderr and done.stderr.count("\n") == 1


def test_a_gpu_that_is_not_there_is_said(standin: Path, tmp_path: Path) -> None:
    write(tmp_path / "x.capsule")
    done = replaying.replay(standin, tmp_path / "x.capsule", "--device", "7")
    assert done.returncode == 6 and "number 7 is not there: this machine has 1 (--device)" in done.stdout


def test_no_write_is_said(standin: Path, tmp_path: Path) -> None:
    write(tmp_path / "x.capsule", operations=[m.EventRecord(0, 0), m.Set(0, BASE + 16384, 0, 1, 4)], events=1)
    done = replaying.replay(standin, tmp_path / "x.capsule", "--writes")
    assert "writes: no operation changed a byte" in done.stdout


def test_a_swapped_kernel_is_timed_and_compared(standin: Path, tmp_path: Path) -> None:
    write(tmp_path / "x.capsule")
    faster = tmp_path / "fast.ptx"
    faster.write_text(".entry scale_fast(\n kernels: scale_fast ")
    found = answer(standin, tmp_path / "x.capsule", "--swap", f"scale={faster}")
    assert found["code"] == 0 and [v["verdict"] for v in found["versions"]] == ["bit-exact", "bit-exact"]
    assert [v["operations"][0]["median_ns"] for v in found["versions"]] == [10_000, 5_000]
    wrong = tmp_path / "wrong.ptx"
    wrong.write_text(".entry scale_off(\n kernels: scale_off ")
    found = answer(standin, tmp_path / "x.capsule", "--swap", f"scale={wrong}")
    assert found["code"] == 4 and [v["verdict"] for v in found["versions"]] == ["bit-exact", "different"]
    assert found["versions"][1]["original"][0]["largest"] == 1
    text = replaying.replay(standin, tmp_path / "x.capsule", "--swap", f"scale={faster}").stdout
    assert "-50.0%" in text


@pytest.mark.parametrize(
    ("kernel", "code", "words"),
    [
        (KERNEL, 0, "no write left the capsule"),
        ("beyond", 7, f"a kernel wrote to {Y + 4 * COUNT:#x}"),
        ("reads_beyond", 7, "the outputs depend on memory"),
    ],
)
def test_reach_is_proven_or_refuted(
    standin: Path, tmp_path: Path, kernel: str, code: int, words: str
) -> None:
    write(tmp_path / "x.capsule", (kernel,))
    done = replaying.replay(standin, tmp_path / "x.capsule", "--check-reach")
    assert done.returncode == code and words in done.stdout


def test_pointers_to_variables_are_mended_wherever_they_are(standin: Path, tmp_path: Path) -> None:
    """y = *pointer, where x[0..8) held the variable's address in the recorded process."""
    table = np.arange(16, dtype=np.float32)
    variable = m.Global(0, "table", BASE + (1 << 30), 64)
    pointers = struct.pack("<Q", variable.address + 8).ljust(INPUT.nbytes, b"\0")

    def variables(writer: Writer) -> list[m.Global]:
        contents = writer.put(table.tobytes())
        return [m.Global(0, "table", variable.address, 64, before=contents, after=contents)]

    def memory(writer: Writer) -> list[m.Allocation]:
        y = bytearray(INPUT.nbytes)
        y[: 4 * 10] = table[2:12].tobytes()
        held = writer.put(pointers)
        return [
            m.Allocation(BASE, INPUT.nbytes, "malloc", before=held, after=held, relocations=[m.Relocation(0, 0, 8)]),
            m.Allocation(Y, INPUT.nbytes, "malloc", after=writer.put(bytes(y))),
        ]  # fmt: skip

    launch = m.Launch(0, 0, (1, 1, 1), (1, 1, 1), parameters(Y, BASE, count=10))
    write(tmp_path / "x.capsule", ("through",), globals=variables, allocations=memory, operations=[launch])
    found = answer(standin, tmp_path / "x.capsule")
    assert found["verdict"] == "bit-exact", found


@pytest.mark.parametrize("pinned", [False, True])
def test_graphs_copies_fills_and_streams(standin: Path, tmp_path: Path, pinned: bool) -> None:
    half = COUNT // 2 * 4

    def operations(writer: Writer) -> list[m.Operation]:
        return [
            m.Set(1, Y, 0, 4, COUNT),
            m.EventRecord(1, 0),
            m.EventWait(0, 0),
            m.Synchronize(stream=1),
            m.GraphLaunch(0, 0),
            m.Copy(
                0,
                16,
                destination=Y + 256,
                host=writer.put(np.full(4, 1.5, np.float32).tobytes()),
                pinned=pinned,
            ),
            m.Copy(
                0,
                8,
                destination=Y + 64,
                host=writer.put(bytes(24)),
                rows=3,
                destination_pitch=16,
                pinned=pinned,
            ),
            m.Copy(1, 100, source=Y),
            m.Synchronize(),
        ]

    wanted = np.concatenate([INPUT[: COUNT // 2] * 2, INPUT[: COUNT // 2] * 2])
    wanted[64:68] = 1.5
    for row in range(3):
        wanted[16 + 4 * row : 18 + 4 * row] = 0
    launch = m.Launch(0, 0, (1, 1, 1), (1, 1, 1), parameters(Y, BASE, count=COUNT // 2))
    nodes = [
        m.GraphNode(None),
        m.GraphNode(launch, [0]),
        m.GraphNode(m.Copy(0, half, destination=Y + half, source=Y), [0, 1]),
    ]
    write(
        tmp_path / "x.capsule", (KERNEL,), wanted, operations=operations, graphs=[m.Graph(nodes)], events=1,
        streams=[m.Stream(default=True), m.Stream()],
    )  # fmt: skip
    found = answer(standin, tmp_path / "x.capsule")
    assert found["verdict"] == "bit-exact", found
    names = [row["name"] for row in found["versions"][0]["operations"]]
    assert names == [
        "set 12000 bytes", "graph of 3 nodes", "copy HtoD, 16 bytes", "copy HtoD, 24 bytes", "copy DtoH, 100 bytes"
    ]  # fmt: skip


def test_a_part_runs_what_comes_before_it_and_times_the_rest(standin: Path, tmp_path: Path) -> None:
    write(tmp_path / "x.capsule", (KERNEL, "scale_off", "noisy"))
    found = answer(standin, tmp_path / "x.capsule", "--operations", "1..1")
    assert found["verdict"] == "repeatable" and found["code"] == 0
    assert [row["operation"] for row in found["versions"][0]["operations"]] == [1]
    assert found["versions"][0]["totals_ns"][0] == 10_000
    assert "not with the recording" in " ".join(found["notes"])
    done = replaying.replay(standin, tmp_path / "x.capsule", "--operations", "2..9")
    assert done.returncode == 2 and "operations 0 to 2" in done.stderr


@pytest.mark.parametrize("schedule", ["original", "graph"])
def test_other_schedules_leave_the_same_bytes(standin: Path, tmp_path: Path, schedule: str) -> None:
    write(tmp_path / "x.capsule", (KERNEL, KERNEL))
    assert answer(standin, tmp_path / "x.capsule", "--schedule", schedule)["verdict"] == "bit-exact"


def test_a_gpu_without_code_for_it_is_named(standin: Path, tmp_path: Path) -> None:
    write(tmp_path / "x.capsule", modules=lambda w: [m.LoadedModule("ptx", 4, w.put(b"PTX\0"))])
    done = replaying.replay(standin, tmp_path / "x.capsule")
    assert done.returncode == 6 and "on a GPU of compute capability 9.0" in done.stdout


def test_no_gpu_is_one_clear_error(standin: Path, tmp_path: Path) -> None:
    write(tmp_path / "x.capsule")
    done = replaying.replay(standin, tmp_path / "x.capsule", STANDIN_NO_DEVICE="1")
    assert done.returncode == 6 and "CUDA_ERROR_NO_DEVICE" in done.stdout


def test_no_driver_is_one_clear_error(tmp_path: Path) -> None:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        write(tmp_path / "x.capsule")
        done = replaying.replay(tmp_path, tmp_path / "x.capsule")
        assert (done.returncode, done.stdout) == (1, "")
        assert "this machine has no NVIDIA driver" in done.stderr and done.stderr.count("\n") == 1
    else:
        pytest.skip("this machine has an NVIDIA driver")


def test_a_taken_address_is_named_and_nothing_runs(standin: Path, tmp_path: Path) -> None:
    """No process can have memory up there."""
    high = 1 << 55
    write(
        tmp_path / "x.capsule",
        allocations=[m.Allocation(high, 4096, "malloc")],
        operations=[m.Set(0, high, 1, 1, 1)],
    )
    done = replaying.replay(standin, tmp_path / "x.capsule")
    assert done.returncode == 1 and "is taken" in done.stderr and not done.stdout


def damaged_chunk(capsule: Path) -> None:
    blob = max((capsule / "blobs").iterdir(), key=lambda path: path.stat().st_size)
    data = bytearray(blob.read_bytes())
    data[len(data) // 2] ^= 0x40
    blob.write_bytes(data)


def edited(change: Callable[[Any], None]) -> Callable[[Path], None]:
    def damage(capsule: Path) -> None:
        document = json.loads((capsule / "capsule.json").read_text())
        change(document)
        text = json.dumps(document)
        (capsule / "capsule.json").write_text(text)
        checksum = f"{hashlib.sha256(text.encode()).hexdigest()}  capsule.json\n"
        (capsule / "capsule.sha256").write_text(checksum)  # forged, too

    return damage


def unknown_attribute(document: Any) -> None:
    document["operations"][0]["attributes"] = [{"id": 7, "value": "A" * 85 + "A="}]


@pytest.mark.parametrize(
    "damage",
    [
        damaged_chunk,
        edited(lambda d: d["operations"][0].update(function=9)),
        edited(lambda d: d["operations"][0].update(parameters="AAAA")),
        edited(lambda d: d["allocations"][0].update(address=2**60)),
        edited(lambda d: d["allocations"].reverse()),
        edited(lambda d: d["functions"][0].update(attributes={"10": 1})),
        edited(unknown_attribute),
    ],
)
def test_a_hostile_or_damaged_capsule_executes_nothing(
    standin: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    """The kernel that would run is a faulty one, so running any of it would show."""
    write(tmp_path / "x.capsule", ("faulty",))
    damage(tmp_path / "x.capsule")
    done = replaying.replay(standin, tmp_path / "x.capsule")
    assert done.returncode == 1 and not done.stdout
    assert len(done.stderr.strip().splitlines()) <= 3 and "Traceback" not in done.stderr


def test_under_a_tool_it_runs_once(standin: Path, tmp_path: Path) -> None:
    write(tmp_path / "x.capsule")
    tool = shutil.which("env")
    assert tool is not None
    found = answer(standin, tmp_path / "x.capsule", "--under", f"{tool} A=B")
    assert found["verdict"] == "bit-exact" and found["versions"][0]["runs"] == 1


def test_the_program_refuses_what_is_no_script(tmp_path: Path) -> None:
    """Sections outside the file, and files of another kind."""
    import subprocess

    from warpsight.replay.execution import program

    (tmp_path / "data").write_bytes(b"")
    for text in (b"", b"WSREPLAY" + b"\xff" * 400, b"\0" * 4096):
        (tmp_path / "script").write_bytes(text)
        done = subprocess.run([program(), tmp_path / "script", tmp_path / "data", tmp_path], check=False)
        assert done.returncode == 2


def test_other_schedules_are_measured_beside_their_prediction(standin: Path, tmp_path: Path) -> None:
    write(tmp_path / "x.capsule", (KERNEL, "noisy", KERNEL))
    wanted = ("streams:noisy", "graphs", "kernel:noisy=none", "merge")
    found = answer(standin, tmp_path / "x.capsule", *(word for what in wanted for word in ("-w", what)))
    schema = json.loads((resources.files("warpsight.ui.cli") / "schemas" / "replay.json").read_text("utf-8"))
    Draft202012Validator(schema).validate({name: value for name, value in found.items() if name != "code"})
    changes = {row["what"]: row for row in found["changes"]}
    assert [changes[what]["median_ns"] for what in wanted] == [30_000, 30_000, 20_000, 30_000]
    assert [changes[what]["predicted_ns"] is None for what in wanted] == [False, False, False, True]
    assert changes["kernel:noisy=none"]["verdict"] == "repeatable"
    said = replaying.replay(standin, tmp_path / "x.capsule", "-w", "kernel:noisy=none").stdout
    assert "kernel:noisy=none" in said and "-33.3%" in said


def test_what_a_graph_saves_is_predicted_from_the_pace_of_launches(standin: Path, tmp_path: Path) -> None:
    """Kernels follow each other 20 ms sooner in a graph of this device: far longer than the host's own times here."""
    write(tmp_path / "x.capsule", (KERNEL,) * 10)
    done = replaying.replay(
        standin, tmp_path / "x.capsule", "-w", "graphs", "--json", STANDIN_LAUNCH_GAP="20000"
    )
    found = json.loads(done.stdout)
    assert found["versions"][0]["totals_ns"][0] == pytest.approx(200_100_000)
    (change,) = found["changes"]
    assert change["median_ns"] == 100_000
    assert change["predicted_ns"] < 60_000_000  # one launch's gap stays: before the first kernel


def test_a_change_that_matches_nothing_is_refused_before_anything_runs(standin: Path, tmp_path: Path) -> None:
    write(tmp_path / "x.capsule")
    done = replaying.replay(standin, tmp_path / "x.capsule", "-w", "streams:conv")
    assert done.returncode == 2 and "matches no operation" in done.stderr


def test_a_trace_is_replayed_with_kernels_that_wait(standin: Path) -> None:
    trace = Path(__file__).parents[1] / "golden" / "planted_serialised_streams.warp.zip"
    found = answer(standin, trace, "--operations", "0..99", "-n", "1", "--validate")
    assert found["code"] == 0 and found["verdict"] == "repeatable", found
    assert (found["validation"]["violations"], found["validation"]["ordered"]) == ([], 95)
    kernels = [row for row in found["versions"][0]["operations"] if row["name"].startswith("kernel_")]
    assert kernels and all(abs(row["median_ns"] - row["recorded_ns"]) <= 2000 for row in kernels)


def test_a_dry_run_finds_what_ran_before_it_could(tmp_path: Path) -> None:
    row = {"process": 0, "device": 0, "context": 1, "duration": 10_000}
    with TraceWriter(tmp_path / "t.warp") as writer:
        gemm = writer.name("gemm")
        writer.add(
            "launch", [{"process": 0, "thread": 1, "correlation": i, "start": 1000 * i, "duration": 500,
                        "function": "cudaLaunchKernel", "captured": False} for i in (1, 2, 5)]
        )  # fmt: skip
        writer.add(
            "kernel", [{**row, "stream": stream, "correlation": i, "start": start, "name_id": gemm, "graph_level": False}
                       for i, stream, start in ((1, 7, 10_000), (2, 7, 15_000), (5, 8, 20_000))]
        )  # fmt: skip
        event = {"process": 0, "device": 0, "context": 1, "event": 1, "event_sync": 9}
        wait = {"start": 4000, "duration": 10, "kind": "stream wait event", "result": 0}
        writer.add("event", [{**event, "stream": 7, "correlation": 3, "time": None}])
        writer.add("sync", [{**event, **wait, "stream": 8, "correlation": 4}])
        call = {"process": 0, "thread": 1, "duration": 500}
        writer.add(
            "api",
            [{**call, "correlation": i, "start": 1000 * i, "function": "cudaEventRecord"} for i in (3, 4)],
        )
    done = replaying.replay(tmp_path, tmp_path / "t.warp", "--mode", "dry-run", "--validate", "--json")
    checked = json.loads(done.stdout)["validation"]
    assert done.returncode == 8 and (checked["ordered"], checked["depending"]) == (1, 1), (
        done.stdout + done.stderr
    )
    assert [(v["kind"], v["operation"], v["waited_for"], v["early_ns"]) for v in checked["violations"]] == [
        ("order", 1, 0, 5000), ("dependency", 4, 1, 5000)
    ]  # fmt: skip


def test_what_a_trace_cannot_answer_is_refused(standin: Path) -> None:
    trace = Path(__file__).parents[1] / "golden" / "planted_serialised_streams.warp.zip"
    done = replaying.replay(standin, trace, "--check-reach")
    assert done.returncode == 2 and "need a capsule" in done.stderr


def test_the_writes_of_each_operation_are_told(standin: Path, tmp_path: Path) -> None:
    write(tmp_path / "x.capsule", (KERNEL, "scale_off", KERNEL))
    found = answer(standin, tmp_path / "x.capsule", "--writes", "--operations", "1..2")
    assert [(row["operation"], row["name"], row["allocation"], row["begin"]) for row in found["writes"]] == [
        (1, "scale_off", 1, 28), (2, "scale", 1, 28)
    ]  # fmt: skip
