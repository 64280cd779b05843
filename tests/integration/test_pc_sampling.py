"""Recording samples of program counters, against the stand-in: rows, windows, loss and refusals."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from tests.integration.recorded import TIMEOUT, Recorded, environment, launcher
from tests.integration.standin_programs import Standin, build
from tests.standin import recording

#: Of each launch, as tests/standin/pc_sampling.cpp says: reason → (samples, of them while nothing issued).
OF_A_LAUNCH = {("long_scoreboard", 0x10): (3, 2), ("selected", 0x20): (1, 0)}
#: Of the stand-in's GPU, so that tests at once do not sample the same one.
PCI = os.getpid()
SAMPLES = "SELECT n.name, reason, pc, sum(samples), sum(not_issued) FROM pc_sample_ids s JOIN name n ON s.name_id = n.id " \
          "GROUP BY ALL ORDER BY ALL"  # fmt: skip


@pytest.fixture(scope="session")
def standin(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Standin:
    return build(library, tmp_path_factory.mktemp("standin"))


def run(standin: Standin, path: Path, *steps: str, says: str = "", options: tuple[str, ...] = ()) -> Recorded:
    sampled = options or ("--pc-sampling", "on")
    command = launcher("-o", str(path), "--backend", "cuda", "--sample", "off", "--counters", "off", *sampled, "--",
                       *standin.program("init", *steps, "sync"))  # fmt: skip
    surroundings = environment(
        standin.library, LD_LIBRARY_PATH=str(standin.folder), STANDIN=f"pci={PCI},{says}"
    )
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT, check=False, env=surroundings
    )
    assert done.returncode == 0, done.stderr
    return Recorded(done.returncode, done.stdout, done.stderr, path)


def losses(found: Recorded) -> list[tuple[str, int]]:
    return [(str(cause), int(count)) for cause, count in
            found.sql("SELECT cause, count FROM loss WHERE source = 'pc sampling' ORDER BY cause")]  # fmt: skip


@pytest.mark.parametrize("says", ["", "pc_late=1"], ids=["in windows", "at the end of the context"])
def test_all_samples_of_all_launches_are_rows(standin: Standin, tmp_path: Path, says: str) -> None:
    found = run(
        standin, tmp_path / "a.warp", "module:gemm,add:5", "launch:gemm:5", "launch:add:2", "sync", says=says
    )
    expected = [
        (name, reason, pc, samples * launches, not_issued * launches)
        for name, launches in (("add", 2), ("gemm", 5))
        for (reason, pc), (samples, not_issued) in OF_A_LAUNCH.items()
    ]
    assert found.sql(SAMPLES) == expected
    assert found.sql("SELECT sum(samples), sum(dropped), bool_or(incomplete) FROM pc_window") == [
        (28, 0, False)
    ]
    assert losses(found) == []


def test_samples_name_the_module_whose_code_is_kept(standin: Standin, tmp_path: Path) -> None:
    found = run(standin, tmp_path / "a.warp", "module:gemm:5", "launch:gemm:1")
    [(checksum,)] = found.sql("SELECT DISTINCT checksum FROM pc_sample JOIN module USING (process, checksum)")
    assert (tmp_path / "a.warp" / "cubins" / f"{checksum:016x}.cubin").is_file()


def test_samples_lie_within_their_windows(standin: Standin, tmp_path: Path) -> None:
    found = run(standin, tmp_path / "a.warp", "module:gemm:5", "launch:gemm:1", "sleep:500", "launch:gemm:1")
    assert found.sql("SELECT count(*) FROM pc_sample s ANTI JOIN pc_window w USING (process, context, start, duration)") == [
        (0,)
    ]  # fmt: skip


def test_the_samples_of_a_destroyed_context_are_kept(standin: Standin, tmp_path: Path) -> None:
    found = run(standin, tmp_path / "a.warp", "module:gemm:5", "launch:gemm:3", "destroy", says="pc_late=1")
    assert found.sql("SELECT sum(samples) FROM pc_sample") == [(12,)]
    assert losses(found) == []


def test_what_the_gpu_dropped_is_counted(standin: Standin, tmp_path: Path) -> None:
    found = run(
        standin,
        tmp_path / "a.warp",
        "module:gemm:5",
        "launch:gemm:1",
        says="pc_drop=7,pc_foreign=2,pc_full=1",
    )
    assert found.sql(
        "SELECT sum(samples), sum(dropped), sum(unattributed), bool_or(incomplete) FROM pc_window"
    ) == [(13, 7, 2, True)]
    told = dict(losses(found))
    assert sum(count for cause, count in told.items() if "dropped" in cause) == 7
    assert any("ran full" in cause for cause in told)


@pytest.mark.parametrize(("result", "words"), [(35, "NVreg_RestrictProfilingToAdminUsers=0"), (26, "another profiler"),
                                               (27, "compute capability")])  # fmt: skip
def test_a_refusal_says_what_to_do_and_the_rest_is_recorded(
    standin: Standin, tmp_path: Path, result: int, words: str
) -> None:
    found = run(standin, tmp_path / "a.warp", "launch:gemm:3", says=f"pc_refuse={result}")
    assert found.sql("SELECT count(*) FROM pc_sample") == [(0,)]
    assert found.sql("SELECT count(*) FROM kernel") == [(3,)]
    [(cause, _)] = losses(found)
    assert words in cause


def test_hot_lines_of_a_program_without_line_information_are_instructions(
    standin: Standin, tmp_path: Path
) -> None:
    done = standin.run("sass", "hotspots", "--keep", str(tmp_path / "kept.warp"), "--", *standin.program(
        "init", "module:gemm:5", "launch:gemm:5", "sync", "exit:3"))  # fmt: skip
    assert "gemm (20 samples, 5 launches" in done.stdout, done.stderr
    assert "+0x0010" in done.stdout
    assert "long_scoreboard 100%" in done.stdout
    assert "-lineinfo" in done.stderr
    assert done.returncode == 3
    assert (tmp_path / "kept.warp" / "manifest.json").is_file()


def test_hot_lines_of_a_program_that_cannot_be_sampled_say_why(standin: Standin) -> None:
    done = standin.run(
        "sass", "hotspots", "--", *standin.program("init", "launch:gemm:1", "sync"), STANDIN="pc_refuse=35"
    )
    assert done.returncode == 1
    assert "NVreg_RestrictProfilingToAdminUsers=0" in done.stderr


def test_contexts_that_are_older_than_the_recording_are_named_as_lost(
    standin: Standin, tmp_path: Path
) -> None:
    done = recording.run(standin.program("init", "launch:gemm:2", "start", "launch:gemm:3", "sync", "stop"), tmp_path, {
        "LD_LIBRARY_PATH": str(standin.folder), "WARPSIGHT_PC_SAMPLING": "1000"}, late=True)  # fmt: skip
    assert done.code == 0, done.errors
    assert done.only.lost("older than the recording") == 1
    assert len(done.only.rows("Kernel")) == 3


def test_nothing_is_sampled_unless_asked_for(standin: Standin, tmp_path: Path) -> None:
    found = run(standin, tmp_path / "a.warp", "launch:gemm:3", options=("--pc-sampling", "off"))
    assert found.sql("SELECT count(*) FROM pc_window") == [(0,)]
    assert not (tmp_path / "a.warp" / "cubins").exists()


def test_sampling_ends_before_exit_takes_its_libraries_down(standin: Standin, tmp_path: Path) -> None:
    found = run(standin, tmp_path / "a.warp", "module:gemm:5", "launch:gemm:2", says="slow_exit_ms=300",
                options=("--pc-sampling", "on", "--flush", "20"))  # fmt: skip
    assert found.sql("SELECT sum(samples) FROM pc_window") == [(8,)]
    assert losses(found) == []


def test_a_gpu_that_another_process_samples_is_left_alone(standin: Standin, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(f"\0warpsight samples 0000:1b:00.{PCI}")
        other.listen(1)
        found = run(standin, tmp_path / "a.warp", "module:gemm:5", "launch:gemm:2")
    assert losses(found) == [(f"no samples of program counters: this GPU is sampled in process {os.getpid()}, and can be in one "
                              "process at a time", 1)]  # fmt: skip
    assert found.sql("SELECT count(*) FROM kernel") == [(2,)] and found.sql(SAMPLES) == []


def test_it_can_be_sampled_again_once_a_recording_has_ended(standin: Standin, tmp_path: Path) -> None:
    for name in ("a.warp", "b.warp"):
        found = run(standin, tmp_path / name, "module:gemm:5", "launch:gemm:2")
        assert losses(found) == [] and found.sql("SELECT sum(samples) FROM pc_window") == [(8,)]


def test_a_child_that_outlives_its_program_does_not_keep_the_gpu(standin: Standin, tmp_path: Path) -> None:
    for name in ("a.warp", "b.warp"):
        found = run(standin, tmp_path / name, "module:gemm:5", "launch:gemm:2", "child")
        assert losses(found) == [] and found.sql("SELECT sum(samples) FROM pc_window") == [(8,)]


def test_a_cupti_that_ends_itself_is_not_begun_again(standin: Standin, tmp_path: Path) -> None:
    steps = ("module:gemm:5", "launch:gemm:2", "sync", "sleep:400", "launch:gemm:1")
    found = run(standin, tmp_path / "a.warp", *steps, says="pc_breaks=1",
                options=("--pc-sampling", "on", "--flush", "20"))  # fmt: skip
    assert [cause.partition(":")[0] for cause, _ in losses(found)] == ["no more samples of program counters"]
    [(cause,)] = found.sql("SELECT cause FROM loss WHERE source = 'cuda' AND cause LIKE '%ended itself%'")
    assert str(cause).endswith("GPU work since then is missing")
