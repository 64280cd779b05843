"""The ROCm recorder, whole and unchanged, in programs whose ROCm is a scripted stand-in (tests/standin/rocm)."""

from __future__ import annotations

import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.standin import recording
from tests.standin.recording import Arena, Outcome
from warpsight_plugins.backends import BACKENDS

ROCM = next(one for one in BACKENDS if one.name == "rocm")

SOURCES = recording.SOURCES / "rocm"


@dataclass(frozen=True)
class Did:
    """A kernel as the stand-in's GPU ran it: times on its clock, the stream as a handle."""

    name: str
    start: int
    duration: int
    correlation: int
    stream: str
    device: int
    grid: int
    block: int
    shared: int


@dataclass(frozen=True)
class Recorded:
    """What a run left, and the stand-in's own account of it."""

    outcome: Outcome
    kernels: list[Did]

    @property
    def only(self) -> Arena:
        return self.outcome.only


Record = Callable[..., Recorded]


@pytest.fixture(scope="session")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the built stand-in and its program."""
    if recording.compiler() is None:
        pytest.skip("building the stand-in needs a C++ compiler")
    folder = tmp_path_factory.mktemp("rocm")
    subprocess.run([SOURCES / "build.sh", folder], check=True)
    return folder


def account(log: Path) -> list[Did]:
    """The kernels of the stand-in's log, in the order they were dispatched."""
    rows = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
    return [Did(row[1], int(row[2]), int(row[3]), int(row[4]), row[5], *map(int, row[6:10]))
            for row in rows if row[0] == "kernel"]  # fmt: skip


@pytest.fixture
def record(standin: Path, library: Path, tmp_path: Path) -> Record:
    """Runs the program's steps under the recorder; ROCM_STANDIN and WARPSIGHT_* come as keywords."""

    def run(*steps: str, standin_says: str = "", folders: str = "", **settings: str) -> Recorded:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        environment = {
            "LD_LIBRARY_PATH": f"{folders}{standin}",
            "ROCP_TOOL_LIBRARIES": str(library),
            "ROCM_STANDIN": standin_says,
            "ROCM_STANDIN_LOG": str(folder / "log.txt"),
            "WARPSIGHT_FLUSH_MS": "20",
            **settings,
        }
        outcome = recording.run([standin / "program", *steps], folder, environment)
        assert outcome.code in (0, 9), outcome.errors
        return Recorded(outcome, account(folder / "log.txt"))

    return run


def kernels(arena: Arena) -> list[tuple[str, int, int]]:
    """(name, duration, correlation) of the kernel rows."""
    rows = arena.rows("Kernel")
    return list(
        zip(
            arena.names(rows),
            (rows["end"] - rows["start"]).tolist(),
            rows["correlation"].tolist(),
            strict=True,
        )
    )


def shape_of(arena: Arena, row: object) -> dict[str, int]:
    """The shape of a launch or kernel."""
    shapes = arena.rows("Shape")
    (found,) = shapes[shapes["id"] == row["shape"]]  # type: ignore[index]
    return {name: int(found[name]) for name in found.dtype.names}


def test_kernels_are_those_that_the_gpu_ran(record: Record) -> None:
    done = record("init", "launch:_Z3addPfS_i:1200", "launch:mul:300", "sync")
    assert len(done.kernels) == 1500
    assert sorted(kernels(done.only)) == sorted((k.name, k.duration, k.correlation) for k in done.kernels)
    assert done.only.rows("Kernel")["start"].tolist() == [k.start for k in done.kernels]
    assert done.only.losses(severity=1) == []


def test_every_launch_has_its_kernel(record: Record) -> None:
    arena = record("init", "launch:add:700", "threads:4:50", "sync").only
    launches = arena.launches()
    calls = Counter(zip(launches["correlation"].tolist(), arena.names(launches), strict=True))
    rows = arena.rows("Kernel")
    assert len(rows) == len(launches) == 900
    assert all(calls[key] == 1 for key in zip(rows["correlation"].tolist(), arena.names(rows), strict=True))


