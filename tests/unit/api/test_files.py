"""What a new file may take the place of."""

import os

import pytest

from benchmarks.synthetic_trace import Plan, make
from warpsight.api import files
from warpsight.errors import TraceError, WarpsightError
from warpsight.model.sharing.pack import pack


def lay(kind, path):
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link to a pipe":
        os.mkfifo(path.with_name("target"))
        path.symlink_to("target")
    else:
        path.symlink_to(os.devnull)


@pytest.mark.parametrize("kind", ["pipe", "link to a pipe", "link to a device"])
def test_no_file_takes_the_place_of_a_device_or_pipe(kind, tmp_path):
    path = tmp_path / "out"
    lay(kind, path)
    with pytest.raises(WarpsightError, match="is a device or a pipe"), files.binary(path, force=True):
        pass
    assert path.is_symlink() or path.is_fifo()


def test_a_link_is_replaced_and_what_it_leads_to_stays(tmp_path):
    (tmp_path / "precious").write_text("years of work")
    (tmp_path / "out").symlink_to("precious")
    with files.binary(tmp_path / "out", force=True) as file:
        file.write(b"new")
    assert (tmp_path / "precious").read_text() == "years of work"
    assert (tmp_path / "out").read_bytes() == b"new" and not (tmp_path / "out").is_symlink()


def test_a_disk_without_room_is_told_with_the_file(tmp_path):
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with (
            pytest.raises(WarpsightError, match=r"out cannot be written: "),
            files.binary(tmp_path / "out") as file,
        ):
            file.write(bytes(2 << 20))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not os.listdir(tmp_path)


def test_no_packed_trace_takes_the_place_of_a_pipe_or_folder(tmp_path):
    trace = make(tmp_path / "t.warp", Plan(kernels=3))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name, told in (("pipe", "is a device or a pipe"), ("folder", "is a folder")):
        with pytest.raises(TraceError, match=told):
            pack(trace, tmp_path / name, force=True)
    assert (tmp_path / "pipe").is_fifo() and (tmp_path / "folder").is_dir()


@pytest.mark.parametrize("where", ["page.html", "table=kernel/page.html", "new/../page.html", "MANIFEST"])
def test_nothing_is_written_into_the_folder_of_a_trace(where, tmp_path):
    trace = make(tmp_path / "t.warp", Plan(kernels=3))
    before = sorted(path.name for path in trace.rglob("*"))
    path = trace / where.replace("MANIFEST", "manifest.json")
    for force in (False, True):
        with pytest.raises(WarpsightError, match=r"is in the trace t\.warp"), files.binary(path, force):
            pass
        with (
            pytest.raises(WarpsightError, match=r"is in the trace t\.warp"),
            files.folder(path, ".json", force),
        ):
            pass
        with pytest.raises(TraceError, match=r"is in the trace t\.warp"):
            pack(trace, path, force=force)
    (tmp_path / "link").symlink_to(trace)
    with (
        pytest.raises(WarpsightError, match=r"is in the trace t\.warp"),
        files.binary(tmp_path / "link" / "x"),
    ):
        pass
    assert sorted(path.name for path in trace.rglob("*")) == before


def test_a_manifest_of_something_else_forbids_nothing(tmp_path):
    (tmp_path / "manifest.json").write_text('{"name": "a web page", "icons": []}')
    with files.binary(tmp_path / "page.html") as file:
        file.write(b"new")
    assert (tmp_path / "page.html").read_bytes() == b"new"
