"""The commands and Python blocks of README, how-to and tutorial pages do what the pages say, and print what they show.

Each page's blocks run one after another in a folder of the page's own, where files that pages name are stored traces
(:data:`FILES`) and `train.py` is the demo's program on OpenCL. Output must be the shown one: to the letter where a command reads
files of `tests/golden`, figures and absolute folders apart elsewhere; `…` stands for anything, such as what a terminal cuts.
"""

from __future__ import annotations

import fnmatch
import gzip
import json
import lzma
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.opencl_recording import require_pocl
from tests.integration.recorded import environment
from warpsight.ui.cli import app

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
#: test_tutorial follows the first tutorial; the other one needs a GPU from its first line.
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/how-to/*.md")),
         *(ROOT / "docs" / "explanation" / name for name in ("account.md", "simulate.md"))]  # fmt: skip
KINETO, CUTRACER, EVENTS = (
    "recorded/kineto_h200.json.gz",
    "formats/cutracer/small.ndjson",
    "events/truth.events.zst",
)
#: What stands for the files that pages name: `page: name`, or the name in any page.
FILES = {
    "run.warp": "planted_slow_step.warp.zip", "train.warp": "planted_sync_every_step.warp.zip",
    "slow-kernel.md: run.warp": "h100_hot_lines.warp.zip", "flame-graphs.md: run.warp": "ranks_loader.warp.zip",
    "find-the-slow-rank.md: train.warp": "ranks_loader.warp.zip",
    "before.warp": "planted_slow_step.warp.zip", "after.warp": "planted_sync_every_step.warp.zip",
    "old": "planted_slow_step.warp.zip", "new": "planted_sync_every_step.warp.zip", "dumps/": "flight_recorder/hang",
    "h100/": KINETO,
    "mi300/": "formats/rocprof/excerpt_results.json",
    "model.pt.trace.json.gz": KINETO, "report.sqlite": "formats/nsys/every_table.sqlite", "half.json": KINETO,
    "odd.json": "formats/chrome/own.json", "rank0.json": "recorded/kineto_h200x2_rank0.json.gz",
    "rank1.json": "recorded/kineto_h200x2_rank1.json.gz", "out/node1/": "formats/rocprof/excerpt_results.json",
    "logs/": "recorded/jax_h200.xplane.pb", "PROF_000001/": "formats/msprof/msprof_1.db",
    "stacks.txt": "merge/stacks.txt", "trace.json": "merge/gpu.json", "python.events": EVENTS, "app.events": EVENTS,
    "gemm.events": "events/classes.events.zst",
    "python.probes": "events/add.probes.zst", "kernel.ndjson.zst": CUTRACER + ".zst", "kernel.ndjson": CUTRACER,
    "kernel.cubin": "cubins/gather_kernel.triton.sm_90.cubin.xz", "train.capsule": "capsules/add.capsule",
    "missing_warp.gpucore": "cores/missing_warp.lineinfo.gpucore.xz",
    "src": "../gpu/broken/programs", "gpucore.node1.2573": "cores/misaligned_address.lineinfo.gpucore.xz",
}  # fmt: skip
#: Patterns of commands that are not run, and why: first what another test runs.
NOT_RUN = {
    "pip *": "installs", "*pip install*": "installs", "make *": "sets up a checkout",
    "docker *": "needs docker", "cmake *": "builds", "nvcc *": "builds", "python scripts/*": "builds", "xctrace *": "needs macOS",
    "mkdir old new": "minutes of work", "for i in*": "minutes of work", "warpsight diff old new": "minutes of work",
    "*--fail-if-slower*": "recordings of a page before: test_analyze_verbs.py",
    "warpsight race *": "needs a GPU: tests/gpu/test_race.py", "warpsight replay *": "needs a GPU: tests/gpu/test_replay.py",
    "*capsule record*": "needs a GPU: test_capsule_standin.py", "*sanitize *": "needs a GPU: test_sanitize.py",
    "*sass trace *": "needs a GPU: test_events_standin.py", "*sass races --on-device*": "needs a GPU: test_events_standin.py",
    "*sass probe *-- *": "needs a GPU: test_probes_standin.py", "*sass counts *": "needs a GPU",
    "*sass metrics -m *": "needs a GPU",
    "*--pc-sampling *": "needs a GPU: test_pc_sampling.py", "*torchrun *": "needs PyTorch: test_job_recording.py",
    "*srun *": "needs Slurm", "*record --backend *": "test_rocm_record.py, test_maca_standin.py, test_uprobe.py",
    "*stats results.nsys-rep": "needs nsys", "warpsight open*": "serves until Ctrl-C: test_report_page.py",
    "warpsight mcp ~*": "serves until Ctrl-C: test_mcp.py", "*cluster trigger*": "needs a running job: test_job_trigger.py",
    "tail -f *": "ends with Ctrl-C", "warpsight top*": "needs a running recording: test_top.py",
    "export WARPSIGHT=dormant*": "test_attach.py", "warpsight attach*": "test_attach.py", "warpsight detach*": "test_attach.py",
    "*dump 4711 --gpu": "needs a GPU", "*--check": "needs cuda-gdb",
    "warpsight merge --cpu stacks.warp*": "needs perf: test_uprobe.py", "export NVBIT_PATH*": "needs NVBit",
}  # fmt: skip
#: What a Python block takes for granted, and what one that is not run begins with or uses, and why.
GIVEN = """import warpsight as ws
data = batches = range(12)
def train(*work): ws.mark("trained")
train_step = step = train
start, duration, address, size = 1, 2, 4096, 64
"""
PYTHON_NOT_RUN = {
    "torch.": "needs PyTorch",
    "%": "needs Jupyter: tests/unit/ui",
    "@ws.probe": "a file for sass probe",
}
#: A program on OpenCL in a process that needs no package.
PROGRAM = "from warpsight.recorder.demo import heat_opencl\nheat_opencl.STEPS = 100\nheat_opencl.main()\n"
#: A figure with its unit, or the folders of an absolute path.
_FIGURE, _FOLDER = re.compile(r"\d[\d,.]*\s?(%|[nµm]?s\b|[kM]i?B\b)?"), re.compile(r"(?<!\S)/\S*/")


