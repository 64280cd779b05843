"""`warpsight merge` as a command: outputs, summary, errors."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from warpsight.formats.importing import open_any
from warpsight.model import open as open_trace

GOLDEN = Path(__file__).parents[1] / "golden" / "merge"


def merge(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "warpsight.ui.cli", "merge", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


def test_folded_stacks_conserve_the_gpu_time_that_the_summary_tells(tmp_path: Path) -> None:
    files = ("--cpu", str(GOLDEN / "stacks.txt"), "--gpu", str(GOLDEN / "gpu.json"))
    done = merge(*files, "-o", "out.folded", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    rows = {row["work"]: row for row in told["tables"]["conservation"]["rows"]}
    lines = (tmp_path / "out.folded").read_text().splitlines()
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == rows["all"]["time"]
    events = json.loads((GOLDEN / "gpu.json").read_text())["traceEvents"]
    kernels = [event for event in events if event.get("cat") == "GPU_Kernel"]
    assert rows["all"]["count"] == len(kernels)
    assert told["counts"]["matched"] >= 85
    again = merge(*files, "-o", "out.folded", cwd=tmp_path)
    assert again.returncode == 1 and "exists already" in again.stderr
    counted = merge(*files, "-w", "count", cwd=tmp_path)
    pieces = [line for line in counted.stdout.splitlines() if "Pending" not in line]
    assert sum(int(line.rpartition(" ")[2]) for line in pieces) == len(kernels)
    assert "matched" in counted.stderr and "GPU time" in counted.stderr


def test_a_trace_has_the_stacks_on_the_launches_and_their_work_and_all_else_as_it_was(tmp_path: Path) -> None:
    files = ("-c", str(GOLDEN / "stacks.txt"), "-g", str(GOLDEN / "gpu.json"))
    done = merge(*files, "-o", "merged.warp", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    with_stack = next(r for r in told["tables"]["conservation"]["rows"] if r["work"] == "with their stack")
    with open_any(GOLDEN / "gpu.json") as before, open_trace(tmp_path / "merged.warp") as after:
        assert after.tables | {"stack": 0, "frame": 0, "loss": 0} == before.tables | {
            "stack": 0,
            "frame": 0,
            "loss": 0,
        }
        for table in ("kernel", "launch"):
            assert after.arrow(table).drop_columns("stack").equals(before.arrow(table).drop_columns("stack"))
        sql = "SELECT count(*), sum(duration) FROM kernel WHERE stack IS NOT NULL"
        assert after.sql(sql).fetchall() == [(with_stack["count"], with_stack["time"])]
        launched = "SELECT count(*) FROM launch WHERE stack IS NOT NULL"
        assert after.sql(launched).fetchall() == [(told["counts"]["matched"],)]
        # The same kernels are under the same frames as in folded stacks.
        folded = merge(*files, "-w", "count", cwd=tmp_path).stdout.splitlines()
        expected = {
            line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in folded if ";[GPU_" in line
        }
        rows = after.sql(
            "SELECT stack, short, count(*) FROM kernel WHERE stack IS NOT NULL GROUP BY ALL"
        ).fetchall()
        stacks = after.stacks(stack for stack, _, _ in rows)
        found: dict[str, int] = {}
        for stack, name, count in rows:
            line = ";".join((*stacks[stack], f"[GPU_Kernel]{name.replace(';', ':')}"))
            found[line] = found.get(line, 0) + count
        assert found.items() <= expected.items() and sum(found.values()) == with_stack["count"]
        causes = after.sql("SELECT cause FROM loss WHERE source = 'merge'").fetchall()
        assert any("found their launch" in cause for (cause,) in causes)
    again = merge(*files, "-o", "merged.warp", cwd=tmp_path)
    assert again.returncode == 1 and "exists already" in again.stderr
    done = merge(files[0], files[1], "-g", "merged.warp", "-o", "merged.warp", "-f", cwd=tmp_path)
    assert done.returncode == 2 and "is what this command reads" in done.stderr
    assert (tmp_path / "merged.warp" / "manifest.json").exists()
    assert merge(*files, "-o", "merged.warp", "-f", cwd=tmp_path).returncode == 0
    assert merge(*files, "-o", "x.warp", "-w", "count", cwd=tmp_path).returncode == 2


def test_compat_writes_and_prints_what_the_script_does(tmp_path: Path) -> None:
    for name in ("stacks.txt", "gpu.json"):
        (tmp_path / name).write_bytes((GOLDEN / name).read_bytes())
    done = merge("-c", "stacks.txt", "-g", "gpu.json", "-o", "merged.folded", "-s", "--compat", cwd=tmp_path)
    assert done.stdout == (GOLDEN / "printed-10.txt").read_text()
    assert (tmp_path / "merged.folded").read_bytes() == (GOLDEN / "merged-10.folded").read_bytes()


def test_what_cannot_be_merged_is_one_line(tmp_path: Path) -> None:
    done = merge("-c", "absent.txt", "-g", str(GOLDEN / "gpu.json"), cwd=tmp_path)
    assert (done.returncode, done.stderr.strip()) == (1, "warpsight: absent.txt: there is no such file")
    (tmp_path / "not.json").write_text("[1, 2")
    done = merge("-c", str(GOLDEN / "stacks.txt"), "-g", "not.json", "--compat", "-o", "x", cwd=tmp_path)
    assert done.returncode == 1 and "not.json: is not JSON" in done.stderr and "Traceback" not in done.stderr
    done = merge(
        "-c", str(GOLDEN / "stacks.txt"), "-g", str(GOLDEN / "gpu.json"), "-w", "joules", cwd=tmp_path
    )
    assert done.returncode == 2 and "count, time, bytes" in done.stderr


def lines_at(times: list[int], pid: int = 4711) -> str:
    return "".join(f"{time} python {pid} {pid} 1 main;step;cudaLaunchKernel\n" for time in times)


def test_stacks_on_the_wall_clock_find_their_launches(tmp_path: Path) -> None:
    wall = 1_790_000_000_000_000_000
    text = (GOLDEN / "stacks.txt").read_text()
    moved = re.sub(r"^\d+(?= )", lambda found: str(int(found[0]) + wall), text, flags=re.MULTILINE)
    (tmp_path / "wall.txt").write_text(moved)
    counts = []
    for stacks in (GOLDEN / "stacks.txt", tmp_path / "wall.txt"):
        done = merge(
            "-c", str(stacks), "-g", str(GOLDEN / "gpu.json"), "-o", "x", "-f", "--json", cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        counts.append(json.loads(done.stdout)["counts"])
    assert counts[0] == counts[1] and counts[0]["matched"] >= 85


def test_stacks_of_which_none_finds_a_launch_are_an_error_and_nothing_is_written(tmp_path: Path) -> None:
    launches = (GOLDEN / "stacks.txt").read_text().splitlines()
    (tmp_path / "other.txt").write_text(
        "".join(
            f"{line.split(' ')[0]} other {pid} {pid} 1 main;cudaLaunchKernel\n"
            for line in launches
            for pid in (1, 2)
        )
    )
    (tmp_path / "damaged.txt").write_text(
        "99999999999999999999 python 4711 4711 1 main;cudaLaunchKernel\n" * 3
    )
    for stacks, why in (
        ("other.txt", "none of its "),
        ("damaged.txt", "has no stack with a time (3 lines were not understood)"),
    ):
        for out in ("out.folded", "out.warp", "-"):
            done = merge("-c", stacks, "-g", str(GOLDEN / "gpu.json"), "-o", out, cwd=tmp_path)
            assert done.returncode == 1, done.stderr
            assert done.stderr.startswith(f"warpsight: {stacks}") and why in done.stderr
            assert not done.stdout and not (tmp_path / out).exists()
