"""Plain gdb steps through a capsule on the stand-in for the driver."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.standin import replaying
from tests.standin.replaying import BASE, KERNEL, write
from warpsight import _native

pytestmark = pytest.mark.skipif(
    (library := _native.library_path()) is None or not library.with_name("warpsight-replay").is_file(),
    reason="this build has no warpsight-replay",
)
Y = BASE + 16384


@pytest.fixture(scope="module")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return replaying.build(tmp_path_factory.mktemp("standin"))


@contextmanager
def served(standin: Path, capsule: Path, *options: str) -> Iterator[int]:
    process = subprocess.Popen(
        [sys.executable, "-m", "warpsight", "replay", str(capsule), "--gdb", "0", *options],
        env={**os.environ, "LD_LIBRARY_PATH": str(standin)}, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        said = process.stderr.readline()
        match = re.search(r"remote :(\d+)", said)
        assert match is not None, said + process.stderr.read()
        yield int(match[1])
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def gdb(port: int, commands: Sequence[str]) -> str:
    path = shutil.which("gdb")
    if path is None:
        pytest.skip("no gdb")
    words = [path, "-nx", "--batch", "-ex", f"target remote 127.0.0.1:{port}"]
    for command in commands:
        words += ["-ex", command]
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, env={**os.environ, "DEBUGINFOD_URLS": ""}
    )
    return done.stdout + done.stderr


def test_gdb_breaks_at_the_third_launch_reads_arrays_and_ends(standin: Path, tmp_path: Path) -> None:
    write(tmp_path / "x.capsule", (KERNEL, "noisy", KERNEL, KERNEL))
    with served(standin, tmp_path / "x.capsule") as port:
        said = gdb(port, [
            "monitor break scale 3", "continue", "monitor arguments", f"x/2fw {BASE}", f"x/2fw {Y}", "stepi",
            "monitor changed", "monitor operations", "continue",
        ])  # fmt: skip
    assert "breaks before 3" in said and "before 3: scale" in said
    assert (
        f"at 0: {Y:#x}  a1 + 0 of 12000 bytes" in said
        and f"{Y:#x}:\t-2\t" in said
        and f"{BASE:#x}:\t-1\t" in said
    )
    assert "scale changed" in said and "=> end" in said and "exited normally" in said


def test_gdb_watches_and_writes_memory(standin: Path, tmp_path: Path) -> None:
    write(tmp_path / "x.capsule", (KERNEL, KERNEL))
    with served(standin, tmp_path / "x.capsule") as port:
        said = gdb(
            port,
            [
                f"watch *(float*){Y}",
                "continue",
                f"set {{float}}{BASE} = 7",
                "delete",
                f"x/1fw {BASE}",
                "continue",
            ],
        )
    assert "Old value = 0" in said and "New value = -2" in said
    assert f"{BASE:#x}:\t7" in said and "exited normally" in said


def test_gdb_is_told_of_a_failing_kernel(standin: Path, tmp_path: Path) -> None:
    write(tmp_path / "x.capsule", (KERNEL, "faulty"))
    with served(standin, tmp_path / "x.capsule") as port:
        said = gdb(port, ["continue"])
    assert "faulty failed: CUDA_ERROR_ILLEGAL_ADDRESS" in said and "SIGSEGV" in said


def test_a_replay_pauses_before_the_operation_that_fails(standin: Path, tmp_path: Path) -> None:
    write(tmp_path / "x.capsule", (KERNEL, "faulty"))
    with served(standin, tmp_path / "x.capsule", "--pause-on-error") as port:
        for last in ("detach", "kill"):  # each debugger finds it there
            said = gdb(port, ["info registers rip", "stepi", last])
            assert "0x1010" in said and "faulty failed: CUDA_ERROR_ILLEGAL_ADDRESS" in said, said


def test_damaged_packets_end_nothing_but_their_own_connection(standin: Path, tmp_path: Path) -> None:
    write(tmp_path / "x.capsule")
    with served(standin, tmp_path / "x.capsule") as port:
        for text in (b"$m0,zz#00", b"$" + b"A" * 100_000, b"$m10,10#ff$Z9,0,0#6f\x03"):
            with socket.create_connection(("127.0.0.1", port)) as peer:
                peer.sendall(text)
        assert "exited normally" in gdb(port, ["continue"])


def packet(text: str) -> bytes:
    return f"${text}#{sum(text.encode()) & 0xFF:02x}".encode()


def asked(peer: socket.socket, text: str) -> str:
    """The answer to a packet, without acknowledgements."""
    peer.sendall(packet(text))
    received = b""
    while (found := re.search(rb"\$([^#]*)#[0-9a-f]{2}", received)) is None:
        more = peer.recv(4096)
        assert more, received
        received += more
    return found[1].decode()


def test_odd_numbers_are_errors_and_change_no_later_answer(standin: Path, tmp_path: Path) -> None:
    write(tmp_path / "x.capsule")
    odd = [f"m{'f' * 200},4", "m-5,4", f"m{BASE:x},-4", f"m0x{BASE:x},4", f"X{'1' * 300},0:step\n", f"M{'f' * 17},1:00", "p-1",
           f"Z2,{BASE:x},ffffffffff", "Z0,-10,1", "mffffffffffffffff,8", "Z2,ffffffffffffffff,8"]  # fmt: skip
    with (
        served(standin, tmp_path / "x.capsule") as port,
        socket.create_connection(("127.0.0.1", port)) as peer,
    ):
        assert [asked(peer, text) for text in odd] == ["E01"] * len(odd)
        assert asked(peer, f"m{BASE:x},4") == "000080bf"  # -1.0
        assert asked(peer, "p10") == "0010000000000000"  # nothing ran


def test_a_second_debugger_waits_for_the_first(standin: Path, tmp_path: Path) -> None:
    write(tmp_path / "x.capsule", (KERNEL, KERNEL))
    with (
        served(standin, tmp_path / "x.capsule") as port,
        socket.create_connection(("127.0.0.1", port)) as one,
    ):
        assert asked(one, "?") == "S05"
        with socket.create_connection(("127.0.0.1", port)) as other:
            other.sendall(packet("p10"))
            assert asked(one, "vCont;s:1").startswith("O")  # says before which operation
            one.close()
            assert asked(other, "p10").endswith("0010000000000000")  # from the beginning


def test_a_debugger_may_go_while_the_replay_runs(standin: Path, tmp_path: Path) -> None:
    write(tmp_path / "x.capsule", (KERNEL,) * 200)
    with served(standin, tmp_path / "x.capsule") as port:
        for text in ("c", "vCont;c:p1.-1", "s"):
            with socket.create_connection(("127.0.0.1", port)) as peer:
                peer.sendall(packet(text))
        said = gdb(port, ["monitor break scale 3", "continue", f"x/1fw {BASE}", "continue"])
    assert "before 2: scale" in said and f"{BASE:#x}:\t-1\n" in said and "exited normally" in said