def test_a_kernel_starts_within_its_launch_on_one_clock(record: Record) -> None:
    """The library's clock is a week ahead of CLOCK_MONOTONIC, as after a long sleep of the machine."""
    done = record("init", "launch:add:200", "sync", standin_says="clock_ahead_s=604800")
    arena = done.only
    launches = {int(row["correlation"]): row for row in arena.launches()}
    for row in arena.rows("Kernel"):
        call = launches[int(row["correlation"])]
        assert call["start"] - 1000 <= row["start"] <= call["start"] + call["duration"] + 1000


def test_streams_are_those_of_the_calls(record: Record) -> None:
    done = record("init", "stream", "stream", "launch:a:3", "launch:b:3:1", "launch:c:3:2", "sync")
    arena = done.only
    rows = arena.rows("Kernel")
    by_name = dict(zip(arena.names(rows), rows["stream"].tolist(), strict=True))
    assert by_name["a"] == 0
    assert len({by_name[name] for name in "abc"}) == 3
    handles = {k.correlation: k.stream for k in done.kernels}
    used = {(int(row["stream"]), handles[int(row["correlation"])]) for row in rows}
    assert len(used) == 3
    named = {int(row["stream"]): arena.texts.get(int(row["name"]), "") for row in arena.rows("Stream")}
    assert named == {0: "default", by_name["b"]: "", by_name["c"]: ""}


def test_a_stream_made_where_one_was_destroyed_is_another(record: Record) -> None:
    arena = record("init", "stream", "launch:a:1:1", "sync", "destroy", "stream", "launch:b:1:1", "sync").only
    rows = arena.rows("Kernel")
    assert len(set(rows["stream"].tolist())) == 2


def test_devices_are_the_gpus_and_their_memory(record: Record) -> None:
    arena = record("init", "device:1", "launch:add:2", "sync").only
    assert arena.rows("Kernel")["device"].tolist() == [1, 1]
    devices = arena.rows("Device")
    assert arena.names(devices) == ["Stand-in Instinct (gfx942)"] * 2
    assert arena.names(devices, "pci") == ["0000:01:00.0", "0000:02:00.0"]
    assert arena.names(devices, "uuid") == ["GPU-102030405060701", "GPU-102030405060702"]
    assert arena.names(devices, "runtime") == ["rocprofiler-sdk 1.0.0"] * 2
    assert set(devices["memory_bytes"].tolist()) == {64 << 30}
    assert set(devices["multiprocessors"].tolist()) == {304}
    assert set(devices["platform"].tolist()) == {ROCM.platform}


def test_one_row_for_each_call_in_every_launch_form(record: Record) -> None:
    arena = record("init", "forms", "sync").only
    forms = {
        "hipLaunchKernel": "plain", "hipLaunchKernel_spt": "per_thread", "hipExtLaunchKernel": "extended",
        "hipModuleLaunchKernel": "of_module", "hipExtModuleLaunchKernel": "in_items", "hipLaunchKernelExC": "configured",
    }  # fmt: skip
    launches = arena.launches()
    named = [n for n, row in zip(arena.functions(), arena.rows("Api"), strict=True) if row["flags"] & 1]
    assert dict(zip(named, arena.names(launches), strict=True)) == forms
    assert sorted(arena.names(arena.rows("Kernel"))) == sorted(forms.values())
    for row in [*launches, *arena.rows("Kernel")]:
        shape = shape_of(arena, row)
        assert (shape["grid_x"], shape["block_x"], shape["registers"]) == (4, 128, 32)


def test_shapes_have_registers_and_both_kinds_of_shared_memory(record: Record) -> None:
    arena = record("init", "launch:add:1", "sync").only
    shape = shape_of(arena, arena.rows("Kernel")[0])
    assert [shape[f"grid_{axis}"] for axis in "xyz"] == [4, 2, 1]
    assert (shape["shared_static"], shape["shared_dynamic"]) == (512, 256)
    assert (shape["registers"], shape["local_per_thread"]) == (32, 16)
    assert arena.names(arena.rows("Module")) == ["file:///opt/program#offset=4096&size=8192"]
    assert arena.rows("Kernel")["module"].tolist() == arena.rows("Module")["id"].tolist()


