"""Options of `warpsight record` on real OpenCL programs: each does what its help says."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import warpsight.model
from tests.integration.opencl_recording import require_pocl
from tests.integration.recorded import TIMEOUT, Recorded, environment, launcher, record

#: `launch(name, n)` launches a kernel n times from four functions inside each other; the argument is what to do.
PROGRAM = '''
import sys, time
from pathlib import Path
from warpsight.machine.opencl_session import OpenclSession
SOURCE = """
__kernel void touch(__global int* out) { out[get_global_id(0)] = 1; }
__kernel void scale(__global int* out) { out[get_global_id(0)] *= 2; }
"""
session = OpenclSession()
buffer = session.buffer(256)
kernels = {}
def launch(name, count=1):
    if name not in kernels:
        kernels[name] = session.kernel(SOURCE, name)
        session.set_arguments(kernels[name], buffer)
    for _ in range(count):
        inner(kernels[name])
    session.finish()
def inner(kernel): innermost(kernel)
def innermost(kernel): session.launch(kernel, (64,), (16,))
exec(sys.argv[1])
'''
QUIET = ("--sample", "off", "--counters", "off")


@pytest.fixture(autouse=True)
def pocl(library: Path) -> None:
    require_pocl()


def program(then: str) -> list[str]:
    return [sys.executable, "-c", PROGRAM, then]


def run(library: Path, tmp_path: Path, then: str, *options: str, **more: str) -> Recorded:
    found = record(library, tmp_path / "a.warp", program(then), *QUIET, *options, **more)
    assert found.code == 0, found.err
    return found


def kernels(found: Recorded) -> dict[str, int]:
    return dict(found.sql("SELECT name, count(*) FROM kernel GROUP BY name"))  # type: ignore[arg-type]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_kernel_log_grows_while_the_program_runs(library: Path, tmp_path: Path) -> None:
    log = tmp_path / "k.ndjson"
    wait = (
        f"launch('touch', 50)\nend = time.monotonic() + 60\nlog = Path({str(log)!r})\n"
        "while log.read_text().count('kernel_launch\"') < 50 and time.monotonic() < end: time.sleep(0.05)\n"
        "print(log.read_text().count('kernel_launch\"'))\nlaunch('scale', 2)"
    )
    found = run(library, tmp_path, wait, "--kernel-log", str(log))
    assert found.out == "50\n"
    written = lines(log)
    stacks = {line["callstack_id"]: line for line in written if line["type"] == "callstack_def"}
    launches = [line for line in written if line["type"] == "kernel_launch"]
    assert [line["kernel_launch_id"] for line in launches] == list(range(1, 53))
    assert [line["kernel_name"] for line in launches] == ["touch"] * 50 + ["scale"] * 2
    assert (launches[0]["grid"], launches[0]["block"]) == ([4, 1, 1], [16, 1, 1])
    assert "innermost" in "\n".join(stacks[launches[0]["callstack_id"]]["frames"])
    both = found.sql("SELECT count(*) FROM kernel WHERE correlation IN "
                     f"({','.join(str(line['correlation_id']) for line in launches)})")  # fmt: skip
    assert both == [(52,)]


@pytest.mark.parametrize("stacks", ["full", "none"])
def test_the_kernel_log_has_the_stacks_that_were_asked_for(
    library: Path, tmp_path: Path, stacks: str
) -> None:
    log = tmp_path / "k.ndjson"
    run(library, tmp_path, "launch('touch', 3)", WARPSIGHT_KERNEL_LOG=str(log), WARPSIGHT_LOG_STACKS=stacks)
    found = lines(log)
    assert [line["type"] for line in found] == ["kernel_launch"] * 3
    assert all(("cpu_callstack" in line) == (stacks == "full") for line in found)


def test_a_kernel_log_never_replaces_a_file_or_follows_a_link(library: Path, tmp_path: Path) -> None:
    for name, why in (("kept", "-f replaces it"), ("link", "exists|symbolic link")):
        path = tmp_path / name
        if name == "link":
            path.symlink_to(tmp_path / "kept")
        else:
            path.write_text("mine")
        found = record(library, tmp_path / "a.warp", ["true"], "--kernel-log", str(path))
        assert found.code != 0
        assert any(part in found.err for part in why.split("|"))
        assert not found.path.exists()
    assert (tmp_path / "kept").read_text() == "mine"
    found = record(library, tmp_path / "a.warp", ["true"], "--log-stacks", "full")
    assert found.code == 2 and "give --kernel-log" in found.err
    found = record(library, tmp_path / "a.warp", ["true"], "--log-stacks", "some", "--kernel-log", "x")
    assert "--log-stacks must be one of dedup, full, none" in found.err


def test_only_kernels_that_match_are_recorded(library: Path, tmp_path: Path) -> None:
    found = run(library, tmp_path, "launch('touch', 3); launch('scale', 4)", "--kernels", "to*")
    assert kernels(found) == {"touch": 3}


def test_a_pattern_that_matched_nothing_is_told(library: Path, tmp_path: Path) -> None:
    found = run(library, tmp_path, "launch('touch', 3)", "--kernels", "to*", "--kernels", "gemm*")
    assert found.sql("SELECT cause FROM loss WHERE cause LIKE '%pattern%'") == [
        ("kernel pattern 'gemm*' matched no kernel",)
    ]
    assert "note:       kernel pattern 'gemm*' matched no kernel\n" in found.err
    assert "'to*'" not in found.err


def test_a_record_kind_that_does_not_exist_is_refused_before_the_program_runs(
    library: Path, tmp_path: Path
) -> None:
    command = ["touch", str(tmp_path / "ran")]
    found = record(library, tmp_path / "a.warp", command, "--trace", "kernel,telepathy")
    assert found.code == 2 and "telepathy" in found.err
    assert not (tmp_path / "ran").exists() and not found.path.exists()


def test_a_pattern_that_matched_nothing_is_a_warning_in_process(library: Path, tmp_path: Path) -> None:
    recorded = (
        "import warpsight as ws\n"
        "with ws.record('a.warp', kernels=['to*', 'gemm*'], sample='off', counters='off'): exec(sys.argv[2])\n"
    )
    command = [sys.executable, "-c", "import sys\n" + recorded, "launch('touch', 3)", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False, env=environment(library),
                          cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "kernel pattern 'gemm*' matched no kernel" in done.stderr and "'to*'" not in done.stderr


def test_what_only_cuda_has_is_told_of_an_opencl_program(library: Path, tmp_path: Path) -> None:
    found = run(library, tmp_path, "launch('touch')", "--metrics", "dram__bytes.sum", "--trace", "kernel,unified_memory",
                "--cubins", "--nccl", "off")  # fmt: skip
    told = "only CUDA has --cubins, --metrics, --trace unified_memory: the program used only OpenCL"
    assert found.err.count(f"note:       {told}\n") == 1
    assert (told,) in found.sql("SELECT cause FROM loss WHERE severity = 'note'")
    found = record(library, tmp_path / "b.warp", program("launch('touch')"), *QUIET, "--trace", "kernel")
    assert "only CUDA has" not in found.err


@pytest.mark.parametrize(("option", "variable", "value"), [
    ("--api", "WARPSIGHT_API", "clFinnish"), ("--counters", "WARPSIGHT_COUNTERS", "powr"),
    ("--trace", "WARPSIGHT_TRACE", "kernle"), ("--stacks", "WARPSIGHT_STACKS", "nosuch"),
    ("--sample", "WARPSIGHT_SAMPLE", "often"), ("--graph", "WARPSIGHT_GRAPH", "nodes"),
    ("--on-full", "WARPSIGHT_ON_FULL", "panic"), ("--ranges", "WARPSIGHT_RANGES", "off,nvtx"),
])  # fmt: skip
def test_a_value_that_an_option_does_not_take_is_refused_before_the_program_runs(
    library: Path, tmp_path: Path, option: str, variable: str, value: str
) -> None:
    command = ["touch", str(tmp_path / "ran")]
    for options, variables in (([option, value], {}), ([], {variable: value})):
        found = record(library, tmp_path / "a.warp", command, *options, **variables)
        assert found.code == 2 and value in found.err and option in found.err, found.err
        assert not (tmp_path / "ran").exists() and not found.path.exists()
    keyword = option.removeprefix("--").replace("-", "_")
    program = f"import warpsight as ws\nws.record('b.warp', {keyword}={value!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=TIMEOUT, check=False,
                          env=environment(library), cwd=tmp_path)  # fmt: skip
    assert "UsageError" in done.stderr and value in done.stderr and not (tmp_path / "b.warp").exists()


def test_a_variable_that_names_no_function_inside_a_recording_is_told(library: Path, tmp_path: Path) -> None:
    command = ["env", "WARPSIGHT_API=clFinnish,clFinish", *program("launch('touch', 1)")]
    found = record(library, tmp_path / "a.warp", command, *QUIET)
    assert found.code == 0, found.err
    assert found.sql("SELECT cause FROM loss WHERE source = 'settings'") == [
        ("WARPSIGHT_API: no function matches 'clFinnish'",)
    ]


def test_patterns_of_the_environment_are_lines(library: Path, tmp_path: Path) -> None:
    found = run(
        library, tmp_path, "launch('touch', 3); launch('scale', 4)", WARPSIGHT_KERNELS="touch\nfill it\n"
    )
    assert kernels(found) == {"touch": 3}
    with warpsight.model.open(found.path) as trace:
        assert trace.manifest["settings"]["kernels"] == ["touch", "fill it"]


def test_stacks_are_cut_at_the_depth_that_was_asked_for(library: Path, tmp_path: Path) -> None:
    found = run(library, tmp_path, "launch('touch', 3)", "--stack-depth", "2")
    assert found.sql("SELECT DISTINCT s.depth, s.cut FROM launch l JOIN stack s ON l.stack = s.id") == [
        (2, True)
    ]


def test_stacks_off_means_none(library: Path, tmp_path: Path) -> None:
    found = run(library, tmp_path, "launch('touch', 3)", "--stacks", "off")
    assert found.sql("SELECT count(*), count(stack) FROM launch") == [(3, 0)]


def test_delay_and_for_bound_the_kernels(library: Path, tmp_path: Path) -> None:
    steady = "end = time.monotonic() + 4\nwhile time.monotonic() < end: launch('touch'); time.sleep(0.01)\nlaunch('scale')"
    found = run(library, tmp_path, steady, "--delay", "1.5", "--for", "0.5")
    ((count, span),) = found.sql("SELECT count(*), max(start) - min(start) FROM kernel")
    assert count > 0
    assert span < 2e9
    assert "scale" not in kernels(found)


def test_recording_stops_when_the_trace_is_large_enough(library: Path, tmp_path: Path) -> None:
    many = "end = time.monotonic() + 8\nwhile time.monotonic() < end: launch('touch', 500)\nprint('went on')"
    found = run(library, tmp_path, many, "--max-size", "1")
    assert found.out == "went on\n"
    assert any(
        "--max-size" in cause for (cause,) in found.sql("SELECT cause FROM loss WHERE severity = 'ended'")
    )


def test_api_launches_leaves_other_calls_out(library: Path, tmp_path: Path) -> None:
    found = run(library, tmp_path, "launch('touch', 3)", "--api", "launches")
    assert found.sql("SELECT (SELECT count(*) FROM launch), (SELECT count(*) FROM api)") == [(3, 0)]


def test_without_device_times_the_host_side_remains(library: Path, tmp_path: Path) -> None:
    found = run(library, tmp_path, "launch('touch', 3)", "--opencl-profiling", "off")
    assert found.sql("SELECT count(*) FROM launch") == [(3,)]
    assert found.sql("SELECT count(start) FROM kernel") == [(0,)]


@pytest.mark.parametrize("policy", ["drop-newest", "drop-oldest", "wait"])
def test_the_policy_for_full_rings_reaches_the_program(library: Path, tmp_path: Path, policy: str) -> None:
    found = run(
        library,
        tmp_path,
        "launch('touch', 3)",
        "--on-full",
        policy,
        "--flush",
        "50",
        "--buffer-size",
        "65536",
    )
    ((settings,),) = found.sql("SELECT settings FROM process")
    effective = json.loads(settings)
    assert effective["on_full"] == policy
    assert effective["flush_ms"] == 50
    assert effective["buffer_size"] == 65536


def test_an_export_lies_beside_the_trace(library: Path, tmp_path: Path) -> None:
    found = run(library, tmp_path, "launch('touch', 3)", "--export", "chrome")
    exported = [path for path in tmp_path.iterdir() if path != found.path]
    assert len(exported) == 1
    assert "touch" in exported[0].read_text()
    again = record(library, tmp_path / "b.warp", ["true"], "--export", "morse")
    assert again.code == 2
    assert not again.path.exists()


def test_an_export_that_would_be_refused_is_refused_before_the_program_runs(
    library: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text("mine")
    command = ["touch", str(tmp_path / "ran")]
    found = record(library, tmp_path / "a.warp", command, "--export", "chrome")
    assert found.code == 1 and "a.json exists already, where --export chrome would write; -f" in found.err
    assert not (tmp_path / "ran").exists() and not found.path.exists()
    assert (tmp_path / "a.json").read_text() == "mine"
    found = record(library, tmp_path / "a.warp", command, "--export", "chrome", "-f")
    assert found.code == 0 and "traceEvents" in (tmp_path / "a.json").read_text()


def test_a_program_that_ends_before_the_delay_is_told(library: Path, tmp_path: Path) -> None:
    found = run(library, tmp_path, "launch('touch', 3)", "--delay", "50")
    assert kernels(found) == {}
    assert "note:       --delay 50: the program had ended after" in found.err
    ((cause,),) = found.sql("SELECT cause FROM loss WHERE cause LIKE '--delay%'")
    assert cause.endswith("so nothing it did was recorded")


@pytest.mark.parametrize("option", [["--open"], ["--strict"], ["--export", "chrome"]])
def test_print_env_refuses_what_it_would_ignore(library: Path, tmp_path: Path, option: list[str]) -> None:
    command = launcher("--print-env", "-o", str(tmp_path / "a.warp"), *option)
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT, check=False, env=environment(library)
    )
    assert done.returncode == 2 and option[0] in done.stderr and done.stdout == ""
    assert not (tmp_path / "a.warp").exists()


def test_variables_of_print_env_carry_every_option(library: Path, tmp_path: Path) -> None:
    path, log = tmp_path / "shell.warp", tmp_path / "k.ndjson"
    options = (
        "--kernels",
        "touch",
        "--kernels",
        "a b",
        "--stack-depth",
        "2",
        "--kernel-log",
        str(log),
        *QUIET,
    )
    words = " ".join(f"'{word}'" for word in (*launcher("--print-env", "-o", str(path), *options),))
    script = f'eval "$({words})" && "$@"; echo "$WARPSIGHT_KERNELS"; echo "$WARPSIGHT_KERNEL_LOG"'
    done = subprocess.run(
        ["bash", "-c", script, "bash", *program("launch('touch', 3); launch('scale', 2)")],
        capture_output=True, text=True, timeout=TIMEOUT, env=environment(library), check=False,
    )  # fmt: skip
    assert done.stdout == f"touch\na b\n{log}\n", done.stderr
    end = time.monotonic() + TIMEOUT
    while not (path / "manifest.json").exists() and time.monotonic() < end:
        time.sleep(0.05)
    found = Recorded(done.returncode, done.stdout, done.stderr, path)
    assert kernels(found) == {"touch": 3}
    assert found.sql("SELECT DISTINCT s.depth FROM launch l JOIN stack s ON l.stack = s.id") == [(2,)]
    assert [line["type"] for line in lines(log)] == ["callstack_def"] + ["kernel_launch"] * 3


@pytest.mark.parametrize(
    ("then", "code", "told"),
    [
        ("sys.exit(7)", 7, "ended with exit code 7: no exact counts"),
        (
            "launch('touch')",
            1,
            "no exact counts: no kernel of it ran on an NVIDIA GPU whose counters are free; see what",
        ),
    ],
)
def test_a_program_without_counts_is_named_and_no_temporary_folder(
    library: Path, then: str, code: int, told: str
) -> None:
    command = [sys.executable, "-m", "warpsight", "sass", "counts", "--", *program(then)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment(library), timeout=TIMEOUT, check=False
    )
    assert done.returncode == code and told in done.stderr
    assert f"{sys.executable} -c" in done.stderr and "/warpsight-counts-" not in done.stderr
