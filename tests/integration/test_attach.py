"""`warpsight attach` and `detach` on processes that were started dormant."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import warpsight.trace
from tests.integration import standin_programs
from tests.integration.recorded import TIMEOUT
from tests.integration.standin_programs import Standin, until
from warpsight.session import attach


@pytest.fixture(scope="module")
def standin(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Standin:
    return standin_programs.build(library, tmp_path_factory.mktemp("standin"))


def dormant(standin: Standin, *steps: str) -> subprocess.Popen[bytes]:
    more = {"WARPSIGHT": "dormant", "CUDA_INJECTION64_PATH": str(standin.library)}
    return subprocess.Popen(standin.program(*steps), env=standin.environment(**more))


def test_a_dormant_process_is_recorded_from_attach_to_detach(standin: Standin, tmp_path: Path) -> None:
    process = dormant(standin, "init", "rate:work:500:60000")
    try:
        until(lambda: attach.door(process.pid), "the dormant process")
        folder = tmp_path / "a.warp"
        attached = standin.start(
            "attach", str(process.pid), "--sample", "0", "--counters", "off", "-o", str(folder)
        )
        until(
            lambda: list((folder / "raw").rglob("data-*.seg*")) if (folder / "raw").is_dir() else [], "rows"
        )
        ended = standin.run("detach", str(process.pid))
        assert ended.returncode == 0, ended.stderr
        assert attached.wait(TIMEOUT) == 0
        assert process.poll() is None  # it goes on
        with warpsight.trace.open(folder) as trace:
            kernels, timed = trace.sql("SELECT count(*), count(start) FROM kernel").fetchall()[0]
        assert kernels == timed > 100
        again = standin.run("attach", str(process.pid), "--sample", "0", "--counters", "off", "--for", "1", "-o",
                            str(tmp_path / "b.warp"))  # fmt: skip
        assert again.returncode == 0, again.stderr
        with warpsight.trace.open(tmp_path / "b.warp") as trace:
            assert trace.count("kernel") > 100
    finally:
        process.kill()
        process.wait()


def test_a_process_that_cannot_be_attached_to_says_what_would_help(standin: Standin, tmp_path: Path) -> None:
    process = subprocess.Popen(["sleep", "60"])
    try:
        done = standin.run("attach", str(process.pid), "-o", str(tmp_path / "a.warp"))
    finally:
        process.kill()
        process.wait()
    assert done.returncode == 1
    assert "WARPSIGHT=dormant" in done.stderr
    assert not (tmp_path / "a.warp").exists()
    assert standin.run("attach", "999999999").returncode == 1
    assert standin.run("detach", "1").returncode == 1


def test_the_door_is_closed_when_the_process_ends(standin: Standin) -> None:
    process = dormant(standin, "init", "sleep:300")
    until(lambda: attach.door(process.pid) or process.poll() is not None, "the door")
    assert process.wait(TIMEOUT) == 0
    assert not list(Path("/tmp").glob(f"warpsight-attach-*/{process.pid}"))