def test_copies_sets_and_allocations_carry_address_and_size(record: Record) -> None:
    arena = record(
        "init", "stream", "copy:4096:1", "copy_async:512:2", "copy:64:3", "set:256", "malloc:8192", "sync"
    ).only
    calls = arena.rows("CopyCall")
    assert calls["bytes"].tolist() == [4096, 512, 64, 256]
    assert calls["source"].tolist() == [0x500, 0x500, 0x500, 0]
    assert calls["destination"].tolist() == [0xD00, 0xD00, 0xD00, 0xE00]
    rows = arena.rows("Memcpy")
    assert rows["bytes"].tolist() == [4096, 512, 64]
    assert rows["kind"].tolist() == [1, 2, 8]
    assert rows["flags"].tolist() == [0, 1, 0]
    assert rows["source_device"].tolist() == [65535, 0, 0]
    assert rows["destination_device"].tolist() == [0, 65535, 0]
    assert rows["stream"].tolist() == [0, 1, 0]
    assert rows["correlation"].tolist() == calls["correlation"].tolist()[:3]
    memory = arena.rows("Memory")
    assert memory["operation"].tolist() == [1, 2]
    assert memory["address"].tolist() == [0xABC000] * 2
    assert memory["bytes"].tolist() == [8192, 0]


def test_waits_and_events(record: Record) -> None:
    arena = record("init", "stream", "events", "wait", "sync").only
    assert arena.rows("Event")["event_sync"].tolist() == [0xE0]
    assert arena.rows("Event")["stream"].tolist() == [1]
    waits = arena.rows("Sync")
    assert waits["type"].tolist() == [2, 1, 3, 4]
    assert waits["stream"].tolist() == [1, 0xFFFFFFFF, 1, 0xFFFFFFFF]
    assert waits["event_sync"].tolist() == [0xE0, 0xE0, 0, 0]


def test_ranges_of_roctx(record: Record) -> None:
    arena = record("init", "ranges").only
    rows = arena.rows("Marker")
    assert rows["phase"].tolist() == [1, 1, 5, 2, 2, 3, 4]
    assert arena.names(rows) == ["outer", "inner", "here", "", "", "across", ""]
    assert rows["id"].tolist()[:2] == [0, 1]
    assert rows["id"][5] == rows["id"][6] == 41
    assert set(rows["source"].tolist()) == {4}


def test_graphs_and_captures_expect_no_kernel_of_their_own(record: Record) -> None:
    arena = record("init", "capture:3", "graph:2", "sync").only
    launches = arena.launches()
    captured = [bool(row["flags"] & 8) for row in launches]
    assert captured == [True, True, True, False, False]
    assert sorted(arena.names(arena.rows("Kernel"))) == ["first_node"] * 2 + ["second_node"] * 2
    assert set(arena.rows("Kernel")["correlation"].tolist()) == set(launches["correlation"][3:].tolist())


def test_a_failed_launch_keeps_its_return_code(record: Record) -> None:
    arena = record("init", "fail", "sync").only
    assert arena.launches()["result"].tolist() == [98]
    assert not len(arena.rows("Kernel"))


@pytest.mark.parametrize("version", ["400", "500", "600", "10000", "10203"])
def test_records_of_every_supported_version_are_read(record: Record, version: str) -> None:
    done = record("init", "launch:add:300", "copy:64", "ranges", "sync", standin_says=f"version={version}")
    assert sorted(kernels(done.only)) == sorted((k.name, k.duration, k.correlation) for k in done.kernels)
    assert done.only.rows("Memcpy")["bytes"].tolist() == [64]
    assert len(done.only.rows("Device")) == 2
    assert done.only.losses(severity=1) == []


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        ("version=700", "rocprofiler-sdk 0.7.0 was never part of a release"),
        ("version=399", "0.3.99 is not one this recorder knows"),
        ("version=20000", "2.0.0 is not one this recorder knows"),
        ("other_kinds=1", "numbers its services otherwise"),
    ],
)
def test_a_version_that_could_be_misread_is_refused(record: Record, says: str, reason: str) -> None:
    arena = record("init", "launch:add:5", "sync", standin_says=says).only
    assert arena.lost(reason) == 1
    assert not len(arena.rows("Kernel"))
    assert not len(arena.launches())


