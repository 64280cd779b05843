"""Kernels cut out of programs on a real GPU hold what they read and what they wrote."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from warpsight.replay.capsule import browsing
from warpsight.replay.capsule import manifest as m
from warpsight.replay.capsule.store import Capsule

pytestmark = pytest.mark.gpu

HERE = Path(__file__).parent


def _cut(folder: Path, name: str, *options: str, architecture: str = "native") -> Capsule:
    """What `capsule record` cuts out of a program of this folder."""
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc")
    program, out = folder / name, folder / "x.capsule"
    subprocess.run(
        ["nvcc", "-O2", "-std=c++17", f"-arch={architecture}", "-o", program, HERE / f"{name}.cu"], check=True
    )
    command = [sys.executable, "-m", "warpsight", "capsule", "record", "-o", out, *options, "--", program]
    subprocess.run(command, check=True)
    capsule = Capsule.open(out)
    capsule.verify()
    return capsule


def _parameter(capsule: Capsule, number: int) -> bytes:
    launch = capsule.manifest.operations[0]
    assert isinstance(launch, m.Launch)
    place = capsule.manifest.functions[launch.function].parameters[number]
    return launch.parameters[place.offset : place.offset + place.size]


def _floats(capsule: Capsule, address: bytes, when: str) -> list[float]:
    part = browsing.one(browsing.overview(capsule), hex(int.from_bytes(address, "little")))
    found: list[float] = np.frombuffer(
        browsing.contents(capsule, part, when, 0, part.size), np.float32
    ).tolist()
    return found


@pytest.mark.parametrize(("launch", "kind"), [(0, "malloc"), (1, "pool")])
def test_memory_behind_addresses_in_memory_comes_along(tmp_path: Path, launch: int, kind: str) -> None:
    capsule = _cut(tmp_path, "capsule_add", "-k", "*add_listed*", "--launch", str(launch))
    out = _parameter(capsule, 1)
    assert _floats(capsule, out, "after") == [4.0 * i + 1 for i in range(1000)]
    assert browsing.one(browsing.overview(capsule), hex(int.from_bytes(out, "little"))).kind == kind
    target = next(v for v in capsule.manifest.globals if v.name == "target")
    assert _floats(capsule, capsule.bytes_of(target.before or []), "after")[2] == 10.0
    assert len(capsule.manifest.allocations) == 5


def test_a_tensor_map_brings_its_matrix_along(tmp_path: Path) -> None:
    capsule = _cut(tmp_path, "capsule_tma", architecture="sm_90a")
    descriptor, out = _parameter(capsule, 0), _parameter(capsule, 1)
    values = [float(i) for i in range(256 * 32)]
    assert _floats(capsule, descriptor[:8], "before") == values
    assert _floats(capsule, out, "after") == [2 * value for value in values]
