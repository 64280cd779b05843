"""NCCL's profiler interface: the recorder as NCCL loads it, driven by a stand-in for NCCL (tests/standin/nccl)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import warpsight.model
from tests.integration.standin_programs import Standin, build
from tests.standin import recording

COLLECTIVE, MESSAGE, PROXY_OP, PROXY_STEP, CHANNEL, COPY_ENGINE = 2, 4, 8, 16, 64, 4096
OPERATIONS = COLLECTIVE | MESSAGE | COPY_ENGINE
EVERYTHING = OPERATIONS | PROXY_OP | PROXY_STEP | CHANNEL


@pytest.fixture(scope="module")
def nccl(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Standin:
    """Stand-ins for CUDA and for NCCL."""
    standin = build(library, tmp_path_factory.mktemp("nccl"))
    script = recording.SOURCES / "nccl" / "build.sh"
    subprocess.run([script, standin.folder, str(recording.cuda_headers())], check=True)
    return standin


def record(
    nccl: Standin,
    path: Path,
    *steps: str,
    version: int = 5,
    rank: int = 0,
    options: tuple[str, ...] = (),
    **more: str,
) -> subprocess.CompletedProcess[str]:
    program = [str(nccl.folder / "nccl_program"), str(version), str(rank), "2", *steps]
    placed = {"RANK": str(rank), "WORLD_SIZE": "2", **more}
    return nccl.run(
        "record", "-o", str(path), "--sample", "off", "--counters", "off", *options, "--", *program, **placed
    )


def rows(path: Path, sql: str) -> list[dict[str, Any]]:
    with warpsight.model.open(path) as trace:
        found: list[dict[str, Any]] = trace.sql(sql).to_arrow_table().to_pylist()
        return found


OF_KERNELS = """SELECT c.*, n.short AS kernel FROM collective c JOIN kernel_ids k USING (process, correlation)
    JOIN name n ON n.id = k.name_id ORDER BY c.id"""


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 6])
def test_operations_of_every_version_have_their_kernels(nccl: Standin, tmp_path: Path, version: int) -> None:
    done = record(nccl, tmp_path / "run.warp", "report", "all-reduce:1000", "compute", "all-gather:50", "send:1:5", "sync",
                  version=version)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == str(OPERATIONS)
    reduce, gather, send = rows(tmp_path / "run.warp", OF_KERNELS)
    assert (
        reduce["kernel"].startswith("ncclDevKernel_AllReduce") and send["kernel"] == "ncclDevKernel_SendRecv"
    )
    assert (reduce["operation"], reduce["bytes"], reduce["dtype"]) == ("all-reduce", 4000, "f32")
    assert (reduce["algorithm"], reduce["protocol"], reduce["channels"]) == ("ring", "ll", 2)
    assert (reduce["sequence"], gather["sequence"]) == (0, 1)
    assert (send["operation"], send["peer"], send["bytes"]) == ("send", 1, 20)
    assert "0xc0ffee1234" in reduce["group"]
    if version >= 4:
        assert (reduce["ranks"], reduce["rank"], reduce["group"]) == (2, 0, "data parallel 0xc0ffee1234")
        assert gather["bytes"] == 2 * 50 * 4
    if version >= 5:  # before, NCCL says that bytes are gathered
        assert gather["dtype"] == "f32"


@pytest.mark.parametrize("version", [3, 4, 5])
def test_parts_belong_to_their_operation(nccl: Standin, tmp_path: Path, version: int) -> None:
    done = record(nccl, tmp_path / "run.warp", "report", "all-reduce:1", "network", "all-reduce:1000", "sync",
                  version=version, options=("--nccl", "on"))  # fmt: skip
    assert done.stdout.split()[0] == str(EVERYTHING)
    second = rows(tmp_path / "run.warp", "SELECT id FROM collective ORDER BY id")[1]["id"]
    parts = rows(tmp_path / "run.warp", "FROM collective_part ORDER BY kind, channel, step")
    assert {part["collective"] for part in parts} == {second}
    assert [part["channel"] for part in parts if part["kind"] == "channel"] == [0, 1]
    if version >= 4:  # from the GPU's clock
        assert {part["duration"] for part in parts if part["kind"] == "channel"} == {5000}
    steps = [part for part in parts if part["kind"] == "network step"]
    assert [
        (part["channel"], part["step"], part["bytes"], part["peer"], part["direction"]) for part in steps
    ] == [(channel, step, 4096, 1, "send") for channel in (0, 1) for step in (0, 1)]
    assert all(part["wait_device"] + part["wait_network"] <= part["duration"] for part in steps)


def test_a_program_without_a_recorder_is_asked_for_nothing(nccl: Standin, library: Path) -> None:
    program = [nccl.folder / "nccl_program", "5", "0", "2", "report", "all-reduce:10", "exchange:3", "sync"]
    environment = nccl.environment(NCCL_PROFILER_PLUGIN=str(library))
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0"]


def test_off_leaves_nccl_alone(nccl: Standin, tmp_path: Path) -> None:
    record(nccl, tmp_path / "run.warp", "all-reduce:10", "sync", options=("--nccl", "off"))
    assert not rows(tmp_path / "run.warp", "FROM collective")


def test_another_profiler_stays_unless_ours_is_asked_for(nccl: Standin, tmp_path: Path) -> None:
    done = record(nccl, tmp_path / "run.warp", "report", "all-reduce:10", "sync", NCCL_PROFILER_PLUGIN="none")
    assert done.returncode == 0 and done.stdout.split()[0] == "0"
    refused = record(
        nccl, tmp_path / "two.warp", "sync", options=("--nccl", "on"), NCCL_PROFILER_PLUGIN="none"
    )
    assert refused.returncode == 2 and "NCCL_PROFILER_PLUGIN is already set (none)" in refused.stderr


def analyzed(nccl: Standin, folder: Path, *steps: tuple[str, ...]) -> dict[str, Any]:
    """`cluster analyze` of two ranks with these steps."""
    paths = []
    for rank, own in enumerate(steps):
        paths.append(str(folder / f"rank{rank}.warp"))
        done = record(nccl, Path(paths[-1]), *own, "sync", rank=rank)
        assert done.returncode == 0, done.stderr
    done = nccl.run("cluster", "analyze", *paths, "--json")
    assert done.returncode == 0, done.stderr
    content: dict[str, Any] = json.loads(done.stdout)
    return content


def operations(content: dict[str, Any]) -> set[tuple[str, int, int]]:
    return {
        (row["operation"], row["bytes"], row["count"]) for row in content["tables"]["collectives"]["rows"]
    }


def test_messages_match_by_their_ends_and_exchanges_as_all_to_all(nccl: Standin, tmp_path: Path) -> None:
    same = ("exchange:100", "all-reduce:10", "exchange:100")
    content = analyzed(nccl, tmp_path, (*same, "send:1:5", "send:1:5", "receive:1:7"),
                       (*same, "receive:0:5", "receive:0:5", "send:0:7"))  # fmt: skip
    assert operations(content) == {("all-to-all", 800, 2), ("all-reduce", 40, 1), ("send", 20, 2), ("receive", 28, 1)} or \
        operations(content) == {("all-to-all", 800, 2), ("all-reduce", 40, 1), ("send", 20, 2), ("send", 28, 1)}  # fmt: skip
    assert not [one for one in content["findings"] if one["severity"] == "error"]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (("all-reduce:8", "all-reduce:10", "all-gather:10"), "did the all-reduce with 40 B"),
        (("all-reduce:8", "all-gather:9", "all-reduce:9"), "the two in the other order"),
        (("all-reduce:8", "all-gather:9"), "left out an all-reduce"),
    ],
    ids=["size", "order", "missing"],
)
def test_what_a_rank_does_differently_is_named(
    nccl: Standin, tmp_path: Path, other: tuple[str, ...], words: str
) -> None:
    after = ("all-gather:20", "all-reduce:30", "all-gather:20", "all-reduce:30")
    usual = ("all-reduce:8", "all-reduce:9", "all-gather:9")
    content = analyzed(nccl, tmp_path, (*usual, *after), (*other, *after))
    first = content["findings"][0]
    assert first["rule"] == "cluster/mismatch" and words in first["text"], first["text"]


def test_kernels_that_nccl_says_nothing_of_are_known_by_their_names(nccl: Standin, tmp_path: Path) -> None:
    steps = ("all-reduce:8", "unreported", "all-reduce:8")
    content = analyzed(nccl, tmp_path, steps, steps)
    assert operations(content) == {("all-reduce", 32, 2), ("all-reduce", None, 1)}
