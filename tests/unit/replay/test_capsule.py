"""A capsule comes back as it was written, and a damaged or hostile one is refused with one clear error."""

from __future__ import annotations

import json
import os
import random
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.replay import capsules
from warpsight.errors import WarpsightError
from warpsight.replay import execution, replaying, script
from warpsight.replay.capsule import manifest as m
from warpsight.replay.capsule.store import Capsule, CapsuleError, Writer
from warpsight.replay.reproducer import export
from warpsight.replay.schedules.sequence import sequence
from warpsight.replay.script import ScriptSettings


@pytest.fixture
def capsule(tmp_path: Path) -> Capsule:
    return capsules.write(tmp_path / "x.capsule")


def test_contents_come_back(capsule: Capsule) -> None:
    held = Capsule.open(capsule.path)
    held.verify()
    first, second = held.manifest.allocations
    assert held.bytes_of(first.before or []) == bytes(range(256)) * 40
    assert held.bytes_of(second.after or []) == b"\1" * 8192
    assert held.manifest == capsule.manifest


@given(data=st.binary(min_size=1, max_size=30_000))
def test_any_contents_come_back(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    writer = Writer(tmp_path_factory.mktemp("any") / "x.capsule", chunk_bytes=4096)
    memory = m.Allocation(1 << 30, len(data), "malloc", before=writer.put(data))
    written = writer.finish(m.Manifest("warpsight capsule", 1, capsules.DEVICE, 4096, allocations=[memory]))
    assert written.bytes_of(memory.before or []) == data


def test_equal_chunks_are_stored_once(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "x.capsule", chunk_bytes=4096)
    assert len(set(writer.put(bytes(40_960)))) == 1


def test_only_the_owner_may_read_it(capsule: Capsule) -> None:
    for path in (capsule.path, *capsule.path.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


def test_an_existing_capsule_is_replaced_only_when_asked(capsule: Capsule) -> None:
    with pytest.raises(WarpsightError, match="-f"):
        Writer(capsule.path)
    Writer(capsule.path, replace=True).abandon()


def test_something_else_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    for name in ("data", "link"):
        with pytest.raises(WarpsightError, match="not a capsule"):
            Writer(tmp_path / name, replace=True)


Change = Callable[[dict[str, Any]], Any]
HOSTILE: dict[str, tuple[Change, str]] = {
    "newer": (lambda c: c.update(version=2), "newer"),
    "other format": (lambda c: c.update(format="zip"), "not a capsule"),
    "unknown field": (lambda c: c.update(more=1), "damaged"),
    "path for a chunk": (lambda c: c["modules"][0].update(image=["../../../etc/passwd"]), "damaged"),
    "chunk that is not there": (lambda c: c["modules"][0]["image"].__setitem__(0, "0" * 64), "chunk"),
    "too few chunks": (lambda c: c["modules"][0]["image"].pop(), "chunks instead of"),
    "huge module": (lambda c: c["modules"][0].update(size=2**43), "damaged"),
    "large module": (lambda c: c["modules"][0].update(size=2**30), "chunks instead of"),
    "huge chunks": (lambda c: c.update(chunk_bytes=2**30), "damaged"),
    "larger chunk than there is": (lambda c: c["globals"][0].update(size=32), "chunk"),
    "address zero": (lambda c: c["allocations"][0].update(address=0), "damaged"),
    "address beyond the end": (lambda c: c["allocations"][1].update(address=2**57 - 1), "beyond"),
    "negative size": (lambda c: c["allocations"][0].update(size=-1), "damaged"),
    "overlap": (lambda c: c["allocations"][1].update(address=capsules.BASE + 512), "overlaps"),
    "global over an allocation": (lambda c: c["globals"][0].update(address=capsules.BASE + 16), "overlaps"),
    "unsorted": (lambda c: c["allocations"].reverse(), "order"),
    "control characters": (lambda c: c["functions"][0].update(name="a\x1b[2J"), "damaged"),
    "line end": (lambda c: c["functions"][0].update(name="a\n"), "damaged"),
    "many events": (lambda c: c.update(events=2**20 + 1), "damaged"),
    "unknown module": (lambda c: c["functions"][0].update(module=1), "does not exist"),
    "unknown function": (lambda c: c["operations"][1].update(function=9), "does not exist"),
    "unknown stream": (lambda c: c["operations"][1].update(stream=2), "does not exist"),
    "unknown event": (lambda c: c["operations"][2].update(event=1), "does not exist"),
    "unknown graph": (lambda c: c["operations"][4].update(graph=3), "does not exist"),
    "overlapping parameters": (lambda c: c["functions"][0]["parameters"][1].update(offset=4), "overlap"),
    "parameters beyond": (lambda c: c["functions"][0]["parameters"][2].update(offset=40_000), "too large"),
    "too many parameter bytes": (lambda c: c["operations"][1].update(parameters="A" * 32), "takes 20"),
    "no parameters": (lambda c: c["operations"][1].update(parameters=""), "takes 20"),
    "large block": (lambda c: c["operations"][1].update(block=[1024, 2, 1]), "block"),
    "large grid": (lambda c: c["operations"][1].update(grid=[1, 70_000, 1]), "grid"),
    "large cluster": (lambda c: c["operations"][1].update(cluster=[8, 8, 1]), "cluster"),
    "short attribute": (lambda c: c["operations"][1].update(attributes=[{"id": 4, "value": "AAAA"}]), "damaged"),
    "attribute twice": (
        lambda c: c["operations"][1].update(attributes=[{"id": 4, "value": "A" * 84 + "AA=="}] * 2), "twice"
    ),
    "copy beyond": (lambda c: c["operations"][0].update(bytes=2**40), "capsule's memory"),
    "copy elsewhere": (lambda c: c["operations"][0].update(destination=64), "capsule's memory"),
    "copy pitch": (lambda c: c["operations"][0].update(destination_pitch=2**50), "capsule's memory"),
    "copy from nowhere": (lambda c: c["operations"][5].pop("source"), "host to the host"),
    "fill elsewhere": (lambda c: c["graphs"][0]["nodes"][1]["work"].update(destination=4096), "capsule's memory"),
    "cycle": (lambda c: c["graphs"][0]["nodes"][0].update(after=[2]), "does not come before"),
    "own successor": (lambda c: c["graphs"][0]["nodes"][1].update(after=[1]), "does not come before"),
    "relocation beyond": (lambda c: c["allocations"][1]["relocations"][0].update(offset=8188), "relocation"),
    "relocation to nowhere": (lambda c: c["allocations"][1]["relocations"][0].update(target=4), "does not exist"),
    "relocation past its target": (lambda c: c["allocations"][1]["relocations"][0].update(addend=99), "beyond"),
    "relocated parameter": (lambda c: c["operations"][1]["relocations"][0].update(offset=16), "relocation"),
    "unknown operation": (lambda c: c["operations"][1].update(type="execve"), "damaged"),
    "operation of two lines": (lambda c: c["operations"][1].update(type="launch\n"), r"Invalid value 'launch\\n'"),
    "list for a number": (lambda c: c["operations"][1].update(function=[0]), "damaged"),
    "not a dictionary": (lambda c: c.update(device=7), "damaged"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_manifest_is_refused(capsule: Capsule, name: str) -> None:
    change, message = HOSTILE[name]
    file = capsule.path / "capsule.json"
    contents = json.loads(file.read_text())
    change(contents)
    file.write_text(json.dumps(contents))
    with pytest.raises(CapsuleError, match=message) as caught:
        Capsule.open(capsule.path)
    assert str(capsule.path) in str(caught.value) and "\n" not in str(caught.value)


def _damages(whole: bytes, generator: random.Random) -> list[bytes]:
    """Bytes changed, left out, doubled, cut off, added and set to zero."""
    at, length = generator.randrange(len(whole)), generator.randrange(1, 64)
    return [
        whole[:at] + bytes([whole[at] ^ 1 << generator.randrange(8)]) + whole[at + 1 :],
        whole[:at] + whole[at + length :],
        whole[: at + length] + whole[at : at + length] + whole[at + length :],
        whole[:at],
        whole + generator.randbytes(length),
        whole[:at] + bytes(length) + whole[at + length :],
    ]


def test_a_damaged_capsule_is_refused_with_one_clear_error_and_nothing_runs(
    capsule: Capsule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "run", lambda *_, **__: pytest.fail("something was executed"))
    files = [file for file in sorted(capsule.path.rglob("*")) if file.is_file()]
    generator = random.Random(13)
    for _ in range(90):
        file = generator.choice(files)
        whole = file.read_bytes()
        for damaged in _damages(whole, generator):
            if damaged == whole:
                continue
            file.write_bytes(damaged)
            with pytest.raises(CapsuleError) as caught:
                replaying.replay(capsule.path, replaying.ReplayRequest())
            assert str(capsule.path) in str(caught.value) and "\n" not in str(caught.value)
        file.write_bytes(whole)
    for file in files:
        whole = file.read_bytes()
        file.unlink()
        with pytest.raises(CapsuleError):
            replaying.replay(capsule.path, replaying.ReplayRequest())
        file.write_bytes(whole)


def test_chunks_in_each_others_place_are_refused(capsule: Capsule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "run", lambda *_, **__: pytest.fail("something was executed"))
    places = [capsule.path / "blobs" / f"{name}.zst" for name, size in capsule.blobs.items() if size == 4096]
    one, other = places[0].read_bytes(), places[-1].read_bytes()
    places[0].write_bytes(other)
    places[-1].write_bytes(one)
    with pytest.raises(CapsuleError, match="does not hold the bytes"):
        replaying.replay(capsule.path, replaying.ReplayRequest())


def _first_blob(capsule: Capsule) -> tuple[str, Path]:
    name = capsule.manifest.modules[0].image[0]
    return name, capsule.path / "blobs" / f"{name}.zst"


def test_a_decompression_bomb_is_refused(capsule: Capsule) -> None:
    name, file = _first_blob(capsule)
    file.write_bytes(zstandard.ZstdCompressor().compress(bytes(1 << 30))[:2000])
    with pytest.raises(CapsuleError):
        Capsule.open(capsule.path).chunk(name)


def test_a_frame_that_hides_its_size_is_refused(capsule: Capsule) -> None:
    name, file = _first_blob(capsule)
    file.write_bytes(zstandard.ZstdCompressor(write_content_size=False).compress(capsule.chunk(name)))
    with pytest.raises(CapsuleError, match="is not 4096 bytes long"):
        Capsule.open(capsule.path).chunk(name)


def test_bytes_behind_a_chunk_are_refused(capsule: Capsule) -> None:
    name, file = _first_blob(capsule)
    file.write_bytes(file.read_bytes() + b"more")
    with pytest.raises(CapsuleError):
        Capsule.open(capsule.path).chunk(name)


def test_links_and_special_files_are_refused(capsule: Capsule, tmp_path: Path) -> None:
    _, file = _first_blob(capsule)
    copy = tmp_path / "copy"
    copy.write_bytes(file.read_bytes())
    file.unlink()
    file.symlink_to(copy)
    with pytest.raises(CapsuleError, match=file.stem):
        Capsule.open(capsule.path)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(CapsuleError, match="not a file"):
        Capsule.open(capsule.path)


def test_a_folder_of_chunks_that_is_a_link_is_refused(capsule: Capsule) -> None:
    (capsule.path / "blobs").rename(capsule.path.with_name("away"))
    (capsule.path / "blobs").symlink_to(capsule.path.with_name("away"))
    with pytest.raises(CapsuleError, match="blobs is a link"):
        Capsule.open(capsule.path)


def test_contents_that_no_disk_takes_are_refused_before_they_are_written(
    capsule: Capsule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10_000))
    with pytest.raises(WarpsightError, match="10,000 left: set TMPDIR"):
        script.write(capsule, sequence(capsule.manifest), ScriptSettings(), tmp_path)
    with pytest.raises(WarpsightError, match="with -o"):
        export(capsule, "cuda", tmp_path / "x.cuda")
    assert [path.name for path in tmp_path.iterdir()] == [capsule.path.name]


def test_what_is_no_capsule_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("{}")
    (tmp_path / "empty").mkdir()
    for name, why in (("file", "not a capsule"), ("empty", "not a capsule"), ("missing", "does not exist")):
        with pytest.raises(CapsuleError, match=why):
            Capsule.open(tmp_path / name)
