"""Core dumps of a program's kernels: how they are asked for, where they are looked for, and when they are whole."""

from __future__ import annotations

import shutil
import socket
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest

from warpsight.errors import UsageError, WarpsightError
from warpsight.recorder.watch import coredump
from warpsight.recorder.watch.event import StuckProcess

MB = 1 << 20


def armed(
    monkeypatch: pytest.MonkeyPatch, free: int, base: dict[str, str] | None = None, memory: str = "stack",
    on_request: bool = True, folder: str = "/dumps",
) -> tuple[dict[str, str], tuple[str, ...]]:  # fmt: skip
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    found = coredump.arm(base or {}, Path(folder), memory, on_request=on_request)
    return found.variables, found.notes


def test_a_program_is_armed_with_what_the_driver_wants_to_know(monkeypatch: pytest.MonkeyPatch) -> None:
    variables, notes = armed(monkeypatch, 1 << 50)
    assert variables == {
        "CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "1",
        "CUDA_COREDUMP_SHOW_PROGRESS": "1",
        "CUDA_COREDUMP_FILE": "/dumps/core.%h.%p.%t",
        "CUDA_COREDUMP_GENERATION_FLAGS": "skip_nonrelocated_elf_images,skip_global_memory,skip_shared_memory,"
        "skip_constbank_memory",
        "CUDA_ENABLE_USER_TRIGGERED_COREDUMP": "1",
        "CUDA_COREDUMP_PIPE": "/dumps/pipe.%h.%p.%t",
    }
    assert notes == ()
    unasked, _ = armed(monkeypatch, 1 << 50, on_request=False)
    assert set(variables) - set(unasked) == {"CUDA_ENABLE_USER_TRIGGERED_COREDUMP", "CUDA_COREDUMP_PIPE"}


@pytest.mark.parametrize(
    ("memory", "skipped"),
    [
        ("none", ["global", "shared", "local", "constbank"]),
        ("shared", ["global", "constbank"]),
        ("all", []),
    ],
)
def test_memory_that_is_not_wanted_is_skipped(
    monkeypatch: pytest.MonkeyPatch, memory: str, skipped: list[str]
) -> None:
    variables, _ = armed(monkeypatch, 1 << 50, memory=memory)
    flags = variables["CUDA_COREDUMP_GENERATION_FLAGS"].split(",")
    assert flags == ["skip_nonrelocated_elf_images", *(f"skip_{part}_memory" for part in skipped)]


