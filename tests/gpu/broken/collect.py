"""Runs every broken program on a GPU with core dumps armed and keeps what came out: dumps, cuda-gdb's view, code, logs.

usage: collect.py --out FOLDER [--only NAME,…] [--limit SECONDS]

Needs nvcc and a GPU; cuda-gdb, cuobjdump, compute-sanitizer, torch and Triton are used where they are. Each program
runs bare and, when warpsight can be imported, recorded. The results are at most three archives:
dumps.tar.xz, code.tar.xz and logs.tar.xz. Every program has a time limit, and the whole one too.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import lzma
import os
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PROGRAMS = HERE / "programs"
TRUTH = json.loads((HERE / "truth.json").read_text())
BUILDS = {
    "lineinfo": ["-arch=sm_90", "-lineinfo"],
    "debug": ["-arch=sm_90", "-G", "-g"],
    "jit": ["-gencode", "arch=compute_90,code=compute_90", "-lineinfo"],
    "plain": ["-arch=sm_90"],
}
SMALL = "skip_nonrelocated_elf_images,skip_global_memory,skip_constbank_memory"
LIMIT = 15.0
GDB_VIEWS = (
    "info cuda devices", "info cuda kernels", "info cuda sms", "info cuda blocks", "info cuda warps",
    "info cuda lanes", "info cuda threads", "bt", "print/x $errorpc", "print/x $pc", "info symbol $pc",
    "info symbol $errorpc", "x/4i $pc", "info registers", "info registers system", "info cuda contexts",
    "info cuda modules", "info cuda barriers", "info cuda managed",
)  # fmt: skip


class Collection:
    """The folders of one run, its log and its deadline."""

    def __init__(self, out: Path, limit: float) -> None:
        self.out = out
        self.work = Path("/tmp/warpsight-broken")
        shutil.rmtree(self.work, ignore_errors=True)
        self.bin, self.dumps, self.code, self.logs = (
            self.work / name for name in ("bin", "dumps", "code", "logs")
        )
        for folder in (self.bin, self.dumps, self.code, self.logs):
            folder.mkdir(parents=True)
        self.started = time.monotonic()
        self.deadline = self.started + limit
        self.summary: list[dict[str, object]] = []

    def left(self) -> float:
        return self.deadline - time.monotonic()

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self.started:6.1f} {text}", flush=True)

    def tool(self, name: str, command: list[str], log: Path, limit: float = LIMIT, **more: object) -> int:
        """Run a tool with a time limit, its output in a file."""
        started = time.monotonic()
        try:
            with open(log, "ab") as file:
                done = subprocess.run(
                    command, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                    timeout=max(1.0, min(limit, self.left())), check=False, **more,  # type: ignore[call-overload]
                )  # fmt: skip
            code = done.returncode
        except subprocess.TimeoutExpired:
            code = 124
        except OSError as error:
            code = 127
            log.write_text(f"{name}: {error}\n")
        with open(log, "a") as file:
            file.write(f"\n[[exit {code} after {time.monotonic() - started:.2f} s]]\n")
        return code


def build(collection: Collection, name: str, kind: str) -> str | None:
    """Compile one program in one way; what failed, or None."""
    source = TRUTH[name].get("cubin") or TRUTH[name]["source"]
    if not source.endswith(".cu"):
        return None
    cubin = "cubin" in TRUTH[name]
    target = collection.bin / (f"{name}.cubin" if cubin else f"{name}.{kind}")
    command = ["nvcc", "-std=c++17", *BUILDS[kind], *(["-cubin"] if cubin else []), "-o", str(target), source]
    done = subprocess.run(command, cwd=PROGRAMS, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        return f"{name} {kind}: {done.stderr[:500]}"
    if cubin:
        shutil.copy(target, collection.code)
    elif kind != "jit" and shutil.which("cuobjdump"):
        folder = collection.code / target.name
        folder.mkdir()
        subprocess.run(
            ["cuobjdump", "-xelf", "all", str(target)], cwd=folder, capture_output=True, check=False
        )
    return None


def program(collection: Collection, name: str, kind: str) -> list[str]:
    truth = TRUTH[name]
    if truth["source"].endswith(".py"):
        command = [sys.executable, str(PROGRAMS / truth["source"])]
        return [*command, str(collection.bin / f"{name}.cubin")] if "cubin" in truth else command
    return [str(collection.bin / f"{name}.{kind}")]


def tree(pid: int) -> list[int]:
    """A process and its descendants."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in task.read_text().split():
                found += tree(int(child))
    return found


def end(process: subprocess.Popen[bytes]) -> None:
    for pid in reversed(tree(process.pid)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=10)


