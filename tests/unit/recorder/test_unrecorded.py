"""A process that uses CUDA without the recorder in it is named, instead of an empty trace that looks complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsight.recorder.unrecorded import Unrecorded

LIBRARY = Path("/opt/warpsight/libwarpsight.so")


def process(
    proc: Path, pid: int, *, children: str = "", opens: str = "/dev/null", maps: str = "libc.so.6"
) -> None:
    """A process as /proc shows it."""
    task, fds = proc / str(pid) / "task" / str(pid), proc / str(pid) / "fd"
    task.mkdir(parents=True)
    fds.mkdir()
    (task / "children").write_text(children)
    (fds / "3").symlink_to(opens)
    (proc / str(pid) / "maps").write_text(maps)
    (proc / str(pid) / "comm").write_text("train\n")


@pytest.fixture
def said() -> list[str]:
    return []


def watcher(proc: Path, said: list[str]) -> Unrecorded:
    return Unrecorded(LIBRARY, said.append, root=1, proc=proc)


def test_a_grandchild_with_cuda_and_without_the_recorder_is_named_once(tmp_path: Path, said: list[str]):
    process(tmp_path, 1, children="10")
    process(tmp_path, 10, children="11")
    process(tmp_path, 11, opens="/dev/nvidia-uvm")
    watch = watcher(tmp_path, said)
    for _ in range(4):
        watch.look()
    assert len(said) == 1
    assert "process 11 (train) uses CUDA" in said[0]


def test_the_driver_gets_a_moment_to_load_the_recorder(tmp_path: Path, said: list[str]):
    process(tmp_path, 1, children="10")
    process(tmp_path, 10, opens="/dev/nvidia-uvm")
    watch = watcher(tmp_path, said)
    watch.look()
    (tmp_path / "10" / "maps").write_text("7f00-7f01 r-xp /opt/warpsight/libwarpsight.so")
    watch.look()
    assert not said


def test_programs_without_cuda_and_strangers_are_left_alone(tmp_path: Path, said: list[str]):
    process(tmp_path, 1, children="10 12")
    process(tmp_path, 10)
    process(tmp_path, 20, opens="/dev/nvidia-uvm")
    watch = watcher(tmp_path, said)
    for _ in range(3):
        watch.look()
    assert not said


def test_of_rocm_it_is_the_compute_device_that_tells(tmp_path: Path, said: list[str]):
    process(tmp_path, 1, children="10 11")
    process(tmp_path, 10, opens="/dev/kfd")
    process(tmp_path, 11, opens="/dev/nvidia-uvm")
    watch = Unrecorded(LIBRARY, said.append, backend="rocm", root=1, proc=tmp_path)
    for _ in range(3):
        watch.look()
    assert len(said) == 1
    assert "process 10 (train) uses ROCm, but rocprofiler-sdk did not load the recorder" in said[0]
    assert "ROCP_TOOL_LIBRARIES" in said[0]


@pytest.mark.parametrize("runtime", ["libmcruntime.so", "libmcruntime.so.3.5"])
def test_a_program_of_metax_runtime_is_named_where_only_maca_would_record_it(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch, runtime: str
):
    monkeypatch.setenv("MACA_PATH", "/opt/maca")
    process(tmp_path, 1, children="10 11 12")
    process(tmp_path, 10, maps=f"7f00-7f01 r-xp 00000000 08:01 7 /opt/maca/lib/{runtime}\n")
    process(tmp_path, 11, maps="7f00-7f01 r-xp 00000000 08:01 7 /opt/maca/lib/libmcruntime.sox\n")
    process(tmp_path, 12, maps=f"7f00 r-xp /opt/maca/lib/{runtime}\n7f01 r-xp {LIBRARY}\n")
    watch = Unrecorded(LIBRARY, said.append, backend="auto", root=1, proc=tmp_path)
    for _ in range(3):
        watch.look()
    assert len(said) == 1
    assert "process 10 (train) uses MACA" in said[0] and "--backend maca" in said[0]


def test_of_rocm_too_the_backend_that_records_it_is_said(tmp_path: Path, said: list[str]):
    process(tmp_path, 1, children="10")
    process(tmp_path, 10, opens="/dev/kfd")
    watch = Unrecorded(LIBRARY, said.append, backend="auto", root=1, proc=tmp_path)
    for _ in range(3):
        watch.look()
    assert len(said) == 1
    assert "process 10 (train) uses ROCm" in said[0] and "--backend rocm" in said[0]