def test_the_users_own_values_win(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"CUDA_COREDUMP_FILE": "/mine", "CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "0", "CUDA_COREDUMP_PIPE": ""}
    variables, notes = armed(monkeypatch, 1 << 50, own)
    assert "CUDA_COREDUMP_FILE" not in variables and "CUDA_ENABLE_COREDUMP_ON_EXCEPTION" not in variables
    assert variables["CUDA_COREDUMP_PIPE"] == "/dumps/pipe.%h.%p.%t"
    assert notes == (
        "CUDA_ENABLE_COREDUMP_ON_EXCEPTION=0 of your environment is kept",
        "CUDA_COREDUMP_FILE=/mine of your environment is kept",
        "no dump will be written at an exception, as your environment says",
    )


@pytest.mark.parametrize(
    ("memory", "free", "needed"),
    [
        ("stack", 512 * MB, None),
        ("stack", 512 * MB - 1, 512),
        ("all", 32_768 * MB, None),
        ("all", 32_768 * MB - 1, 32_768),
    ],
)
def test_too_little_room_is_said(
    monkeypatch: pytest.MonkeyPatch, memory: str, free: int, needed: int | None
) -> None:
    _, notes = armed(monkeypatch, free, memory=memory)
    expected = f"only {free >> 20} MB are free for dumps in /dumps; one may need {needed} MB"
    assert notes == (() if needed is None else (expected,))


def test_no_room_and_a_template_in_the_folders_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    armed(monkeypatch, 16 * MB)
    with pytest.raises(WarpsightError, match="15 MB left"):
        armed(monkeypatch, 16 * MB - 1)
    with pytest.raises(UsageError, match="template"):
        armed(monkeypatch, 1 << 50, folder="/dumps/%p")


HOST = socket.gethostname()


@pytest.mark.parametrize(
    ("template", "own", "any_"),
    [
        ("/d/core.%h.%p.%t", f"/d/core.{HOST}.7.*", f"/d/core.{HOST}.*.*"),
        ("/d[1]/c*.%p", "/d[[]1]/c[*].7", "/d[[]1]/c[*].*"),
        ("/d/plain", "/d/plain", "/d/plain"),
        ("/d/%q%p", "/d/%q7", "/d/%q*"),
    ],
)
def test_a_template_is_a_pattern_of_paths(template: str, own: str, any_: str) -> None:
    assert coredump.expanded(template, 7) == own
    assert coredump.any_process(template) == any_


@pytest.mark.parametrize(
    ("environment", "template"),
    [
        ({}, ""),
        ({"CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "0"}, ""),
        ({"CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "1"}, "core.cuda.%h.%p"),
        ({"CUDA_ENABLE_USER_TRIGGERED_COREDUMP": "1"}, "core.cuda.%h.%p"),
        ({"CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "1", "CUDA_COREDUMP_FILE": "x.%p"}, "x.%p"),
        ({"CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "1", "CUDA_COREDUMP_FILE": "/d/x.%p"}, "/d/x.%p"),
    ],
)
def test_dumps_of_a_program_that_is_armed_have_a_place(environment: dict[str, str], template: str) -> None:
    expected = str(Path.cwd() / template) if template else ""
    assert coredump.file_template(environment) == expected


def test_dumps_are_files_and_not_links(tmp_path: Path) -> None:
    (tmp_path / "core.1").write_text("x")
    (tmp_path / "core.2").mkdir()
    (tmp_path / "core.3").symlink_to(tmp_path / "core.1")
    (tmp_path / "core.0").write_text("x")
    found = coredump.existing([f"{tmp_path}/core.*", f"{tmp_path}/nothing.*"])
    assert [path.name for path in found] == ["core.0", "core.1"]


def elf(path: Path, size: int, *, table: int = 100, entry: int = 64, count: int = 3, many: int = 0) -> Path:
    """A file with the header of an ELF file; `many`: sections that the first one counts."""
    data = bytearray(max(size, 64))
    data[:4] = b"\x7fELF"
    struct.pack_into("<Q", data, 40, table)
    struct.pack_into("<2H", data, 58, entry, count)
    if many and len(data) >= table + 40:
        struct.pack_into("<Q", data, table + 32, many)
    path.write_bytes(bytes(data[:size]))
    return path


@pytest.mark.parametrize(
    ("size", "more", "whole"),
    [
        (100 + 3 * 64, {}, True),
        (100 + 3 * 64 - 1, {}, False),
        (64, {}, False),
        (63, {}, False),
        (1_000, {"table": 0}, False),
        (100 + 64, {"count": 0, "many": 1}, True),
        (100 + 64 * 5, {"count": 0, "many": 5}, True),
        (100 + 64 * 5 - 1, {"count": 0, "many": 5}, False),
        (120, {"count": 0, "many": 1}, False),
        (1_000, {"count": 0}, False),
    ],
)
def test_a_dump_is_whole_when_its_last_section_is_there(
    tmp_path: Path, size: int, more: dict[str, int], whole: bool
) -> None:
    assert coredump.complete(elf(tmp_path / "core", size, **more)) == whole


def test_what_is_no_elf_file_is_no_dump(tmp_path: Path) -> None:
    path = elf(tmp_path / "core", 1_000)
    data = bytearray(path.read_bytes())
    data[3] = ord("f")
    path.write_bytes(bytes(data))
    assert not coredump.complete(path) and not coredump.complete(tmp_path / "none")


def test_compressed_dumps_take_the_place_of_the_others(tmp_path: Path) -> None:
    import gzip

    path = elf(tmp_path / "core", 1_000)
    content = path.read_bytes()
    made = coredump.compress(path)
    assert made.name == "core.gz" and not path.exists()
    assert gzip.decompress(made.read_bytes()) == content


def test_stuck_processes_and_dumps_as_the_report_has_them() -> None:
    from warpsight.recorder.ring.progress import Outstanding

    one = StuckProcess(7, 5.0449, Outstanding(2, 123, 130, 1, 140), 9)
    assert one.to_json() == {
        "pid": 7, "quiet_s": 5.0, "completions": 9, "outstanding": 2, "oldest_launch": 123
    }  # fmt: skip
    other = StuckProcess(8, 12.36, None, 0).to_json()
    assert (other["quiet_s"], other["outstanding"], other["oldest_launch"]) == (12.4, None, None)
    dump = coredump.CoreDump(7, Path("/d/core"), "", 1.23456)
    assert dump.to_json() == {"pid": 7, "path": "/d/core", "problem": None, "seconds": 1.235}
    assert coredump.CoreDump(7, None, "none").to_json()["problem"] == "none"
