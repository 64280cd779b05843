"""xplane.pb against files encoded by hand from the published schema."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.formats import xplane_file
from tests.unit.formats.stored import stored
from tests.unit.formats.xplane_file import EPOCH
from warpsight.formats.errors import FormatError
from warpsight.formats.importing import import_files

GOLDEN = Path(__file__).parents[2] / "golden/formats/xplane/host-a.xplane.pb"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("xplane") / "out.warp"
    assert import_files([GOLDEN], out).files[0].format == "xplane"
    return out


def test_the_golden_file_is_what_its_builder_writes() -> None:
    assert GOLDEN.read_bytes() == xplane_file.SPACE


def test_kernels_have_exact_times_shape_and_stream(trace: Path) -> None:
    text = (
        "select k.start, duration, n.name, grid_x, grid_y, block_x, registers, shared_static, "
        "shared_dynamic, correlation, s.name "
        "from kernel k join name n on n.id = name_id left join shape on shape.id = shape_id "
        "join stream s using (stream, context, process) order by 1 desc"
    )
    assert stored(trace, text) == [
        (EPOCH + 2000, 500, "fusion_1", 8, 2, 128, 40, 16, 1024, 101, "Stream #13(MemcpyH2D,Compute)"),
        (
            EPOCH + 10,
            20,
            "%fusion.2 = f32[8] fusion(...)",
            None,
            None,
            None,
            None,
            None,
            None,
            None,
            "XLA Ops",
        ),
    ]
    assert stored(trace, "select key, value from attribute") == [("hlo_op", '"fusion.1"')]


def test_copies_and_fills_carry_their_details(trace: Path) -> None:
    text = "select start, duration, bytes, kind, source_kind, destination_kind, asynchronous, correlation, stream from memcpy"
    assert stored(trace, text) == [(EPOCH + 1000, 250, 4096, "HtoD", "pageable", "device", True, 100, 13)]
    assert stored(trace, "select bytes, memory_kind, correlation from memset") == [(64, "device", 102)]


def test_driver_calls_join_their_kernels(trace: Path) -> None:
    text = "select l.function, l.thread, l.start, k.start from launch l join kernel k using (process, correlation)"
    assert stored(trace, text) == [("cuLaunchKernel", 7001, EPOCH - 4000, EPOCH + 2000)]
    assert stored(trace, "select function, correlation from api") == [("cuMemcpyHtoDAsync_v2", 100)]


def test_host_and_derived_lines_are_ranges(trace: Path) -> None:
    text = "select start, duration, kind, name, domain, attributes from marker join name on id = name_id order by start, name"
    assert stored(trace, text) == [
        (
            EPOCH - 5000,
            9000,
            "push/pop",
            "PjitFunction(step)",
            None,
            '{"step_name": "train", "core_count": 1.5}',
        ),
        (EPOCH, 50, "start/end", "jit_step", "XLA Modules", None),
        (EPOCH, None, "instant", "mark", None, None),
        (EPOCH + 1000, 1, "push/pop", "$train.py:12 step", "python", None),
        (EPOCH + 1000, 3000, "start/end", "jit_step(1)", "XLA Modules", None),
    ]
    assert stored(trace, "select name from thread where thread = 7001") == [("python3/7001",)]


def test_devices_host_and_warnings(trace: Path) -> None:
    text = "select name, vendor, platform, compute_capability, memory_bytes, multiprocessors, host from device order by 1"
    assert stored(trace, text) == [
        ("NVIDIA H100", "NVIDIA", "cuda", "9.0", 85_899_345_920, 132, "host-a"),
        ("TPU 0", "Google", "xla", None, None, None, "host-a"),
    ]
    assert stored(trace, "select host from process") == [("host-a",)]
    assert stored(trace, "select cause, severity from loss") == [("XLA: dropped 3 events", "note")]


def test_a_folder_of_jax_gives_the_newest_run_of_every_host(tmp_path: Path) -> None:
    for time, hosts in (("2024_01_01", ("a",)), ("2024_01_02", ("a", "b"))):
        folder = tmp_path / "logs/plugins/profile" / time
        folder.mkdir(parents=True)
        for host in hosts:
            data = xplane_file.text(1, xplane_file.HOST) + xplane_file.text(4, host)
            (folder / f"{host}.xplane.pb").write_bytes(data)
    import_files([tmp_path / "logs"], tmp_path / "out.warp")
    assert stored(tmp_path / "out.warp", "select host from process order by 1") == [("a",), ("b",)]
    assert stored(tmp_path / "out.warp", "select count(*) from launch") == [(2,)]


def test_a_file_that_ends_early_keeps_its_whole_planes(tmp_path: Path) -> None:
    first = len(xplane_file.text(1, xplane_file.GPU))
    (tmp_path / "cut.xplane.pb").write_bytes(xplane_file.SPACE[: first + 100])
    imported = import_files([tmp_path / "cut.xplane.pb"], tmp_path / "out.warp")
    assert "is incomplete" in imported.files[0].damage
    assert stored(tmp_path / "out.warp", "select count(*) from kernel") == [(1,)]


def test_a_protobuf_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.xplane.pb").write_bytes(xplane_file.text(9, "what"))
    with pytest.raises(FormatError, match=r"no plane|not protobuf"):
        import_files([tmp_path / "x.xplane.pb"], tmp_path / "out.warp", "xplane")


def test_register_counts_that_were_never_set_are_left_out(tmp_path: Path) -> None:
    unset = "regs:2191500840 static_shared:32462 dynamic_shared:1024 grid:8,2,1 block:128,1,1 occ_pct:0"
    stats = {**xplane_file._STATS, 21: unset}
    plane = xplane_file.plane(
        "/device:GPU:0",
        [xplane_file.line(13, "Stream #13(Compute)", EPOCH, xplane_file.event(1, 0, 1000, xplane_file.stat(2, 21, "ref")))],
        {1: "fusion_1"},
        stats,
        [],
    )  # fmt: skip
    (tmp_path / "x.xplane.pb").write_bytes(xplane_file.text(1, plane) + xplane_file.text(4, "host-a"))
    import_files([tmp_path / "x.xplane.pb"], tmp_path / "out.warp")
    text = "select grid_x, registers, shared_static, shared_dynamic from kernel join shape on shape.id = shape_id"
    assert stored(tmp_path / "out.warp", text) == [(8, 0, 0, 1024)]
    ((cause,),) = stored(tmp_path / "out.warp", "select cause from loss")
    assert "registers and static shared memory of these kernels were set to 0" in str(cause)


def test_the_two_lines_of_one_thread_are_one(tmp_path: Path) -> None:
    """XLA numbers driver calls by the system's threads, ranges by the library's: only their nesting tells whose they are."""
    event, stat, line = xplane_file.event, xplane_file.stat, xplane_file.line
    us = 1_000_000  # ps
    calls = [event(1, (100 + 50 * i) * us, 5 * us, stat(1, 200 + i)) for i in range(20)]
    steps = [event(2, (95 + 50 * i) * us, 20 * us) for i in range(20)]
    others = [event(3, (91 + 50 * i) * us, 11 * us) for i in range(20)]  # each ends inside a call
    lines = [
        line(2356, "Host Threads/2356", EPOCH, *calls),
        line(-6803497964841705189, "python", EPOCH, event(2, 0, 2_000 * us), *steps),
        line(7512490089272390147, "pool/7512490089272390147", EPOCH, event(3, 0, 2_000 * us), *others),
    ]
    events = {1: "hipModuleLaunchKernel", 2: "PjitFunction(step)", 3: "callback"}
    plane = xplane_file.plane("/host:CPU", lines, events, xplane_file._STATS, [])
    (tmp_path / "x.xplane.pb").write_bytes(xplane_file.text(1, plane) + xplane_file.text(4, "host-a"))
    import_files([tmp_path / "x.xplane.pb"], tmp_path / "out.warp")
    launching = "select distinct thread from launch"
    stepping = "select distinct thread from marker join name on id = name_id where name like 'Pjit%'"
    assert stored(tmp_path / "out.warp", launching) == stored(tmp_path / "out.warp", stepping) == [(2356,)]
    assert stored(tmp_path / "out.warp", "select name from thread where thread = 2356") == [("python",)]