#: A comma between groups of digits.
_GROUPED = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


@dataclass(frozen=True)
class Command:
    """A command of a page, and what the page shows of its output."""

    line: int
    text: str
    shown: str

    @property
    def reason_not_to_run(self) -> str | None:
        """The reason in :data:`NOT_RUN`."""
        return next((why for like, why in NOT_RUN.items() if fnmatch.fnmatchcase(self.text, like)), None)

    @property
    def files(self) -> list[str]:
        """The words that may name files of the page."""
        return re.findall(r"[\w./-]+", self.text)


def commands(page: Path) -> Iterator[Command]:
    """The commands of the page's console blocks, comments and prompts apart."""
    text = page.read_text()
    for block in re.finditer(r"^```console\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE):
        for found in re.finditer(
            r"^\$ (.*(?:(?<=\\)\n.*|\n> .*)*)\n((?:(?!\$ ).*\n)*)", block[1], flags=re.MULTILINE
        ):
            line = text[: block.start() + len("```console\n") + found.start()].count("\n") + 1
            yield Command(line, re.sub(r"\s+# .*|^> ", "", found[1], flags=re.MULTILINE), found[2])


def programs(page: Path) -> Iterator[Command]:
    """The Python blocks of a page that can run."""
    text = page.read_text()
    for found in re.finditer(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE):
        if not any(mark in found[1] for mark in PYTHON_NOT_RUN):
            yield Command(text[: found.start()].count("\n") + 2, found[1], "")


def put_file(folder: Path, name: str, golden: str) -> None:
    """Make the file, or the folder with the file in it, that a page names."""
    source, place = GOLDEN / golden, folder / name
    if place.exists():
        return
    if source.is_dir():
        shutil.copytree(source, place)
        return
    if name.endswith("/"):
        place.mkdir(parents=True)
        place /= source.name
    if source.suffix == ".xz":
        place.write_bytes(lzma.decompress(source.read_bytes()))
    elif source.suffix == ".gz" and place.suffix != ".gz":
        place.write_bytes(gzip.decompress(source.read_bytes()))
    else:
        shutil.copyfile(source, place)
    if name == "half.json":
        place.write_bytes(place.read_bytes()[: place.stat().st_size // 2])


def words(text: str, *, exact: bool) -> str:
    """The text in one line, numbers as in a pipe, which are grouped on a terminal; not exact: without figures and folders."""
    text = _GROUPED.sub("", text)
    return " ".join((text if exact else _FIGURE.sub("#", _FOLDER.sub("", text))).split())


def difference(command: Command, printed: str) -> str | None:
    """The piece of what the page shows that the command does not print, or None."""
    exact = "tests/golden/" in command.text
    rest = words(printed, exact=exact)
    for piece in filter(None, (words(one, exact=exact) for one in command.shown.split("…"))):
        if piece not in rest:
            return piece
        rest = rest.partition(piece)[2]
    return None


class Reader:
    """Somebody who follows a page in a folder."""

    def __init__(self, page: Path, folder: Path, library: Path, process: subprocess.Popen[bytes]) -> None:
        self.page, self.folder, self.process = page, folder, process
        for name in ("tests", "benchmarks", "examples"):
            (folder / name).symlink_to(ROOT / name)
        (folder / "train.py").write_text(PROGRAM)
        (folder / "serve.py").symlink_to("train.py")
        for name in ("program", "app", "solver"):
            (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" train.py\n')
            (folder / name).chmod(0o755)
        tools = folder / "bin"
        tools.mkdir()
        (tools / "warpsight").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m warpsight "$@"\n')
        (tools / "warpsight").chmod(0o755)
        for name in ("python", "python3"):
            (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
            (tools / name).chmod(0o755)
        self.environment = environment(library, COLUMNS="80", PATH=f"{tools}:{os.environ['PATH']}",
                                       POCL_CACHE_DIR=str(folder.parent / "pocl"))  # fmt: skip

    def follow(self, command: Command, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
        """The exit code and all that it prints."""
        for name in command.files if " record " not in command.text else []:
            if golden := FILES.get(f"{self.page.name}: {name}", FILES.get(name)):
                put_file(self.folder, name, golden)
        return self._run(command.text.replace("4711", str(self.process.pid)), capsys)

    def _run(self, text: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
        parts = shlex.split(text)
        if parts[0] == "warpsight" and " -- " not in text and not set(parts) & {"|", "&"}:
            code = app.main(parts[1:])
            told = capsys.readouterr()
            return code, told.out + told.err
        done = subprocess.run(["bash", "-c", text], cwd=self.folder, env=self.environment, capture_output=True,
                              text=True, timeout=250)  # fmt: skip
        return done.returncode, done.stdout + done.stderr


def _wrong(reader: Reader, capsys: pytest.CaptureFixture[str]) -> Iterator[str]:
    page = reader.page
    for command in commands(page):
        if command.reason_not_to_run:
            continue
        code, printed = reader.follow(command, capsys)
        if code:
            yield (f"{page.name}:{command.line}: {command.text}\n  ended with {code}: {printed[-600:]}")
        elif missing := difference(command, printed):
            yield (
                f"{page.name}:{command.line}: {command.text}\n  does not print: {missing}\n  but: {printed[:1500]}"
            )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_work_and_print_what_the_page_shows(
    page: Path,
    tmp_path: Path,
    library: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require_pocl()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]) as process:
        wrong = list(_wrong(Reader(page, tmp_path, library, process), capsys))
        process.kill()
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("page", [page for page in PAGES if any(programs(page))], ids=lambda page: page.stem)
def test_python_blocks_run(page: Path, tmp_path: Path, library: Path) -> None:
    for program in programs(page):
        if 'record("run.warp"' in program.text:
            shutil.rmtree(tmp_path / "run.warp", ignore_errors=True)
        else:
            for name in re.findall(r'open\("([^"]+)"\)', program.text):
                put_file(tmp_path, name, FILES[name])
        done = subprocess.run([sys.executable, "-c", GIVEN + program.text], cwd=tmp_path, env=environment(library),
                              capture_output=True, text=True, timeout=250)  # fmt: skip
        assert done.returncode == 0, f"{page.name}:{program.line}: {done.stderr}"


def test_no_reason_is_without_a_command_and_differences_are_found() -> None:
    every = [command.text for page in PAGES for command in commands(page)]
    assert [like for like in NOT_RUN if not any(fnmatch.fnmatchcase(text, like) for text in every)] == []
    shown = Command(1, "warpsight info run.warp", "3 kernels in 2 s\n…\nin /a/b.py:7\n")
    assert difference(shown, "4 kernels in 5.1 ms\nmore\nin /tmp/x/b.py:8\n") is None
    assert difference(shown, "4 copies in 5 ms\nin b.py:8\n") == "#kernels in #"
    assert (
        difference(Command(1, "warpsight info tests/golden/x", "3 kernels\n"), "4 kernels\n") == "3 kernels"
    )


@pytest.mark.skipif(shutil.which("jq") is None, reason="no jq")
def test_the_problem_matcher_of_the_editors_page_finds_the_slow_line(tmp_path: Path, library: Path) -> None:
    page = ROOT / "docs" / "how-to" / "editors.md"
    shown = re.search(r"^```json\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert shown
    (task,) = json.loads(shown[1])["tasks"]
    put_file(tmp_path, "run.warp", FILES["run.warp"])
    with subprocess.Popen(["true"]) as process:
        reader = Reader(page, tmp_path, library, process)
    done = subprocess.run(["bash", "-c", task["command"]], cwd=tmp_path, env=reader.environment, capture_output=True,
                          text=True, timeout=250)  # fmt: skip
    pattern = task["problemMatcher"]["pattern"]
    matches = [re.fullmatch(pattern["regexp"], line) for line in done.stdout.splitlines()]
    assert matches and all(matches), done.stdout + done.stderr
    found = {
        (one[pattern["file"]], int(one[pattern["line"]])): one[pattern["message"]] for one in matches if one
    }
    assert found["slow_step.py", 27].startswith("The GPU is idle for 77%")
