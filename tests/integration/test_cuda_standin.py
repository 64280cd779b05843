"""The CUDA recorder, whole and unchanged, in programs whose CUDA is a scripted stand-in (tests/standin)."""

from __future__ import annotations

import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.standin import recording
from tests.standin.recording import Arena, Outcome
from warpsight.capture.segments import layout

Record = Callable[..., Outcome]


@pytest.fixture(scope="session")
def standin(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the built stand-in and its program."""
    headers = recording.cuda_headers()
    if headers is None or recording.compiler() is None:
        pytest.skip("building the stand-in needs a C++ compiler and CUDA's headers")
    folder = tmp_path_factory.mktemp("standin")
    subprocess.run([recording.SOURCES / "build.sh", folder, headers], check=True)
    return folder


@pytest.fixture
def record(standin: Path, library: Path, tmp_path: Path) -> Record:
    """Runs the program's steps under the recorder; STANDIN and WARPSIGHT_* come as keywords."""

    def run(
        *steps: str, late: bool = False, standin_says: str = "", folder: Path = standin, **settings: str
    ) -> Outcome:
        environment = {
            "LD_LIBRARY_PATH": str(folder),
            "STANDIN": standin_says,
            "WARPSIGHT_FLUSH_MS": "20",
            **settings,
        }
        if not late:
            environment["CUDA_INJECTION64_PATH"] = str(library)
        return recording.run(
            [standin / "program", *steps], Path(tempfile.mkdtemp(dir=tmp_path)), environment, late=late
        )

    return run


def joined(arena: Arena) -> int:
    """Kernels whose correlation id, session included, belongs to exactly one launch of the same kernel."""
    api = arena.rows("Api")
    launches = (api["flags"] & 1) != 0
    calls = Counter(
        zip(arena.sessions["Api"][launches].tolist(), api["correlation"][launches].tolist(),
            arena.names(api[launches]), strict=True))  # fmt: skip
    kernels = arena.rows("Kernel")
    keys = zip(
        arena.sessions["Kernel"].tolist(), kernels["correlation"].tolist(), arena.names(kernels), strict=True
    )
    return sum(calls[key] == 1 for key in keys)


def test_every_launch_has_its_kernel(record: Record) -> None:
    done = record("init", "launch:work:3000", "sync")
    assert done.code == 0, done.errors
    kernels = done.only.rows("Kernel")
    assert len(kernels) == len(done.only.launches()) == joined(done.only) == 3000
    assert set(done.only.names(kernels)) == {"work"}
    assert (kernels["end"] - kernels["start"] == 1000).all()


def test_a_program_without_a_launcher_is_left_alone(standin: Path, library: Path) -> None:
    environment = {
        "LD_LIBRARY_PATH": str(standin),
        "CUDA_INJECTION64_PATH": str(library),
        "PATH": "/usr/bin:/bin",
    }
    done = subprocess.run(
        [standin / "program", "init", "launch:work:10", "sync", "exit:9"], env=environment, check=False
    )
    assert done.returncode == 9


def test_one_row_for_each_call_of_the_program_in_every_launch_form(record: Record) -> None:
    arena = record("init", "forms", "sync").only
    assert joined(arena) == 10
    assert sorted(arena.names(arena.launches())) == sorted(arena.names(arena.rows("Kernel")))
    shapes = {int(row["id"]): row for row in arena.rows("Shape")}
    for launch in arena.launches():
        shape = shapes[int(launch["shape"])]
        assert (shape["grid_x"], shape["block_x"]) == (4, 128)
    clustered = [
        launch for launch in arena.launches() if arena.texts[int(launch["name"])] == "cudaLaunchKernelExC"
    ]
    assert shapes[int(clustered[0]["shape"])]["cluster_x"] == 2


def test_copies_sets_and_allocations_carry_address_and_size(record: Record) -> None:
    arena = record("init", "copy:4096", "set:512", "malloc:8192", "sync").only
    calls = dict(zip(arena.functions(), arena.calls(), strict=True))
    assert (calls["cudaMemcpy"]["object"], calls["cudaMemcpy"]["bytes"]) == (0xD00, 4096)
    assert (calls["cudaMemset"]["object"], calls["cudaMemset"]["bytes"]) == (0xE00, 512)
    assert (calls["cudaMalloc"]["object"], calls["cudaMalloc"]["bytes"]) == (0xABC000, 8192)
    assert arena.rows("Memcpy")["bytes"].tolist() == [4096]
    assert arena.rows("Memcpy")["copies"].tolist() == [3]
    assert arena.rows("Memset")["bytes"].tolist() == [512]


def test_a_failed_launch_keeps_its_return_code(record: Record) -> None:
    arena = record("init", "fail", "sync").only
    assert arena.launches()["result"].tolist() == [1]
    assert not len(arena.rows("Kernel"))


def test_polls_are_left_out(record: Record) -> None:
    arena = record("init", "poll", "sync", "poll").only
    assert arena.rows("Sync")["result"].tolist() == [0]


def test_the_machine_is_described(record: Record) -> None:
    arena = record("init", "launch:work:1", "sync").only
    (device,) = arena.rows("Device")
    assert arena.texts[int(device["name"])] == "Stand-in GPU"
    assert arena.texts[int(device["pci"])] == "0000:1b:00.0"
    assert device["memory_bandwidth"] == 4_000_000_000
    (context,) = arena.rows("Context")
    assert (context["context"], context["null_stream"]) == (1, 7)


@pytest.mark.parametrize("version", ["19", "24", "28", "130001"])
def test_records_of_every_supported_version_are_read(record: Record, version: str) -> None:
    arena = record("init", "launch:work:1200", "copy:64", "sync", standin_says=f"version={version}").only
    assert joined(arena) == 1200
    assert arena.rows("Memcpy")["copies"].tolist() == [3 if int(version) >= 26 else 1]
    assert len(arena.rows("Sync")) == 1


def test_cuda_11_is_refused_in_one_line(record: Record) -> None:
    done = record("init", "launch:work:5", "sync", standin_says="version=18")
    assert done.code == 0
    assert "before CUDA 12" in done.only.losses(1)[0][0]
    assert not len(done.only.rows("Kernel"))


def test_a_libcupti_newer_than_the_driver_is_never_used(record: Record) -> None:
    arena = record(
        "init", "launch:work:5", "sync", standin_says="driver=12040", CUDA_HOME="/nonexistent"
    ).only
    assert "newer than the driver" in arena.losses(1)[0][0]
    assert not len(arena.rows("Kernel"))


def test_kernels_without_timestamps_are_kept_and_counted_by_the_conversion(record: Record) -> None:
    arena = record("init", "launch:work:1000", "sync", standin_says="zero_every=100").only
    kernels = arena.rows("Kernel")
    assert len(kernels) == 1000
    assert int((kernels["start"] == 0).sum()) == 10
    assert arena.lost("timestamps") == 0


def test_dropped_records_are_counted(record: Record) -> None:
    arena = record("init", "launch:work:600", "sync", standin_says="drop=77").only
    assert arena.lost("CUPTI had no buffer") == 77


@pytest.mark.parametrize("version", ["24", "130001"])
def test_an_exhausted_pool_loses_records_by_count(record: Record, version: str) -> None:
    """Three buffers for five threads: while they wait to be decoded, CUPTI gets none, or one that is thrown away."""
    arena = record(
        "init", "threads:4:1500", "sync", standin_says=f"version={version}", WARPSIGHT_BUFFER_POOL="400000"
    ).only
    lost = arena.lost("CUPTI had no buffer") + arena.lost("the buffer pool was used up")
    others = len(arena.rows("Sync"))  # the one record beside the kernels: written, or among the lost
    assert len(arena.rows("Kernel")) + lost + others == 6001
    assert lost > 0


def test_incomplete_kernels_are_handed_over_at_exit(record: Record) -> None:
    arena = record("init", "launch:hangs:20").only
    assert len(arena.launches()) == 20
    assert arena.rows("Kernel")["start"].tolist() == [0] * 20


@pytest.mark.parametrize(
    ("end", "code"), [("_exit:3", 3), ("signal:9", -9), ("signal:11", -11), ("signal:15", -15)]
)
def test_launches_survive_every_end(record: Record, end: str, code: int) -> None:
    done = record("init", "launch:work:700", end)
    assert done.code == code
    assert len(done.only.launches()) == 700


def test_what_was_flushed_survives_a_kill(record: Record) -> None:
    done = record("init", "launch:work:300", "sync", "start", "flush", "signal:9")
    assert joined(done.only) == 300


def test_launches_of_a_thread_follow_one_another(record: Record) -> None:
    rows = record("init", "launch:work:20", "sleep:100", "launch:work:20000", "sync").only.launches()
    start, took = rows["start"].astype(np.int64), rows["duration"].astype(np.int64)
    assert (took >= 0).all() and took.max() < 120e9
    # Times by the processor's counter are good to a thousandth.
    assert (start[1:] - (start + took)[:-1] >= -(took[1:] // 1000 + 1)).all()


def test_a_name_at_a_reused_address_is_read_again(record: Record) -> None:
    arena = record("init", "reused:first:second").only
    assert arena.names(arena.launches()) == ["first", "first", "second"]


def test_many_threads(record: Record) -> None:
    arena = record("init", "threads:64:200", "sync").only
    assert joined(arena) == 64 * 200
    assert len(np.unique(arena.rows("Thread")["thread"])) >= 64


def test_a_graph_kernel_finds_the_call_that_captured_it(record: Record) -> None:
    arena = record("init", "graph:5", "sync").only
    captured = [row for row in arena.launches() if row["flags"] & 2]
    assert len(captured) == 1
    nodes = {int(row["node"]): row for row in arena.rows("GraphNode")}
    assert nodes[200]["original"] == 100
    kernels = arena.rows("Kernel")
    assert kernels["graph_node"].tolist() == [200] * 5
    launched = [row for row in arena.launches() if not row["flags"] & 2]
    assert sorted(r["correlation"] for r in launched) == sorted(kernels["correlation"].tolist())


def test_graph_mode_records_whole_launches(record: Record) -> None:
    arena = record("init", "graph:6", "sync", "stop", WARPSIGHT_GRAPH="graph").only
    kernels = arena.rows("Kernel")
    assert kernels["flags"].tolist() == [1] * 6
    assert arena.lost("recorded as a whole") == 6


def test_automatic_graph_mode_expands_every_launch(record: Record) -> None:
    arena = record("init", "graph:200", "sync", "stop", WARPSIGHT_GRAPH="auto").only
    assert arena.rows("Kernel")["flags"].tolist() == [0] * 200


def test_kernel_patterns(record: Record) -> None:
    arena = record(
        "init", "launch:_Z4gemmPf:4", "launch:other:3", "sync", "stop", WARPSIGHT_KERNELS="gemm(*\nnothing*"
    ).only
    assert set(arena.names(arena.rows("Kernel"))) == {"_Z4gemmPf"}
    assert set(arena.names(arena.launches())) == {"_Z4gemmPf"}
    assert arena.lost("'nothing*' matched no kernel") == 1
    assert arena.lost("'gemm(*'") == 0


def test_cubins_that_cannot_be_written_are_counted(record: Record) -> None:
    arena = record("init", "module:gemm:1", "module:relu:2", "sync", "stop", WARPSIGHT_CUBINS="1").only
    assert arena.lost("cubins cannot be written") == 2  # this launcher names no folder
    assert len(arena.rows("Module")) == 2


def test_api_off_launches_and_names(record: Record) -> None:
    steps = ("init", "launch:work:2", "copy:8", "malloc:8", "sync")
    assert not len(record(*steps, WARPSIGHT_API="off").arenas[-1].rows("Api"))
    assert set(record(*steps, WARPSIGHT_API="launches").arenas[-1].functions()) == {"cuLaunchKernel"}
    named = record(*steps, WARPSIGHT_API="cudaMemcp*").arenas[-1].functions()
    assert set(named) == {"cuLaunchKernel", "cudaMemcpy"}


def test_kinds_that_cannot_be_had_are_named(record: Record) -> None:
    arena = record(
        "init", "launch:work:2", "copy:8", "sync", WARPSIGHT_TRACE="kernel,environment,telepathy"
    ).only
    (refused,) = [cause for cause, _ in arena.losses(1) if "not recorded" in cause]
    assert "telepathy" in refused
    assert "environment (CUPTI_ERROR_OTHER)" in refused
    assert len(arena.rows("Kernel")) == 2
    assert not len(arena.rows("Memcpy"))


def test_three_recordings_in_one_process(record: Record) -> None:
    each = ("start", "launch:work:700", "sync", "stop", "launch:unseen:50", "sync")
    done = record("init", *each, *each, *each, late=True)
    assert done.code == 0, done.errors
    assert [joined(arena) for arena in done.arenas] == [700, 700, 700]
    assert all(len(arena.launches()) == 700 for arena in done.arenas)
    sessions = [set(arena.sessions["Kernel"].tolist()) for arena in done.arenas]
    assert len(set.union(*sessions)) == 3
    assert all(len(arena.rows("Device")) == 1 for arena in done.arenas)


def test_a_late_start_says_what_it_lacks(record: Record) -> None:
    arena = record("init", "launch:before:5", "start", "launch:work:5", "sync", "stop", late=True).only
    assert set(arena.names(arena.rows("Kernel"))) == {"work"}
    assert arena.lost("recording began after CUDA did") == 1


def modules(arena: Arena) -> list[tuple[str, int]]:
    """Names and modules of the kernels, in the order in which they ran."""
    kernels = arena.rows("Kernel")
    kernels = kernels[np.argsort(kernels["start"], kind="stable")]
    return list(zip(arena.names(kernels), kernels["module"].tolist(), strict=True))


def unheard(arena: Arena) -> int:
    return sum(count for cause, count in arena.losses() if "loaded while nothing was recorded" in cause)


def test_a_late_start_knows_the_modules_loaded_after_it_and_says_so_of_the_others(record: Record) -> None:
    arena = record(
        "init",
        "module:old:1",
        "start",
        "module:new:2",
        "launch:old:2",
        "launch:new:2",
        "sync",
        "stop",
        late=True,
    ).only
    (row,) = arena.rows("Module")
    assert modules(arena) == [("old", 0)] * 2 + [("new", int(row["id"]))] * 2
    assert unheard(arena) == 2


def test_a_kernel_seen_to_run_from_elsewhere_is_not_given_to_a_later_module(record: Record) -> None:
    arena = record(
        "init", "module:old:1", "start", "launch:old:1", "sync", "flush", "module:old,new:2:b", "launch:old:1",
        "launch:new:1", "sync", "stop", late=True,
    ).only  # fmt: skip
    (row,) = arena.rows("Module")
    assert modules(arena) == [("old", 0), ("old", 0), ("new", int(row["id"]))]
    assert unheard(arena) == 2


def test_an_early_start_has_no_unheard_modules(record: Record) -> None:
    arena = record("init", "launch:without:3", "sync", "stop").only
    assert modules(arena) == [("without", 0)] * 3
    assert unheard(arena) == 0


def test_a_late_start_records_although_children_are_to_be_injected(record: Record) -> None:
    """ws.record sets CUDA_INJECTION64_PATH for children; an initialized driver has no use for it any more."""
    arena = record("init", "inject_children", "start", "launch:work:5", "sync", "stop", late=True).only
    assert joined(arena) == 5


@pytest.mark.parametrize("why", ["no_detach=1", "version=23"])
def test_where_detaching_is_not_possible_it_says_so_and_can_start_again(record: Record, why: str) -> None:
    each = ("start", "graph:3", "launch:work:10", "sync", "stop")
    done = record("init", *each, "launch:unseen:10", "sync", *each, late=True, standin_says=why)
    assert done.code == 0, done.errors
    assert [len(arena.rows("Kernel")) for arena in done.arenas] == [13, 13]
    assert all(arena.lost("is disabled but stays attached") == 1 for arena in done.arenas)


def test_another_subscriber_is_named_and_waited_for(record: Record) -> None:
    done = record(
        "init",
        "launch:lost:5",
        "sync",
        "wait_recording",
        "launch:work:5",
        "sync",
        standin_says="refuse_subscribe=3",
    )
    assert done.code == 0, done.errors
    assert set(done.only.names(done.only.rows("Kernel"))) == {"work"}
    assert done.only.lost("another profiler in this process") == 1


def test_a_client_that_shuts_cupti_down_costs_only_the_time_between(record: Record) -> None:
    done = record(
        "init",
        "launch:before:600",
        "sync",
        "start",
        "flush",
        "foreign_end",
        "wait_recording",
        "launch:after:600",
        "sync",
    )
    assert done.code == 0, done.errors
    assert done.only.lost("shut CUPTI down") == 1
    assert Counter(done.only.names(done.only.rows("Kernel"))) == {"before": 600, "after": 600}
    assert joined(done.only) == 1200


def test_yield_leaves_cupti_to_the_program(record: Record) -> None:
    arena = record("init", "launch:work:5", "sync", WARPSIGHT_YIELD="1").only
    assert arena.lost("left to the program") == 1
    assert not len(arena.rows("Api"))


def test_a_forked_child_writes_nothing(record: Record) -> None:
    done = record("init", "launch:work:5", "fork", "sync")
    assert done.code == 0, done.errors
    assert set(done.only.names(done.only.launches())) == {"work"}


def test_a_slow_flush_does_not_hold_up_the_end_for_ever(record: Record) -> None:
    done = record("init", "launch:work:5", "sync", "exit:4", standin_says="slow_flush_ms=15000")
    assert done.code == 4
    assert len(done.only.launches()) == 5


def test_rows_have_the_size_layout_says(record: Record) -> None:
    arena = record("init", "launch:work:5", "sync").only
    assert arena.rows("Kernel").dtype.itemsize == layout.BY_NAME["Kernel"].size


def test_late_recordings_follow_the_programs_ranges_too(record: Record) -> None:
    each = (
        "start",
        "launch:no:5",
        "profiler_start",
        "launch:yes:5",
        "sync",
        "profiler_stop",
        "launch:no:5",
        "sync",
        "stop",
    )
    done = record("init", *each, *each, late=True, WARPSIGHT_CAPTURE_RANGE="profiler-api")
    assert done.code == 0, done.errors
    assert [set(arena.names(arena.launches())) for arena in done.arenas] == [{"yes"}, {"yes"}]
    assert [joined(arena) for arena in done.arenas] == [5, 5]