def until(condition, seconds: float) -> bool:  # type: ignore[no-untyped-def]
    stop = time.monotonic() + seconds
    while time.monotonic() < stop:
        if condition():
            return True
        time.sleep(0.02)
    return False


def armed(folder: Path, flags: str, **more: str) -> dict[str, str]:
    """The environment with core dumps armed, written into a folder."""
    return dict(
        os.environ, CUDA_ENABLE_COREDUMP_ON_EXCEPTION="1", CUDA_ENABLE_USER_TRIGGERED_COREDUMP="1",
        CUDA_COREDUMP_SHOW_PROGRESS="1", CUDA_COREDUMP_GENERATION_FLAGS=flags,
        CUDA_COREDUMP_PIPE=str(folder / "pipe.%p"), CUDA_COREDUMP_FILE=str(folder / "gpucore.%p"),
        TRITON_CACHE_DIR=str(folder.parents[1] / "triton"), PYTHONUNBUFFERED="1", **more,
    )  # fmt: skip


def recorded(folder: Path, command: list[str]) -> list[str]:
    return [
        sys.executable,
        "-m",
        "warpsight.ui.cli.app",
        "record",
        "-o",
        str(folder / "run.warp"),
        "--",
        *command,
    ]


def launched(process: subprocess.Popen[bytes], log: Path) -> bool:
    """Whether the program said that its kernels are launched, before it ended or the limit came."""
    until(lambda: b"launched" in log.read_bytes() or process.poll() is not None, LIMIT)
    return process.poll() is None and b"launched" in log.read_bytes()


def run_armed(collection: Collection, label: str, command: list[str], hang: bool, flags: str) -> Path | None:
    """Run a program with dumps armed, trigger one when it hangs; the dump's path."""
    folder = collection.dumps / label
    folder.mkdir()
    log = collection.logs / f"{label}.run.txt"
    fact: dict[str, object] = {"label": label, "flags": flags}
    started = time.monotonic()
    with open(log, "wb") as file:
        process = subprocess.Popen(
            command, env=armed(folder, flags), stdout=file, stderr=subprocess.STDOUT, cwd=folder
        )
    if hang and launched(process, log):
        time.sleep(0.5)  # the kernels' start is not visible from outside
        fact["pipes"] = trigger(folder, process)
        at = time.monotonic()
        fact["core_seen_s"] = round(time.monotonic() - at, 3) if until(lambda: cores(folder), 5) else None
    # A dump is complete when the driver has ended the program; dumps of many lanes take a while.
    fact["ended"] = until(lambda: process.poll() is not None, LIMIT * 2 if fact.get("core_seen_s") else LIMIT)
    end(process)
    fact |= {"exit": process.returncode, "seconds": round(time.monotonic() - started, 2)}
    found = cores(folder)
    fact["cores"] = {path.name: path.stat().st_size for path in found}
    collection.summary.append(fact)
    collection.say(f"{label}: exit {process.returncode}, cores {fact['cores']}, ended {fact['ended']}")
    return found[0] if found else None


def cores(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("gpucore.*") if path.is_file())


def trigger(folder: Path, process: subprocess.Popen[bytes]) -> list[str]:
    """Write one byte to every pipe the driver made, and note where its descriptors are."""
    seen = []
    for pipe in folder.glob("pipe.*"):
        descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        os.write(descriptor, b"\0")
        os.close(descriptor)
        seen.append(str(pipe))
    for pid in tree(process.pid):
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            with contextlib.suppress(OSError):
                if "pipe." in os.readlink(link):
                    seen.append(f"{link} -> {os.readlink(link)}")
    return seen


def debugger_view(collection: Collection, label: str, core: Path) -> None:
    """What cuda-gdb says about a dump."""
    if not shutil.which("cuda-gdb"):
        return
    command = ["cuda-gdb", "--batch", "-nx", "-ex", "set pagination off", "-ex", "set width 0"]
    command += ["-ex", f"target cudacore {core}"]
    for view in GDB_VIEWS:
        command += ["-ex", f"echo [[{view}]]\\n", "-ex", view]
    collection.tool("cuda-gdb", command, collection.logs / f"{label}.gdb.txt", LIMIT * 3)


