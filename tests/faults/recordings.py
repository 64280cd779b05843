"""`make soak-recordings`: short recordings, several at a time; each ends by itself and lacks nothing.

    python -m tests.faults.recordings [200] [--jobs 8] [--seed 1] [--patience 60] [--keep build/soak]

Where PyTorch has a GPU, the programs are PyTorch's: launches, streams of several threads, backward passes, CUDA graphs, child
processes. Elsewhere the CUDA stand-in's. A recording that has not ended within `--patience` seconds is stuck: the Python, native
and kernel stacks of all of its processes are printed, then it is killed. With `--keep` these recordings stay, too.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import warpsight.model
from tests.integration.recorded import environment, launcher
from warpsight import _native
from warpsight.recorder.inspect import look

#: Options that are drawn for a recording, beside the defaults.
OPTIONS: tuple[tuple[str, ...], ...] = (
    (), (), (), ("--stacks", "both"), ("--sample", "off"), ("--ring", "10min"), ("--on-full", "wait"), ("--api", "launches"),
)  # fmt: skip
LOOK_S = 30.0
#: Prints how many kernels it launched at least.
_TORCH = """
import sys, threading
import torch
kind, count = sys.argv[1], int(sys.argv[2])
x = torch.zeros(256, device="cuda")
def add(x, n):
    for _ in range(n): x.add_(1.0)
def on_stream(n):
    with torch.cuda.stream(torch.cuda.Stream()): add(torch.zeros(64, device="cuda"), n)
if kind == "add":
    add(x, count)
