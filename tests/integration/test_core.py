"""`warpsight core` on real dumps: text, JSON by its schema, one thread, warps, modules, extraction, refusals."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.golden.cores.golden_cores import ROOT, debugger_text, unpack
from warpsight.device_code.cubin import Cubin
from warpsight.ui.cli.app import main

SOURCES = ["--source", str(ROOT / "tests/gpu/broken"), "--ptx", str(ROOT / "tests/golden/cubins")]


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main(["core", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def document(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    code, out, err = run(capsys, *arguments, "--json")
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    schema = json.loads((resources.files("warpsight.ui.cli") / "schemas" / "core.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(found)
    return found


def test_an_exception_is_told_with_its_chain_and_source(tmp_path: Path) -> None:
    dump = unpack("misaligned_address.lineinfo", tmp_path)
    command = [sys.executable, "-m", "warpsight.ui.cli", "core", str(dump), *SOURCES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line.strip() for line in done.stdout.splitlines()]
    at = next(
        i for i, line in enumerate(lines) if line.startswith("EXCEPTION: Warp Misaligned Address at 0x")
    )
    assert lines[at + 1] == "kernel misaligned_address(char const*, float*, int)"
    assert lines[at + 2].startswith(
        "grid 1, block (0,0,0), 32 lanes, the first thread (0,0,0); device 0, SM 124"
    )
    assert lines[at + 3].startswith("in load_vector at ") and lines[at + 3].endswith(
        "misaligned_address.cu:5"
    )
    assert lines[at + 4] == "return *reinterpret_cast<const float4*>(bytes);  // @load"
    assert lines[at + 5].startswith("inlined into misaligned_address at ")
    assert lines[at + 7].startswith("instruction LDG (load from global memory)")


def test_a_hang_is_told_with_what_every_lane_waits_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, unpack("named_barrier.lineinfo", tmp_path), *SOURCES)
    assert code == 0
    assert "NO EXCEPTION: named_barrier(int*) was running" in out
    assert "128 of 128 lanes wait for others" in out
    assert "96 lanes (3 warps, 1 block), waiting for barrier 1 of 128 threads" in out
    assert "32 lanes (1 warp, 1 block), waiting for barrier 2 of 128 threads" in out


@pytest.mark.parametrize(
    "name", ["trap.lineinfo", "stack_overflow.lineinfo", "triton_lock.lineinfo", "spin_flag.plain"]
)
def test_json_follows_its_schema(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, unpack(name, tmp_path), *SOURCES)
    assert found["kind"] == ("exception" if name.startswith(("trap", "stack")) else "hang")
    if name.startswith("triton"):
        frames = [[f["function"] for f in place["at"]["frames"]] for place in found["places"]]
        assert ["acquire", "add_under_lock"] in frames


def test_a_chosen_thread_shows_its_registers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = unpack("shared_out_of_range.lineinfo", tmp_path)
    found = document(capsys, dump, "--block", "0", "--thread", "40")
    thread = found["thread"]
    assert thread["where"]["thread"] == [40, 0, 0] and thread["where"]["lane"] == 8
    assert len(thread["registers"]) == 14 and len(thread["predicates"]) == 8
    shared = bytes.fromhex(thread["shared"]["hex"])
    # The kernel's tile is behind 1 KB that the system reserves; every thread but the wrong one stored 1 there.
    values = [int.from_bytes(shared[i : i + 4], "little") for i in range(0, len(shared), 4)]
    assert values.count(1) >= 31
    code, out, _ = run(capsys, dump, "--block", "0,0,0", "--thread", "40", "--memory", "2048")
    assert code == 0 and "registers: " in out and "shared: " in out and "+0x0400  " in out


def test_warps_are_listed_as_the_debugger_lists_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    warps = document(capsys, unpack("warp_divergence.lineinfo", tmp_path), "--warps")["warps"]
    (warp,) = warps
    line = next(
        row for row in debugger_text("warp_divergence.lineinfo").splitlines() if row.startswith("*  0   ")
    )
    assert [warp["active"], warp["diverged"]] == line.split()[2:4]
    assert int(warp["pc"], 16) == int(line.split()[4], 16)
    assert warp["exited"] == "0x0000000a"
    code, out, _ = run(capsys, unpack("warp_divergence.lineinfo", tmp_path), "--warps")
    assert code == 0 and "waits for the other lanes of its warp" in out


def test_modules_are_listed_and_extracted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump, folder = unpack("spin_flag.all", tmp_path), tmp_path / "code"
    code, out, _ = run(capsys, dump, "--modules")
    assert code == 0 and "spin_flag(int const*, int*)" in out
    code, out, _ = run(capsys, dump, "--extract", folder)
    assert code == 0
    cubins = [Cubin.open(path) for path in sorted(folder.glob("module-???.cubin"))]
    assert "_Z9spin_flagPKiPi" in {name for cubin in cubins for name in cubin.sections.values()}
    assert list(folder.glob("module-???.original.cubin"))
    again, _, err = run(capsys, dump, "--extract", folder)
    assert again == 1 and "exists already" in err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--block", "99"], 2, "no lane of"),
        (["--block", "x"], 2, "--block 'x' is not an index"),
        (["--warps", "--modules"], 2, "exclude each other"),
        (["--check"], 1, "cuda-gdb is not installed"),
    ],
)
def test_wrong_requests_get_one_line(
    arguments: list[str], code: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    from warpsight.debug import cuda_gdb

    monkeypatch.setattr(cuda_gdb, "find", lambda: None)
    got, out, err = run(capsys, unpack("spin_flag.lineinfo", tmp_path), *arguments)
    assert got == code and message in err and out == ""
    assert len(err.strip().splitlines()) == 1


def test_a_file_that_is_no_dump_gets_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a dump at all, but long enough to have a header of sixty-four bytes")
    code, out, err = run(capsys, path)
    assert (code, out) == (1, "") and "notes.txt: not a GPU core dump" in err


def test_check_compares_with_a_debugger_that_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in prints what cuda-gdb printed on the GPU machine."""
    name = "triton_illegal_address.lineinfo"
    text = tmp_path / "answer.txt"
    text.write_text(debugger_text(name))
    stand_in = tmp_path / "cuda-gdb"
    stand_in.write_text(f"#!/bin/sh\ncat {text}\n")
    stand_in.chmod(0o755)
    from warpsight.debug import cuda_gdb

    monkeypatch.setattr(cuda_gdb, "find", lambda: stand_in)
    code, out, _ = run(capsys, unpack(name, tmp_path), "--check")
    assert code == 0 and "0 different" in out
    text.write_text(
        debugger_text(name).replace("block (2,0,0), thread (32,0,0)", "block (3,0,0), thread (32,0,0)")
    )
    code, out, _ = run(capsys, unpack(name, tmp_path), "--check")
    assert code == 1 and "DIFFERENT: its block" in out
