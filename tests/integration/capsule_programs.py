"""The stand-in in tests/standin/capsule, built once a module, and what is looked at in its capsules."""

from __future__ import annotations

import lzma
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.standin import recording
from tests.standin.recording import cuda_headers
from warpsight.replay.capsule import browsing
from warpsight.replay.capsule import manifest as m
from warpsight.replay.capsule.store import Capsule

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "tests" / "standin" / "capsule"
CUBIN = ROOT / "tests" / "standin" / "capsule" / "capsule.sm_90.cubin.xz"
COUNT = 1000


@dataclass(frozen=True)
class Done:
    """The end of `capsule record`, and what it wrote."""

    code: int
    output: str
    path: Path

    @property
    def capsule(self) -> Capsule:
        assert self.code == 0, self.output
        capsule = Capsule.open(self.path)
        capsule.verify()
        return capsule


@dataclass(frozen=True)
class Programs:
    """The built stand-in."""

    folder: Path
    library: Path

    def start(self, *arguments: str | Path, standin: str = "") -> subprocess.Popen[str]:
        """`warpsight ARGUMENTS`."""
        cubin = self.folder / "module.cubin"
        variables = {
            "CUBIN": str(cubin), "CUBIN_BYTES": str(cubin.stat().st_size), "STANDIN": standin,
            "WARPSIGHT_CUPTI": str(self.folder / "libcupti.so.13"), "WARPSIGHT_LIBRARY": str(self.library),
        }  # fmt: skip
        return subprocess.Popen(
            [sys.executable, "-m", "warpsight", *arguments],
            env={**os.environ, **variables}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def record(
        self, folder: Path, options: str, *steps: str, standin: str = "", program: tuple[str, ...] = ()
    ) -> Done:
        """`capsule record OPTIONS -- program STEPS`."""
        out = folder / "x.capsule"
        command = [
            "capsule",
            "record",
            "-o",
            out,
            *options.split(),
            "--",
            *(program or (self.folder / "program",)),
        ]
        started = self.start(*command, *steps, standin=standin)
        output, _ = started.communicate()
        assert sorted(path.name for path in folder.iterdir() if path != out) == []  # nothing is left behind
        return Done(started.returncode, output, out)


@pytest.fixture(scope="module")
def programs(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Programs:
    headers = cuda_headers()
    if headers is None or not library.with_name("libwarpsight_capsule.so").is_file():
        pytest.skip("this build has no libwarpsight_capsule.so (no CUDA headers)")
    folder = tmp_path_factory.mktemp("capsule")
    if recording.compiler() is None:
        pytest.skip("building the stand-in needs a C++ compiler")
    subprocess.run([SOURCES / "build.sh", folder, headers], check=True)
    (folder / "module.cubin").write_bytes(lzma.decompress(CUBIN.read_bytes()))
    return Programs(folder, library)


def floats(
    capsule: Capsule, part: browsing.Memory, when: str
) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.frombuffer(browsing.contents(capsule, part, when, 0, part.size), np.float32)


def the_output(capsule: Capsule) -> browsing.Memory:
    """The allocation that the kernel's second parameter names."""
    launch = next(work for work in capsule.manifest.operations if isinstance(work, m.Launch))
    address = int.from_bytes(launch.parameters[8:16], "little")
    return browsing.one(browsing.overview(capsule), hex(address))


def the_output_of_last(capsule: Capsule) -> browsing.Memory:
    launch = capsule.manifest.operations[-1]
    assert isinstance(launch, m.Launch)
    return browsing.one(browsing.overview(capsule), hex(int.from_bytes(launch.parameters[8:16], "little")))


def allocations(capsule: Capsule) -> list[browsing.Memory]:
    held = browsing.overview(capsule)
    return [browsing.one(held, hex(block.address)) for block in capsule.manifest.allocations]


def frame(*steps: str) -> list[str]:
    return ["range:warpsight:frame", *steps, "end:warpsight:frame"]