elif kind == "streams":
    threads = [threading.Thread(target=on_stream, args=(count,)) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    count *= 4
elif kind == "backward":
    w = torch.zeros(64, 64, device="cuda", requires_grad=True)
    for _ in range(count // 20): (w * 2.0).sum().backward()
    count //= 20
elif kind == "graph":
    graph = torch.cuda.CUDAGraph()
    add(x, 3)
    with torch.cuda.graph(graph): add(x, 10)
    for _ in range(count // 10): graph.replay()
    count = count // 10 * 10
elif kind == "child":
    import subprocess
    done = subprocess.run([sys.executable, "-c", SOURCE, "add", str(count)])
    sys.exit(done.returncode)
if count % 2: torch.cuda.synchronize()
print(count, flush=True)
"""
TORCH = f"SOURCE = {_TORCH!r}\n{_TORCH}"
KINDS = ("add", "streams", "backward", "graph", "child")


@dataclass(frozen=True)
class Short:
    """One recording: the program's command, how many kernels it launches at least (None: it says so), and options."""

    seed: int
    command: tuple[str, ...]
    launched: int | None
    options: tuple[str, ...]

    @classmethod
    def of(cls, seed: int, standin: Path | None) -> Short:
        """The recording of a seed."""
        chance = random.Random(seed)
        options, count = chance.choice(OPTIONS), chance.randrange(200, 6000)
        if standin is None:
            return cls(seed, (sys.executable, "-c", TORCH, chance.choice(KINDS), str(count)), None, options)
        threads = chance.choice((0, 0, 2, 4))
        steps = [f"threads:{threads}:{count}"] if threads else [f"launch:work:{count}"]
        steps += [*chance.choice(([], ["graph:5"], ["copy:64"])), "sync"]
        return cls(seed, (str(standin / "program"), "init", *steps), count * max(threads, 1), options)


@dataclass
class Ended:
    """How a recording ended: a line for everything that is wrong."""

    short: Short
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0
    stuck: bool = False


def run(short: Short, folder: Path, around: dict[str, str], patience: float) -> Ended:
    """Record in a new folder, and look at what came of it."""
    ended, trace, began = Ended(short), folder / "a.warp", time.monotonic()
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        command = launcher("-q", "--counters", "off", *short.options, "-o", str(trace), "--", *short.command)
        started = subprocess.Popen(command, env=around, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                   start_new_session=True)  # fmt: skip
        try:
            code = started.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            ended.stuck = True
            ended.wrong.append(f"not ended after {patience:g} s\n{stacks(started.pid)}")
            os.killpg(started.pid, signal.SIGKILL)
            code = started.wait()
    ended.seconds = time.monotonic() - began
    if not ended.stuck:
        _check(ended, code, trace, (folder / "out").read_text(), (folder / "err").read_text(errors="replace"))
    return ended


def stacks(root: int) -> str:
    """What every thread of a process and of those below it does: in the kernel, native code and Python."""
    lines = []
    for process in look.look(look.descendants(root), LOOK_S):
        lines.append(f"process {process['pid']}: {process['command'][:200]}")
        for thread in process["threads"]:
            lines.append(f"  thread {thread['thread']} {thread['name']} {thread['state']} in {thread['kernel']} "
                         f"{_kernel(process['pid'], thread['thread'])} {thread.get('problem', '')}")  # fmt: skip
            lines += [f"    {f['function']} {os.path.basename(f['module'])}" for f in thread["native"]]
            lines += [f"    {f['function']} {f['file']}:{f['line']}" for f in thread["python"]]
    return "\n".join(lines)


def _kernel(pid: int, thread: int) -> str:
    """Where a thread is in the kernel, as far as this user may see it."""
    found = []
    for name in ("syscall", "stack"):
        try:
            found.append(" ".join(Path(f"/proc/{pid}/task/{thread}/{name}").read_text().split()))
        except OSError:
            continue
    return " | ".join(found)


def _check(ended: Ended, code: int, trace: Path, out: str, err: str) -> None:
    if code:
        ended.wrong.append(f"exit code {code}\n{err[-2000:]}")
        return
    launched = ended.short.launched if ended.short.launched is not None else int(out.split()[-1])
    with warpsight.model.open(trace) as opened:
        kernels = opened.sql(
            "SELECT count(*) FILTER (start IS NOT NULL), count(*) FILTER (start IS NULL) FROM kernel"
        )
        seen, unfinished = kernels.fetchall()[0]
        lost = opened.sql("SELECT cause, count FROM loss WHERE severity <> 'note'").fetchall()
    if lost or unfinished or seen < launched:
        ended.wrong.append(
            f"{launched} kernels launched, {seen} recorded, {unfinished} without an end; loss: {lost}"
        )


def gpu_of_torch() -> bool:
    """Whether PyTorch has a GPU here; asked in a process of its own."""
    ask = "import torch; raise SystemExit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", ask], capture_output=True, check=False).returncode == 0


def main() -> int:
    """Make the recordings, print each that went wrong, and a line of totals."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recordings", nargs="?", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--patience", type=float, default=60, help="seconds until a recording is stuck")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin none after so long")
    parser.add_argument("--keep", type=Path, help="folder for recordings that were wrong")
    asked = parser.parse_args()
    library = _native.library_path()
    assert library is not None, "no compiled recorder"
    end = time.monotonic() + asked.seconds
    with tempfile.TemporaryDirectory(prefix="soak-") as scratch:
        place, around, standin = Path(scratch), environment(library), None
        if not gpu_of_torch():
            from tests.integration import standin_programs

            standin = standin_programs.build(library, place / "standin").folder
            around["LD_LIBRARY_PATH"] = str(standin)

        def play(seed: int) -> Ended | None:
            if time.monotonic() > end:
                return None
            folder = place / str(seed)
            folder.mkdir()
            ended = run(Short.of(seed, standin), folder, around, asked.patience)
            for line in ended.wrong:
                print(f"seed {seed} {ended.short.command[-4:]} {ended.short.options}: {line}", flush=True)
            if ended.wrong and asked.keep:
                shutil.copytree(folder, asked.keep / str(seed), dirs_exist_ok=True)
            shutil.rmtree(folder)
            return ended

        with ThreadPoolExecutor(asked.jobs) as pool:
            made = [one for one in pool.map(play, range(asked.seed, asked.seed + asked.recordings)) if one]
    wrong = sum(bool(one.wrong) for one in made)
    print(f"{len(made)} recordings of {'the stand-in' if standin else 'PyTorch'}, {asked.jobs} at a time: "
          f"{sum(one.stuck for one in made)} stuck, {wrong} wrong; the longest took "
          f"{max((one.seconds for one in made), default=0):.0f} s")  # fmt: skip
    print(f"{len(made) - wrong} passed, {wrong} failed, 0 skipped")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
