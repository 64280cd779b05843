"""`warpsight watch` and `dump` on programs of the stand-in: what is seen, what is reported, and what is left alone."""

from __future__ import annotations

import json
import lzma
import signal
import time
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import warpsight.model
from tests.integration import standin_programs
from tests.integration.chromium import Chromium
from tests.integration.recorded import TIMEOUT
from tests.integration.standin_programs import Standin, child_named, until
from warpsight.recorder.watch import coredump

HANG = ("--hang-after", "3", "--ring", "30s")


@pytest.fixture(scope="module")
def standin(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Standin:
    return standin_programs.build(library, tmp_path_factory.mktemp("standin"))


def report(folder: Path, name: str = "report") -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    schema = resources.files("warpsight.ui.cli") / "schemas" / "hang_report.json"
    Draft202012Validator(json.loads(schema.read_text(encoding="utf-8"))).validate(content)
    return content


def test_a_hang_is_reported_with_its_launch_its_threads_and_its_last_seconds(
    standin: Standin, tmp_path: Path
) -> None:
    folder = tmp_path / "r.watch"
    steps = standin.program("init", "launch:work:100", "sync", "stuck", "launch:behind:2", "sync")
    done = standin.run("watch", *HANG, "--kernel-timeout", "8", "-o", str(folder), "--", *steps)
    found = report(folder)
    assert found["kind"] == "hang"
    assert "nothing completed since" in found["verdict"]
    assert [launch["kernel"] for launch in found["launches"]] == ["stuck", "behind", "behind"]
    assert found["launches"][0]["grid"] == [4, 1, 1]
    assert any("waits in cuCtxSynchronize" in sentence for sentence in found["evidence"])
    (process,) = found["processes"]
    main = next(thread for thread in process["threads"] if thread["thread"] == process["pid"])
    assert {"cuCtxSynchronize", "main"} <= {frame["function"] for frame in main["native"]}
    with warpsight.model.open(Path(found["trace"])) as trace:
        assert trace.sql(
            "SELECT count(*) FROM kernel WHERE name = 'work' AND start IS NOT NULL"
        ).fetchall() == [(100,)]
    assert done.returncode == 128 + signal.SIGTERM  # --kernel-timeout ended it
    assert report(folder, "report-2")["kind"] == "kernel-timeout"
    assert "stuck grid (4, 1, 1)" in (folder / "report.txt").read_text()


@pytest.mark.parametrize(
    ("option", "kind"), [("--no-data-timeout", "no-data-timeout"), ("--kernel-timeout", "kernel-timeout")]
)
def test_a_timeout_ends_a_stuck_program_after_its_report(
    standin: Standin, tmp_path: Path, option: str, kind: str
) -> None:
    folder = tmp_path / "r.watch"
    steps = standin.program("init", "launch:work:10", "sync", "stuck", "sync")
    done = standin.run("watch", "--hang-after", "0", option, "3", "-o", str(folder), "--", *steps)
    found = report(folder)
    assert found["kind"] == kind
    assert option in found["reason"]
    assert found["launches"][0]["kernel"] == "stuck"
    assert done.returncode == 128 + signal.SIGTERM
    with warpsight.model.open(Path(found["trace"])) as trace:  # complete, with what came before
        assert trace.sql("SELECT count(*) FROM kernel WHERE start IS NOT NULL").fetchall() == [(10,)]
    assert not list(folder.glob("report-2*")), "the end that we made is not a crash of its own"


def test_timeouts_rest_while_no_kernel_runs(standin: Standin, tmp_path: Path) -> None:
    steps = standin.program("init", "launch:work:10", "sync", "sleep:6000", "exit:5")
    timeouts = ("--hang-after", "2", "--no-data-timeout", "2", "--kernel-timeout", "2")
    done = standin.run("watch", *timeouts, "-o", str(tmp_path / "r.watch"), "--", *steps)
    assert done.returncode == 5, done.stderr
    assert not (tmp_path / "r.watch").exists()


def test_healthy_programs_leave_nothing_and_keep_their_exit_code(standin: Standin, tmp_path: Path) -> None:
    steps = [
        "init",
        "rate:work:1000:500",
        "stuck:2000",
        "sync",
        "sleep:4000",
        "graph:20",
        "sync",
        "compute:3500",
        "fork",
        "exit:7",
    ]
    done = standin.run("watch", *HANG, "-o", str(tmp_path / "r.watch"), "--", *standin.program(*steps))
    assert done.returncode == 7
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_a_paused_program_is_not_a_hang(standin: Standin, tmp_path: Path) -> None:
    steps = standin.program("init", "stuck:1500", "sync", "launch:more:10", "sync")
    running = standin.start("watch", *HANG, "-o", str(tmp_path / "r.watch"), "--", *steps)
    pid = child_named(running.pid, "program")
    time.sleep(0.5)  # the kernel is launched
    import os

    os.kill(pid, signal.SIGSTOP)
    time.sleep(5)
    os.kill(pid, signal.SIGCONT)
    assert running.wait(TIMEOUT) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_dump_is_taken_where_it_was_asked_for_and_joined_with_its_launch(
    standin: Standin, tmp_path: Path
) -> None:
    folder, dumps = tmp_path / "r.watch", tmp_path / "dumps"
    steps = standin.program("init", "looked_up:work:5", "sync", "looked_up:stuck_kernel:1", "stuck", "sync")
    options = ("--on-hang", "dump", "--dump-dir", str(dumps), "--gzip")
    done = standin.run("watch", *HANG, *options, "-o", str(folder), "--", *steps)
    assert done.returncode == 128 + signal.SIGABRT  # what the driver does after a dump
    assert "this ends its stuck kernels" in done.stderr
    (dump,) = dumps.glob("core.*.gz")
    found = report(folder)
    assert found["dumps"][0]["path"] == str(dump)
    assert found["launches"][0]["kernel"] == "stuck_kernel"
    assert not list(folder.glob("report-2*")), "the end that our dump made is not a crash of its own"
    assert not list(dumps.glob("pipe*"))


def test_an_exception_with_a_dump_is_a_crash(standin: Standin, tmp_path: Path) -> None:
    folder = tmp_path / "r.watch"
    steps = standin.program("init", "looked_up:bad_kernel:1", "fault")
    done = standin.run("watch", "--dumps", "-o", str(folder), "--", *steps)
    assert done.returncode == 128 + signal.SIGABRT
    found = report(folder)
    assert (found["kind"], found["exit"]) == ("crash", "signal 6")
    assert found["dumps"][0]["path"].startswith(str(folder / "core."))
    assert found["launches"][0]["kernel"] == "bad_kernel"


def test_the_users_own_variables_win(tmp_path: Path) -> None:
    own = {"CUDA_COREDUMP_FILE": "/elsewhere/%p", "CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "0"}
    armed = coredump.arm(own, tmp_path, "stack", on_request=True)
    assert not set(own) & set(armed.variables)
    assert armed.variables["CUDA_COREDUMP_PIPE"].startswith(str(tmp_path))
    assert any("is kept" in note for note in armed.notes)
    assert "skip_local_memory" not in armed.variables["CUDA_COREDUMP_GENERATION_FLAGS"]


def test_a_pipe_is_found_by_the_processs_descriptors(standin: Standin, tmp_path: Path) -> None:
    template = {"CUDA_ENABLE_USER_TRIGGERED_COREDUMP": "1", "CUDA_COREDUMP_PIPE": str(tmp_path / "p.%h.%p.%t"),
                "CUDA_COREDUMP_FILE": str(tmp_path / "c.%p")}  # fmt: skip
    import subprocess

    process = subprocess.Popen(standin.program("init", "stuck", "sync"), env=standin.environment(**template))
    try:
        until(lambda: coredump.pipe_of(process.pid), "the driver's pipe")
        dump = coredump.take(process.pid, 20, lambda _: None)
        assert dump.path == tmp_path / f"c.{process.pid}"
        assert coredump.complete(dump.path)
    finally:
        process.kill()
        process.wait()


def test_ctrl_c_reports_a_stuck_program_and_the_next_one_ends_it(standin: Standin, tmp_path: Path) -> None:
    folder = tmp_path / "r.watch"
    script = tmp_path / "ignore.sh"
    script.write_text(f"trap '' INT\nexec {' '.join(standin.program('init', 'stuck', 'sync'))}\n")
    running = standin.start("watch", "--hang-after", "300", "-o", str(folder), "--", "sh", str(script))
    child_named(running.pid, "program")
    time.sleep(1.5)  # until it waits
    running.send_signal(signal.SIGINT)
    until(lambda: (folder / "report.txt").is_file(), "the report")
    assert report(folder)["kind"] == "interrupt"
    running.send_signal(signal.SIGINT)
    assert running.wait(TIMEOUT) in (128 + signal.SIGTERM, 128 + signal.SIGKILL)


def test_a_broken_dump_is_not_complete(tmp_path: Path) -> None:
    path = tmp_path / "core"
    path.write_bytes(b"\x7fELF" + bytes(30))
    assert not coredump.complete(path)
    path.write_bytes(b"")
    assert not coredump.complete(path)


@pytest.mark.browser
def test_the_page_has_verdict_gpu_launches_last_seconds_and_threads(
    standin: Standin, tmp_path: Path, browser: str
) -> None:
    core = tmp_path / "model"
    packed = Path(__file__).parents[1] / "golden" / "cores" / "named_barrier.lineinfo.gpucore.xz"
    core.write_bytes(lzma.decompress(packed.read_bytes()))
    folder, kernel = tmp_path / "r.watch", "_Z13named_barrierPi"
    steps = standin.program("init", "looked_up:work:50", "sync", f"looked_up:{kernel}:1", "stuck", "sync")
    options = (*HANG, "--on-hang", "dump", "-o", str(folder))
    standin.run("watch", *options, "--", *steps, STANDIN_DUMP=str(core))
    (join,) = report(folder)["dumps"][0]["joins"]  # the dump is of another run, whose grid was smaller
    assert (join["launch"], join["by"]) == (
        None,
        "the outstanding launches of that kernel have other dimensions",
    )
    with Chromium(browser) as page:
        page.offline()
        page.open((folder / "report.html").as_uri())
        sections = page.evaluate("[...document.querySelectorAll('main > section')].map(s => s.id)")
        assert sections == ["verdict", "gpu", "launches", "last", "host"]
        assert "named_barrier.cu:5" in page.evaluate("document.querySelector('h1').textContent")
        waits = page.evaluate("[...document.querySelectorAll('.waits .n')].map(n => n.textContent)")
        assert waits == ["3 warps, 96 lanes", "1 warp, 32 lanes"]
        assert page.evaluate("document.querySelectorAll('.lasting .stuck').length") == 1
        assert "cuCtxSynchronize" in page.evaluate("document.getElementById('host').textContent")
        for width in (390, 1280):
            page.resize(width, 800)
            page.settle()
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.errors == []
        assert [url for url in page.requests if not url.startswith(("file:", "data:"))] == []