def attach(collection: Collection, label: str, binary: str, command: list[str]) -> None:
    """Let cuda-gdb attach to a program that hangs without dumps armed, twice, and sample within one session."""
    log, view = collection.logs / f"{label}.run.txt", collection.logs / f"{label}.attach.txt"
    environment = dict(os.environ, TRITON_CACHE_DIR=str(collection.work / "triton"), PYTHONUNBUFFERED="1")
    with open(log, "wb") as file:
        process = subprocess.Popen(
            command, env=environment, stdout=file, stderr=subprocess.STDOUT, cwd=collection.work
        )
    try:
        if not launched(process, log):
            return
        time.sleep(0.5)
        wanted = os.path.realpath(binary)
        pid = next(pid for pid in tree(process.pid) if os.readlink(f"/proc/{pid}/exe") == wanted)
        look = ["-ex", "info cuda kernels", "-ex", "info cuda warps", "-ex", "info cuda sms", "-ex", "bt"]
        again = [
            "-ex",
            "continue &",
            "-ex",
            "shell sleep 0.3",
            "-ex",
            "interrupt",
            "-ex",
            "shell sleep 0.7",
            *look,
        ]
        base = ["cuda-gdb", "--batch", "-nx", "-ex", "set pagination off", "-ex", "set width 0"]
        codes = [
            collection.tool("attach", [*base, "-p", str(pid), *look, "-ex", "detach"], view, 20)
            for _ in range(2)
        ]
        if collection.left() > 60:
            background = [*base, "-ex", "set mi-async on", "-p", str(pid), *look, *again, "-ex", "detach"]
            codes.append(collection.tool("attach", background, view, 20))
        collection.summary.append({"label": label, "attach": codes, "alive": process.poll() is None})
        collection.say(f"{label}: cuda-gdb {codes}, alive {process.poll() is None}")
    finally:
        end(process)


def sanitize(collection: Collection, name: str, tool: str) -> None:
    """The vendor's checker, once for people and once for programs."""
    command = program(collection, name, "lineinfo")
    base = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9"]
    text = collection.logs / f"{name}.{tool}.txt"
    xml = collection.logs / f"{name}.{tool}.xml"
    code = collection.tool("sanitizer", [*base, *command], text)
    again = [*base, "--xml", "--save", str(xml), *command]
    second = collection.tool("sanitizer", again, collection.logs / f"{name}.{tool}.xml.out.txt")
    collection.say(f"{name} {tool}: {code}, xml {second}")


def arming_cost(collection: Collection, pairs: int) -> None:
    """Decode times with and without armed dumps, in turn."""
    script = ROOT / "benchmarks/gpu/workloads.py"
    log = collection.logs / "arming.txt"
    arms = [("bare", None), ("armed", armed(collection.dumps / "cost", SMALL))]
    (collection.dumps / "cost").mkdir()
    for pair in range(pairs):
        for arm, environment in arms if pair % 2 == 0 else arms[::-1]:
            if collection.left() < 25:
                return
            with open(log, "a") as file:
                file.write(f"[[{arm} {pair}]]\n")
            command = [sys.executable, str(script), "decode", "--repetitions", "5"]
            collection.tool("arming", command, log, 40, env=environment or dict(os.environ))
    collection.say(f"arming: {pairs} pairs")


def plan(only: set[str]) -> list[tuple[str, str]]:
    """Programs with their builds: first every program once, then the further builds."""
    chosen = [name for name in TRUTH if not only or name in only]
    first = [(name, "lineinfo") for name in chosen]
    return first + [(name, kind) for name in chosen for kind in TRUTH[name].get("builds", [])[1:]]


def collect_dumps(collection: Collection, jobs: list[tuple[str, str]], record: bool) -> None:
    """Run the programs one after another; cuda-gdb reads their dumps, which needs no GPU, beside that."""
    with ThreadPoolExecutor(max_workers=4) as debuggers:
        for name, kind in jobs:
            truth = TRUTH[name]
            if truth["kind"] == "sanitizer":
                continue
            command = program(collection, name, kind)
            for mode in ("bare", "recorded") if record and kind == "lineinfo" else ("bare",):
                if collection.left() < 20:
                    collection.say(f"no time for {name} {kind} {mode}")
                    return
                label = f"{name}.{kind}.{mode}"
                used = command if mode == "bare" else recorded(collection.dumps / label, command)
                hang = truth["kind"] == "hang"
                flags = SMALL + (",skip_abort" if hang and mode == "recorded" else "")
                core = run_armed(collection, label, used, hang, flags)
                if core:
                    debuggers.submit(debugger_view, collection, label, core)


def dump_of_hang(command: list[str], folder: Path) -> Path | None:
    """Run a program that hangs until it says that its kernels are launched, and trigger a dump; its path.

    What the program prints is in the file `log` of the folder.
    """
    log = folder / "log"
    with open(log, "wb") as file:
        process = subprocess.Popen(
            command, env=armed(folder, SMALL), stdout=file, stderr=subprocess.STDOUT, cwd=folder
        )
    try:
        if launched(process, log):
            time.sleep(0.5)  # the kernels' start is not visible from outside
            trigger(folder, process)
            # The dump of a grid that fills the GPU has tens of MB, and comes slowly.
            until(lambda: process.poll() is not None, LIMIT * 8)
    finally:
        end(process)
    found = cores(folder)
    return found[0] if found else None


