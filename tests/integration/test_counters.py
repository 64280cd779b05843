"""Exact counts and hardware metrics, against the stand-in: rows, passes, losses and refusals."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.integration.recorded import TIMEOUT, Recorded, environment, launcher
from tests.integration.standin_programs import Standin, build

COUNTS = "SELECT name, pc, metric, sum(value) FROM instruction_count GROUP BY ALL ORDER BY ALL"
METRICS = "SELECT kind, name, metric, value, passes FROM range_metric ORDER BY range, metric"
#: Of each launch, as tests/standin/counters.cpp says: pc → executions, threads, threads not switched off, sectors.
OF_A_LAUNCH = {0x0: (4, 128, 128, 0), 0x10: (4, 64, 48, 8)}
NAMES = ("inst_executed", "thread_inst_executed", "thread_inst_executed_pred_on", "sectors_mem_global")


@pytest.fixture(scope="session")
def standin(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Standin:
    return build(library, tmp_path_factory.mktemp("standin"))


def run(standin: Standin, path: Path, options: tuple[str, ...], *steps: str, says: str = "") -> Recorded:
    command = launcher("-o", str(path), "--backend", "cuda", "--sample", "off", "--counters", "off", *options, "--",
                       *standin.program("init", *steps, "sync"))  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False,
                          env=environment(standin.library, LD_LIBRARY_PATH=str(standin.folder), STANDIN=says))  # fmt: skip
    assert done.returncode == 0, done.stderr
    return Recorded(done.returncode, done.stdout, done.stderr, path)


def losses(found: Recorded, source: str) -> list[str]:
    return [
        str(cause)
        for (cause,) in found.sql(f"SELECT cause FROM loss WHERE source = '{source}' ORDER BY cause")
    ]


def test_all_executions_of_all_launches_are_counted(standin: Standin, tmp_path: Path) -> None:
    found = run(
        standin,
        tmp_path / "a.warp",
        ("--sass-counts", "on"),
        "module:gemm,add:5",
        "launch:gemm:5",
        "launch:add:2",
    )
    expected = sorted(
        (name, pc, f"smsp__sass_{metric}", value * launches)
        for name, launches in (("add", 2), ("gemm", 5))
        for pc, values in OF_A_LAUNCH.items()
        for metric, value in zip(NAMES, values, strict=True)
        if value
    )
    assert found.sql(COUNTS) == expected
    assert losses(found, "sass counts") == []


def test_records_are_not_flushed_while_kernels_are_counted(standin: Standin, tmp_path: Path) -> None:
    """CUPTI's flush and a launch that patches its kernel wait for each other's lock: programs did not end."""
    steps = ("module:gemm:5", *("launch:gemm:1", "sleep:100") * 3)
    found = run(standin, tmp_path / "a.warp", ("--sass-counts", "on", "--flush", "10"), *steps)
    assert found.sql("SELECT count(*) FROM kernel") == [(3,)]


def test_counts_name_the_module_whose_code_is_kept(standin: Standin, tmp_path: Path) -> None:
    found = run(standin, tmp_path / "a.warp", ("--sass-counts", "on"), "module:gemm:5", "launch:gemm:1")
    [(checksum,)] = found.sql(
        "SELECT DISTINCT checksum FROM instruction_count JOIN module USING (process, checksum)"
    )
    assert (tmp_path / "a.warp" / "cubins" / f"{checksum:016x}.cubin").is_file()


def test_only_what_is_asked_for_is_counted(standin: Standin, tmp_path: Path) -> None:
    wanted = "smsp__sass_inst_executed,smsp__sass_sectors_mem_global"
    found = run(standin, tmp_path / "a.warp", ("--sass-counts", wanted), "module:gemm:5", "launch:gemm:1")
    assert found.sql("SELECT DISTINCT metric FROM instruction_count ORDER BY 1") == [
        (name,) for name in wanted.split(",")
    ]


def test_the_counts_of_a_destroyed_context_are_kept(standin: Standin, tmp_path: Path) -> None:
    found = run(
        standin, tmp_path / "a.warp", ("--sass-counts", "on"), "module:gemm:5", "launch:gemm:3", "destroy"
    )
    assert found.sql(
        "SELECT sum(value) FROM instruction_count WHERE metric = 'smsp__sass_inst_executed'"
    ) == [(24,)]


@pytest.mark.parametrize(("wanted", "says", "words"), [("on", "counters_refuse=35", "NVreg_RestrictProfilingToAdminUsers=0"),
                                                       ("smsp__bogus", "", "GH100 has no SASS metric smsp__bogus")])  # fmt: skip
def test_what_cannot_be_counted_is_said(
    standin: Standin, tmp_path: Path, wanted: str, says: str, words: str
) -> None:
    found = run(
        standin, tmp_path / "a.warp", ("--sass-counts", wanted), "module:gemm:5", "launch:gemm:1", says=says
    )
    [cause] = losses(found, "sass counts")
    assert words in cause


def test_counts_that_cupti_dropped_are_said(standin: Standin, tmp_path: Path) -> None:
    found = run(
        standin,
        tmp_path / "a.warp",
        ("--sass-counts", "on"),
        "launch:gemm:1",
        "destroy",
        says="counts_drop=3",
    )
    assert found.sql("SELECT count FROM loss WHERE source = 'sass counts'") == [(3,)]


def test_each_launch_has_the_metrics_asked_for(standin: Standin, tmp_path: Path) -> None:
    names = ("--metrics", "dram__bytes.sum,sm__cycles.avg")
    found = run(standin, tmp_path / "a.warp", names, "launch:gemm:2", "launch:add:1")
    assert found.sql(METRICS) == [
        ("kernel", name, metric, value, 1)
        for name in ("gemm", "gemm", "add")
        for metric, value in (("dram__bytes.sum", 1.0), ("sm__cycles.avg", 10.0))
    ]
    joined = "SELECT count(*) FROM range_metric JOIN launch USING (process, correlation) WHERE range_metric.name = launch.name"
    assert found.sql(joined) == [(6,)]


def test_several_passes_in_one_run_are_refused(standin: Standin, tmp_path: Path) -> None:
    found = run(
        standin, tmp_path / "a.warp", ("--metrics", "dram__bytes.sum"), "launch:gemm:2", says="passes=3"
    )
    [cause] = losses(found, "metrics")
    assert "they need 3 passes and a run of the program takes one" in cause
    assert found.sql("SELECT count(*) FROM range_metric") == [(0,)]
    assert found.sql("SELECT count(*) FROM launch WHERE name = 'gemm'") == [(2,)]


@pytest.mark.parametrize("per", ["kernel", "range"])
def test_each_run_takes_a_pass_and_the_last_has_the_metrics(
    standin: Standin, tmp_path: Path, per: str
) -> None:
    options = ("--metrics", "dram__bytes.sum", "--metrics-per", per, "--metrics-passes", str(tmp_path))
    steps = ("push:step", "launch:gemm:70", "pop", "launch:add:1")
    expected = (
        [("range", "step", 70.0)]
        if per == "range"
        else [("kernel", "gemm", 1.0)] * 70 + [("kernel", "add", 1.0)]
    )
    for turn in range(6):
        found = run(standin, tmp_path / f"{turn}.warp", options, *steps, says="passes=3")
        rows = found.sql("SELECT kind, name, value FROM range_metric ORDER BY range")
        assert rows == (expected if turn % 3 == 2 else [])
        assert any("wait for further passes" in cause for cause in losses(found, "metrics")) == (
            turn % 3 != 2
        )
    assert not [path for path in tmp_path.iterdir() if path.is_file()]


def test_runs_that_launch_other_kernels_are_not_put_together(standin: Standin, tmp_path: Path) -> None:
    options = ("--metrics", "dram__bytes.sum", "--metrics-passes", str(tmp_path))
    run(standin, tmp_path / "a.warp", options, "launch:gemm:2", "launch:add:1", says="passes=2")
    found = run(standin, tmp_path / "b.warp", options, "launch:gemm:1", "launch:add:2", says="passes=2")
    assert found.sql("SELECT cause, count FROM loss WHERE source = 'metrics'") == [
        ("launches or ranges that differ from those of the run before, so passes cannot be put together", 3)
    ]
    assert found.sql("SELECT count(*) FROM range_metric") == [(0,)]


def test_only_kernels_asked_for_are_measured(standin: Standin, tmp_path: Path) -> None:
    options = ("--metrics", "dram__bytes.sum", "--kernels", "add")
    found = run(standin, tmp_path / "a.warp", options, "launch:gemm:2", "launch:add:1")
    assert found.sql("SELECT name FROM range_metric") == [("add",)]


def test_an_unknown_metric_is_named_and_the_rest_is_recorded(standin: Standin, tmp_path: Path) -> None:
    options = ("--metrics", "dram__bytes.sum,bogus__bytes.sum")
    found = run(standin, tmp_path / "a.warp", options, "launch:gemm:2")
    [cause] = losses(found, "metrics")
    assert "GH100 has no metric bogus__bytes.sum" in cause
    assert found.sql("SELECT count(*) FROM launch WHERE name = 'gemm'") == [(2,)]


def test_samples_are_counters_of_the_timeline(standin: Standin, tmp_path: Path) -> None:
    options = ("--metrics", "dram__bytes.sum,sm__cycles.avg", "--metrics-every", "100")
    found = run(standin, tmp_path / "a.warp", options, "launch:gemm:1", "sleep:300")
    assert found.sql("SELECT name, value, unit, count(*) FROM counter WHERE source = 'pm sampling' GROUP BY ALL ORDER BY 1") == [
        ("dram__bytes.sum", 7.0, "bytes", 5), ("sm__cycles.avg", 70.0, "bytes", 5)
    ]  # fmt: skip
    [(inside,)] = found.sql(
        "SELECT bool_and(time BETWEEN start AND start + 60e9) FROM counter, launch WHERE source = 'pm sampling'"
    )
    assert inside


def test_captured_launches_are_measured_when_their_graph_runs(standin: Standin, tmp_path: Path) -> None:
    found = run(standin, tmp_path / "a.warp", ("--metrics", "dram__bytes.sum"), "launch:gemm:1", "graph:3")
    assert found.sql("SELECT name, value FROM range_metric ORDER BY range") == [
        ("gemm", 1.0),
        *[("CUDA graph", 1.0)] * 3,
    ]
    assert losses(found, "metrics") == []


def test_more_launches_than_one_session_takes_are_measured(standin: Standin, tmp_path: Path) -> None:
    found = run(
        standin, tmp_path / "a.warp", ("--metrics", "dram__bytes.sum"), "launch:gemm:100", "launch:add:50"
    )
    assert found.sql("SELECT name, count(*), min(value), max(value) FROM range_metric GROUP BY ALL ORDER BY 1") == [
        ("add", 50, 1.0, 1.0), ("gemm", 100, 1.0, 1.0)
    ]  # fmt: skip
    unjoined = "SELECT count(*) FROM range_metric r ANTI JOIN launch l ON r.correlation = l.correlation AND r.name = l.name"
    assert found.sql(unjoined) == [(0,)]
    assert found.sql("SELECT count(*) FROM kernel WHERE duration > 0") == [(150,)]


@pytest.mark.parametrize(
    ("says", "words"), [("passes=3", "they need 3 passes and sampling has one"), ("pm_full=1", "ran full")]
)
def test_sampling_that_loses_says_so(standin: Standin, tmp_path: Path, says: str, words: str) -> None:
    options = ("--metrics", "dram__bytes.sum", "--metrics-every", "100")
    found = run(standin, tmp_path / "a.warp", options, "launch:gemm:1", says=says)
    [cause] = losses(found, "metrics")
    assert words in cause


def test_a_range_is_measured_each_time_it_is_entered(standin: Standin, tmp_path: Path) -> None:
    steps = ("push:step", "push:inner", "launch:gemm:2", "pop", "launch:add:1", "pop") * 4
    found = run(
        standin, tmp_path / "a.warp", ("--metrics", "dram__bytes.sum", "--metrics-per", "range"), *steps
    )
    assert found.sql("SELECT kind, name, value FROM range_metric") == [("range", "step", 3.0)] * 4
    assert losses(found, "metrics") == []


def test_metrics_are_shown_for_each_kernel(standin: Standin, tmp_path: Path) -> None:
    done = standin.run("sass", "metrics", "-m", "dram__bytes.sum", "--json", "--keep", str(tmp_path / "k.warp"), "--",
                       *standin.program("init", "launch:gemm:2", "sync", "exit:3"),
                       WARPSIGHT_CUPTI=str(standin.folder / "libcupti.so.13"))  # fmt: skip
    assert done.returncode == 3, done.stderr
    [row] = json.loads(done.stdout)
    assert (row["name"], row["metric"], row["times"], row["mean"]) == ("gemm", "dram__bytes.sum", 2, 1.0)


def test_a_program_runs_once_for_each_pass_and_its_metrics_are_shown_once(standin: Standin) -> None:
    program = standin.program("init", "launch:gemm:2", "sync")
    done = standin.run("sass", "metrics", "-m", "dram__bytes.sum", "--json", "--", *program,
                       WARPSIGHT_CUPTI=str(standin.folder / "libcupti.so.13"), STANDIN="passes=3")  # fmt: skip
    assert done.returncode == 0, done.stderr
    [row] = json.loads(done.stdout)
    assert (row["name"], row["times"], row["mean"], row["passes"]) == ("gemm", 2, 1.0, 3)
    assert "the program runs 3 times" in done.stderr


def test_an_unknown_metric_is_refused_before_the_program_runs(standin: Standin) -> None:
    done = standin.run("sass", "metrics", "-m", "dram__bytes", "--", *standin.program("init", "exit:3"),
                       WARPSIGHT_CUPTI=str(standin.folder / "libcupti.so.13"))  # fmt: skip
    assert done.returncode == 2
    assert "one of these suffixes: .sum, .avg" in done.stderr


def test_counts_are_shown_by_instruction(standin: Standin) -> None:
    done = standin.run("sass", "counts", "--by", "instruction", "--json", "--", *standin.program(
        "init", "module:gemm:5", "launch:gemm:5", "sync"))  # fmt: skip
    assert done.returncode == 0, done.stderr
    [kernel] = json.loads(done.stdout)["kernels"]
    assert (kernel["mangled"], kernel["launches"], kernel["executions"]) == ("gemm", 5, 40)
    assert (kernel["threads"], kernel["predicated_off"], kernel["lanes"]) == (960, 80, 24.0)
