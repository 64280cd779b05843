"""`warpsight merge` as a command: outputs, summary, errors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden" / "merge"


def merge(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "warpsight.cli", "merge", *arguments]
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
    assert done.returncode == 1 and "not.json: is no JSON" in done.stderr and "Traceback" not in done.stderr
    done = merge(
        "-c", str(GOLDEN / "stacks.txt"), "-g", str(GOLDEN / "gpu.json"), "-w", "joules", cwd=tmp_path
    )
    assert done.returncode == 2 and "count, time, bytes" in done.stderr