def test_a_library_that_lacks_a_function_is_refused_by_its_name(record: Record, standin: Path) -> None:
    arena = record("init", "launch:add:5", "sync", folders=f"{standin}/lacking:").only
    assert arena.lost("lacks rocprofiler_flush_buffer") == 1
    assert not len(arena.rows("Kernel"))


def test_records_of_a_version_to_come_may_be_longer(record: Record) -> None:
    done = record("init", "launch:add:50", "copy:64", "sync", standin_says="version=10900,longer=1")
    assert len(done.only.rows("Kernel")) == 50
    assert done.only.losses(severity=1) == []


def test_records_that_are_too_short_are_counted_not_guessed(record: Record) -> None:
    arena = record("init", "launch:add:50", "sync", standin_says="short_records=1").only
    assert not len(arena.rows("Kernel"))
    assert arena.lost("shorter than the documented ones") == 50
    assert len(arena.launches()) == 50


def test_records_may_come_late_and_out_of_order(record: Record) -> None:
    done = record(
        "init", "launch:add:400", "sync", "launch:mul:400", "sync", standin_says="reverse=1,late_ms=30"
    )
    assert sorted(kernels(done.only)) == sorted((k.name, k.duration, k.correlation) for k in done.kernels)


def test_what_the_library_dropped_is_lost_and_said(record: Record) -> None:
    arena = record(
        "init", "launch:add:10", "sync", "delivered", "launch:add:10", "sync", standin_says="drop=7"
    ).only
    assert arena.lost("had no room for these records") == 14


def test_functions_are_found_by_name_wherever_the_library_numbers_them(record: Record) -> None:
    arena = record("init", "launch:add:3", "malloc:64", "ranges", "sync", standin_says="renumber=300").only
    assert Counter(arena.functions()) == {
        "hipLaunchKernel": 3,
        "hipMalloc": 1,
        "hipFree": 1,
        "hipDeviceSynchronize": 1,
    }
    assert len(arena.rows("Marker")) == 7


def test_every_recording_says_that_nobody_tried_it_on_hardware(record: Record) -> None:
    arena = record("init", "launch:add:1", "sync").only
    assert [cause for cause, _ in arena.losses() if "untested on hardware (rocprofiler-sdk 1.0.0)" in cause]


def test_another_tool_that_has_the_library_is_said(record: Record) -> None:
    arena = record("init", "launch:add:5", "sync", standin_says="refuse_start=1000").only
    assert arena.lost("no GPU work recorded while another tool") == 1
    assert arena.lost("ROCPROFILER_STATUS_ERROR_CONTEXT_CONFLICT (12)") == 1
    assert not len(arena.rows("Kernel"))


def test_recording_begins_when_the_other_tool_is_done(record: Record) -> None:
    done = record(
        "init", "launch:early:5", "sync", "until:1", "launch:late:5", "sync", standin_says="refuse_start=2"
    )
    assert set(done.only.names(done.only.rows("Kernel"))) == {"late"}
    assert any("became free" in cause for cause, _ in done.only.losses())


def test_without_the_request_service_streams_are_queues(record: Record) -> None:
    arena = record("init", "stream", "launch:a:2", "launch:b:2:1", "sync", standin_says="no_request=1").only
    assert len(set(arena.rows("Kernel")["stream"].tolist())) == 1
    assert arena.names(arena.rows("Stream")) == ["queue 0"]
    assert any("streams are hardware queues" in cause for cause, _ in arena.losses())
    assert arena.losses(severity=1) == []


def test_a_kernel_whose_code_was_loaded_before_has_no_name(record: Record) -> None:
    arena = record("init", "launch:anonymous:4", "sync").only
    assert arena.names(arena.rows("Kernel")) == [""] * 4
    assert (
        "the code of these kernels was loaded before the recorder was: they have no name",
        4,
    ) in arena.losses()


