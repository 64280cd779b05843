"""Plain gdb steps through launches that were cut out of a program, on a real GPU."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from warpsight.replay.capsule import browsing
from warpsight.replay.capsule import manifest as m
from warpsight.replay.capsule.store import Capsule

pytestmark = pytest.mark.gpu

SOURCE = Path(__file__).parent / "replay" / "doubling.cu"


@pytest.fixture(scope="module")
def capsule(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc")
    folder = tmp_path_factory.mktemp("gdb")
    program, out = folder / "doubling", folder / "x.capsule"
    subprocess.run(["nvcc", "-O2", "-arch=native", "-o", program, SOURCE], check=True)
    options = ["-k", "*doubled*", "--launch", "0..5", "-o", str(out)]
    subprocess.run(
        [sys.executable, "-m", "warpsight", "capsule", "record", *options, "--", str(program)], check=True
    )
    return out


def _arrays(path: Path, launch: int) -> tuple[int, int]:
    """The addresses that a launch reads and writes."""
    capsule = Capsule.open(path)
    work = [one for one in capsule.manifest.operations if isinstance(one, m.Launch)][launch]
    places = capsule.manifest.functions[work.function].parameters
    found = [int.from_bytes(work.parameters[p.offset : p.offset + p.size], "little") for p in places[:2]]
    assert all(browsing.one(browsing.overview(capsule), hex(address)) for address in found)
    return found[0], found[1]


def _gdb(path: Path, *commands: str) -> str:
    debugger = shutil.which("gdb")
    if debugger is None:
        pytest.skip("no gdb")
    with subprocess.Popen(
        [sys.executable, "-m", "warpsight", "replay", str(path), "--gdb", "0"],
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
    ) as served:  # fmt: skip
        try:
            assert served.stderr is not None
            said = served.stderr.readline()
            port = re.search(r"remote :(\d+)", said)
            assert port is not None, said + served.stderr.read()
            words = [debugger, "-nx", "--batch", "-ex", f"target remote 127.0.0.1:{port[1]}"]
            for command in commands:
                words += ["-ex", command]
            done = subprocess.run(
                words, capture_output=True, text=True, check=False, timeout=120,
                env={**os.environ, "DEBUGINFOD_URLS": ""},
            )  # fmt: skip
            return done.stdout + done.stderr
        finally:
            served.kill()


def test_gdb_breaks_at_the_third_launch_reads_its_input_and_output_and_ends(capsule: Path) -> None:
    read, written = _arrays(capsule, 2)
    said = _gdb(
        capsule, "monitor break doubled 3", "continue", "monitor arguments", f"x/3fw {read + 40}", "stepi",
        f"x/3fw {written + 40}", "monitor changed", "continue",
    )  # fmt: skip
    assert re.search(r"\t43\t47\t51\n", said), said  # 4 i + 3 from i = 10 on
    assert re.search(r"\t87\t95\t103\n", said), said  # 8 i + 7
    assert "changed" in said and "exited normally" in said, said


def test_what_gdb_writes_is_what_the_next_launches_read(capsule: Path) -> None:
    read, written = _arrays(capsule, 4)
    said = _gdb(
        capsule, "monitor break doubled 5", "continue", f"set {{float}}{read} = 100", "stepi",
        f"x/2fw {written}", "continue",
    )  # fmt: skip
    assert re.search(r"\t201\t63\n", said), said  # instead of 31; 32 i + 31
    assert "exited normally" in said, said