def everything_once(collection: Collection) -> None:
    """Two dumps with all memory, one of them compressed by the driver, and one of the lightweight kind."""
    for label, flags in (
        ("all", ""),
        ("gzip", f"{SMALL},gzip_compress"),
        ("light", f"{SMALL},skip_shared_memory,skip_local_memory"),
    ):
        command = program(collection, "spin_flag", "lineinfo")
        core = run_armed(collection, f"spin_flag.{label}.bare", command, True, flags)
        if core:
            debugger_view(collection, f"spin_flag.{label}.bare", core)


def experiments(collection: Collection) -> None:
    """What of the recorder a core dump and cuda-gdb bear: without CUPTI, with CUPTI late, with CUPTI gone."""
    late = [sys.executable, str(PROGRAMS / "late_recording.py")]
    yielding = recorded(collection.dumps / "experiment.yield", program(collection, "spin_flag", "lineinfo"))
    yielding.insert(yielding.index("--"), "--yield")
    for name, command in (("yield", yielding), ("during", [*late, "during"]), ("after", [*late, "after"])):
        label = f"experiment.{name}"
        core = run_armed(collection, label, command, True, SMALL)
        if core:
            debugger_view(collection, label, core)
    attach(collection, "experiment.after.attached", sys.executable, [*late, "after"])


def pack(collection: Collection) -> None:
    for pattern in ("triton/**/*.cubin", "triton/**/*.ptx"):
        for path in collection.work.glob(pattern):
            shutil.copy(path, collection.code / path.name)
    (collection.logs / "summary.json").write_text(json.dumps(collection.summary, indent=1))
    collection.out.mkdir(parents=True, exist_ok=True)
    for name in ("dumps", "code", "logs"):
        target = collection.out / f"{name}.tar.xz"
        with lzma.open(target, "wb", preset=1) as raw, tarfile.open(fileobj=raw, mode="w") as archive:
            for path in sorted(collection.work.joinpath(name).rglob("*")):
                if path.is_file() and path.stat().st_size < 200_000_000:
                    archive.add(path, str(path.relative_to(collection.work)))
        collection.say(f"{target.name}: {target.stat().st_size:,} bytes")


def versions(collection: Collection) -> None:
    for command in (
        ["nvidia-smi"],
        ["nvcc", "--version"],
        ["cuda-gdb", "--version"],
        ["compute-sanitizer", "--version"],
        ["uname", "-a"],
    ):
        collection.tool(command[0], command, collection.logs / "versions.txt")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--limit", type=float, default=330.0)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--experiments", action="store_true", help="also the recorder beside the debugger")
    options = parser.parse_args()
    inherited = [str(Path(entry).resolve()) for entry in os.environ.get("PYTHONPATH", "").split(":") if entry]
    os.environ["PYTHONPATH"] = ":".join([str(ROOT / "src"), *inherited])
    if "WARPSIGHT_LIBRARY" in os.environ:
        os.environ["WARPSIGHT_LIBRARY"] = str(Path(os.environ["WARPSIGHT_LIBRARY"]).resolve())
    only = {name for name in options.only.split(",") if name}
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # no host cores of the programs that abort
    collection = Collection(options.out, options.limit)
    jobs = plan(only)
    with ThreadPoolExecutor(max_workers=max(2, (os.cpu_count() or 2) - 2)) as pool:
        for failure in pool.map(lambda job: build(collection, *job), jobs):
            if failure:
                collection.say(failure)
    collection.say("built")
    record = bool(os.environ.get("WARPSIGHT_LIBRARY"))
    try:
        versions(collection)
        collect_dumps(collection, jobs, record)
        if not only:
            everything_once(collection)
            for label, name, record_it in (
                ("bare", "spin_flag", False),
                ("recorded", "spin_flag", True),
                ("recorded", "named_barrier", True),
            ):
                command = program(collection, name, "lineinfo")
                binary = command[0]
                folder = collection.work / f"attach-{name}-{label}"
                folder.mkdir()
                if record_it and record:
                    command = recorded(folder, command)
                attach(collection, f"{name}.attached.{label}", binary, command)
        if options.experiments:
            experiments(collection)
        for name, tool in (
            ("illegal_address", "memcheck"),
            ("misaligned_address", "memcheck"),
            ("shared_out_of_range", "memcheck"),
            *((n, t) for n in TRUTH for t in TRUTH[n].get("tools", [])),
        ):
            if (not only or name in only) and collection.left() > 60:
                sanitize(collection, name, tool)
        if not only:
            arming_cost(collection, options.pairs)
    finally:
        pack(collection)


if __name__ == "__main__":
    main()
