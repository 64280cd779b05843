"""devices, doctor and bench on a machine whose only device is the CPU (PoCL)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.opencl_recording import require_pocl
from warpsight.machine.cuda import cuda_driver


def run(*arguments: str, **settings: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "warpsight", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **settings},
    )
    return done.returncode, done.stdout, done.stderr


def run_json(*arguments: str, **settings: str) -> Any:
    code, output, errors = run(*arguments, "--json", **settings)
    assert code == 0, errors
    return json.loads(output)


@pytest.fixture(autouse=True)
def pocl(library: Path) -> None:
    require_pocl()


def test_devices_lists_the_cpu() -> None:
    found = run_json("devices")
    assert any(d["platform"] == "opencl" and d["multiprocessors"] for d in found["devices"])


def test_devices_without_any_is_exit_code_1(tmp_path: Path) -> None:
    code, output, errors = run("devices", OCL_ICD_VENDORS=str(tmp_path), CUDA_VISIBLE_DEVICES="")
    if "cuda" in output:
        pytest.skip("NVML sees a GPU")
    assert code == 1
    assert "doctor" in errors


def test_doctor_finds_that_the_loader_knows_layers() -> None:
    states = {check["feature"]: check["state"] for check in run_json("doctor")["checks"]}
    assert states["OpenCL recording"] == states["recorder"] == "ok"


def test_bench_misses_no_launch(tmp_path: Path) -> None:
    found = run_json("bench", "--launches", "300", "--device", "opencl", POCL_CACHE_DIR=str(tmp_path))
    assert found["ok"]
    assert found["complete"] == 300
    assert found["frames"] >= 3


def test_links_are_measured_and_kept(tmp_path: Path) -> None:
    found = run_json("bench", "--links", XDG_CACHE_HOME=str(tmp_path))
    assert len(found["links"]) >= 3
    assert json.loads((tmp_path / "warpsight" / "links.json").read_text())["links"] == found["links"]


@pytest.mark.parametrize("what", [["--launches", "10"], ["--links"]])
def test_a_device_that_is_not_here_is_refused_in_one_line(what: list[str], tmp_path: Path) -> None:
    if cuda_driver.problem() is None:
        pytest.skip("a CUDA device is here")
    code, output, errors = run("bench", "--device", "cuda", *what, XDG_CACHE_HOME=str(tmp_path))
    assert (code, output, errors.count("\n")) == (1, "", 1)
    assert "no CUDA device here" in errors
    assert not list(tmp_path.iterdir())


def test_unknown_device_is_a_usage_error() -> None:
    assert run("bench", "--device", "tpu")[0] == 2


def test_the_selftest_tries_each_capability(tmp_path: Path) -> None:
    trials = {
        t["capability"]: t for t in run_json("doctor", "--selftest", POCL_CACHE_DIR=str(tmp_path))["selftest"]
    }
    working = {"recorder", "shared rings", "OpenCL recording", "native stacks", "own events", "kernel log",
               "reading traces", "exports and imports"}  # fmt: skip
    assert {name: trials[name]["reason"] for name in working if trials[name]["outcome"] != "works"} == {}
    assert {"disassembly", "cuda-gdb", "compute-sanitizer", "--backend rocm", "--backend nsys"} <= set(trials)


def test_the_selftest_says_what_fails_and_what_is_absent(tmp_path: Path) -> None:
    broken = tmp_path / "nsys"
    broken.write_text("#!/bin/sh\necho no licence >&2\nexit 4\n")
    broken.chmod(0o755)
    code, output, _ = run("doctor", "--selftest", "--json", PATH=str(tmp_path), OCL_ICD_VENDORS=str(tmp_path))
    trials = {t["capability"]: t for t in json.loads(output)["selftest"]}
    assert code == 1
    assert trials["--backend nsys"]["outcome"] == "fails"
    assert "no licence" in trials["--backend nsys"]["reason"]
    assert trials["OpenCL recording"]["outcome"] == "absent"
    assert trials["--backend rocm"]["outcome"] == "absent"