def test_functions_newer_than_our_list_have_names_all_the_same(record: Record) -> None:
    arena = record("init", "unlisted", "ask", WARPSIGHT_API="all").only
    told = {int(row["number"]): arena.texts[int(row["name"])] for row in arena.rows("ApiFunction")}
    numbers = [int(row["function"]) for row in arena.rows("Api")]
    assert [told.get(number) for number in numbers] == [None, "hipNotInAnyList", None]
    assert "hipGetDevice" in arena.functions()


@pytest.mark.parametrize(
    ("api", "calls"),
    [
        ("launches", {"hipLaunchKernel": 2}),
        ("hipMal*,hipFree", {"hipLaunchKernel": 2, "hipMalloc": 1, "hipFree": 1}),
        ("off", {}),
    ],
)
def test_the_calls_that_were_asked_for(record: Record, api: str, calls: dict[str, int]) -> None:
    arena = record("init", "launch:add:2", "malloc:64", "sync", WARPSIGHT_API=api).only
    assert Counter(arena.functions()) == calls
    assert len(arena.rows("Kernel")) == 2


def test_only_kernels_that_match_are_recorded(record: Record) -> None:
    arena = record(
        "init", "launch:_Z3addPfS_i:3", "launch:mul:2", "sync", WARPSIGHT_KERNELS="add(*\nnothing"
    ).only
    assert arena.names(arena.rows("Kernel")) == ["_Z3addPfS_i"] * 3
    assert arena.names(arena.launches()) == ["_Z3addPfS_i"] * 3
    assert any("'nothing' matched no kernel" in cause for cause, _ in arena.losses())


def test_kinds_that_were_not_asked_for_are_not_recorded(record: Record) -> None:
    arena = record("init", "launch:add:3", "copy:64", "ranges", "sync", WARPSIGHT_TRACE="kernel").only
    assert len(arena.rows("Kernel")) == 3
    assert not len(arena.rows("Memcpy"))
    assert not len(arena.rows("Marker"))


def test_launches_expect_no_kernels_where_none_are_recorded(record: Record) -> None:
    arena = record("init", "launch:add:3", "copy:64", "sync", WARPSIGHT_TRACE="memcpy").only
    assert [bool(row["flags"] & 8) for row in arena.launches()] == [True] * 3
    assert len(arena.rows("Memcpy")) == 1


def test_the_library_is_left_to_the_program_that_wants_it(record: Record) -> None:
    arena = record("init", "launch:add:3", "sync", WARPSIGHT_YIELD="1").only
    assert not len(arena.launches()) + len(arena.rows("Kernel"))
    assert any("left to the program" in cause for cause, _ in arena.losses())


def test_work_that_nobody_waited_for_is_recorded_at_exit(record: Record) -> None:
    """The library completes it in its own exit handler, after ours."""
    arena = record("init", "launch:add:20", "exit:9").only
    assert len(arena.rows("Kernel")) == 20


def test_a_forked_child_of_a_recorded_process_is_left_alone(record: Record) -> None:
    done = record("init", "launch:add:5", "fork", "launch:mul:5", "sync")
    assert Counter(done.only.names(done.only.rows("Kernel"))) == {"add": 5, "mul": 5}
    assert len(done.only.launches()) == 10


def test_a_child_forked_before_rocm_starts_records_itself(record: Record) -> None:
    done = record("fork", "launch:mul:4", "sync")
    names = [Counter(arena.names(arena.rows("Kernel"))) for arena in done.outcome.arenas]
    assert sorted(names, key=str) == [{"mul": 4}, {"of_child": 5}]


def test_a_program_without_a_launcher_is_left_alone(standin: Path, library: Path) -> None:
    environment = {
        "LD_LIBRARY_PATH": str(standin),
        "ROCP_TOOL_LIBRARIES": str(library),
        "PATH": "/usr/bin:/bin",
    }
    done = subprocess.run(
        [standin / "program", "init", "launch:work:10", "sync", "exit:9"], env=environment, check=False
    )
    assert done.returncode == 9


def test_a_tool_of_the_users_own_is_kept(record: Record, library: Path) -> None:
    """What is behind the last colon is not looked at by rocprofiler-sdk 1.0."""
    arena = record("init", "launch:add:3", "sync", ROCP_TOOL_LIBRARIES=f"{library}:{library}:").only
    assert len(arena.rows("Kernel")) == 3
