"""`warpsight record`: run a program and record it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsight.errors import UsageError, WarpsightError
from warpsight.recorder.settings import Settings
from warpsight.ui.render import terminal

if TYPE_CHECKING:
    from warpsight.recorder.server import Server
    from warpsight.recorder.summary import Summary

CONTEXT_SETTINGS = {"allow_interspersed_args": False}
EXIT_LOSS = 3
_DEFAULTS = Settings()


def command(
    program: Annotated[list[str] | None, typer.Argument(metavar="[--] PROGRAM [ARGS]…", help="The program to record.")] = None,
    path: Annotated[Path | None, typer.Option("-o", "--output", envvar="WARPSIGHT_OUTPUT",
                    help="Folder to write; PROGRAM.warp by default.")] = None,
    force: Annotated[bool, typer.Option("-f", "--force", envvar="WARPSIGHT_FORCE", help="Replace an existing trace.")] = False,
    backend: Annotated[str, typer.Option(envvar="WARPSIGHT_BACKEND",
                       help="auto, cuda, opencl, uprobe; or a vendor's: nsys, rocm, metal, maca, ascend.")] = _DEFAULTS.backend,
    recorder: Annotated[str, typer.Option(envvar="WARPSIGHT_RECORDER",
                        help="With rocm and maca: own (in the process, with host stacks; untested on their hardware), vendor "
                        "(rocprofv3, mcTracer), auto (own where it can run).")] = "auto",
    backend_args: Annotated[str, typer.Option(envvar="WARPSIGHT_BACKEND_ARGS", metavar="ARGS",
                            help="Arguments for the vendor's recorder, as one text quoted like a shell's.")] = "",
    pid: Annotated[int, typer.Option("--pid", metavar="PID", min=0, show_default=False,
                   help="A running process instead of a program (--backend uprobe); until --for or Ctrl-C.")] = 0,
    keep: Annotated[bool, typer.Option("--keep", envvar="WARPSIGHT_KEEP",
                    help="Keep what the vendor's recorder wrote, beside the trace.")] = False,
    template: Annotated[str, typer.Option(envvar="WARPSIGHT_TEMPLATE", metavar="NAME",
                        help="Template of Instruments (--backend metal): Metal System Trace by default.")] = "",
    stacks: Annotated[str, typer.Option(envvar="WARPSIGHT_STACKS", help="python, native, both or off.")] = _DEFAULTS.stacks,
    stack_depth: Annotated[int, typer.Option(envvar="WARPSIGHT_STACK_DEPTH",
                           help="Frames of a stack at most.")] = _DEFAULTS.stack_depth,
    sample: Annotated[str, typer.Option(envvar="WARPSIGHT_SAMPLE", metavar="HZ|off",
                      help="Samples of host threads per second.")] = f"{_DEFAULTS.sample:g}",
    api: Annotated[str, typer.Option(envvar="WARPSIGHT_API",
                   help="API calls to record: default, launches, all, off, or names of functions.")] = _DEFAULTS.api,
    trace: Annotated[str, typer.Option(envvar="WARPSIGHT_TRACE", metavar="KINDS",
                     help="Kinds of device records, comma-separated, of kernel, memcpy, memset, sync, event, memory, overhead, "
                     "unified_memory, environment, jit (CUDA), build, flow (OpenCL), openmp, openacc (ranges); the usual ones by "
                     "default.")] = "",
    graph: Annotated[str, typer.Option(envvar="WARPSIGHT_GRAPH", help="CUDA graphs: every kernel "
                   "(node; auto is the same), or one row for a launch (graph).")] = _DEFAULTS.graph,
    counters: Annotated[str, typer.Option(envvar="WARPSIGHT_COUNTERS", metavar="off|HZ|NAMES",
                        help="GPU counters per second, or which.")] = _DEFAULTS.counters,
    kernels: Annotated[list[str] | None, typer.Option(metavar="PATTERN",
                       help="Record only kernels whose name matches; repeatable, in WARPSIGHT_KERNELS one a line.")] = None,
    duration: Annotated[float, typer.Option("--for", "--duration", envvar="WARPSIGHT_FOR", metavar="S", show_default="no end",
                        help="Stop recording after this many seconds; the program goes on.")] = _DEFAULTS.duration,
    delay: Annotated[float, typer.Option(envvar="WARPSIGHT_DELAY", metavar="S",
                     help="Begin to record after this many seconds.")] = _DEFAULTS.delay,
    capture_range: Annotated[str, typer.Option(envvar="WARPSIGHT_CAPTURE_RANGE", help="profiler-api: record only between the "
                             "program's cudaProfilerStart and cudaProfilerStop; or off.")] = _DEFAULTS.capture_range,
    ranges: Annotated[str, typer.Option(envvar="WARPSIGHT_RANGES",
                      help="torch: ranges for its operators, with shapes; or off.")] = _DEFAULTS.ranges,
    leave_cupti: Annotated[bool, typer.Option("--yield", envvar="WARPSIGHT_YIELD",
                           help="Leave CUPTI to the program's own profiler.")] = False,
    opencl_profiling: Annotated[str, typer.Option(envvar="WARPSIGHT_OPENCL_PROFILING",
                                help="off: record the host side of OpenCL only.")] = _DEFAULTS.opencl_profiling,
    buffer_size: Annotated[int, typer.Option(envvar="WARPSIGHT_BUFFER_SIZE", metavar="BYTES",
                           help="Size of a CUPTI activity buffer.")] = _DEFAULTS.buffer_size,
    device_buffers: Annotated[int, typer.Option(envvar="WARPSIGHT_DEVICE_BUFFERS", metavar="BYTES",
                              help="Size of CUPTI's buffers on the device; 0 leaves it to CUPTI.")] = _DEFAULTS.device_buffers,
    on_full: Annotated[str, typer.Option(envvar="WARPSIGHT_ON_FULL",
                       help="When a ring is full: drop-newest, drop-oldest or wait.")] = _DEFAULTS.on_full,
    max_size: Annotated[int, typer.Option(envvar="WARPSIGHT_MAX_SIZE", metavar="MB", show_default="no limit",
                        help="Stop recording when the trace is this large; the program goes on.")] = _DEFAULTS.max_size,
    flush: Annotated[int, typer.Option(envvar="WARPSIGHT_FLUSH_MS", metavar="MS",
                     help="Milliseconds between flushes.")] = _DEFAULTS.flush,
    wait: Annotated[float, typer.Option(envvar="WARPSIGHT_WAIT", metavar="S",
                    help="Wait this long for processes that outlive the program.")] = _DEFAULTS.wait,
    cubins: Annotated[bool, typer.Option(envvar="WARPSIGHT_CUBINS",
                      help="Keep the code of CUDA modules, each once, in the trace.")] = False,
    kernel_log: Annotated[Path | None, typer.Option(envvar="WARPSIGHT_KERNEL_LOG", metavar="FILE",
                          help="Also write a JSON line for every kernel while the program runs.")] = None,
    log_stacks: Annotated[str, typer.Option(envvar="WARPSIGHT_LOG_STACKS",
                          help="Stacks in the kernel log: dedup (each once), full or none.")] = _DEFAULTS.log_stacks,
    ring: Annotated[str, typer.Option(envvar="WARPSIGHT_RING_SIZE", metavar="TIME|SIZE",
                    help="Keep only the last 30s, 500MB or 30s,500MB; triggers write traces of them.")] = "",
    after: Annotated[float, typer.Option(envvar="WARPSIGHT_AFTER", metavar="S",
                     help="Seconds past a trigger that its trace holds too.")] = _DEFAULTS.after,
    trigger: Annotated[list[str] | None, typer.Option(metavar="WHAT", help="Write a trace of the ring at: crash, nccl (both by "
                       "default), hang[=S], slow-step[=K[:RANGES]], none; repeatable.  [env var: "
                       "WARPSIGHT_TRIGGER]")] = None,
    strict: Annotated[bool, typer.Option(envvar="WARPSIGHT_STRICT", help="Exit with 3 instead of 0 when data was lost.")] = False,
    export: Annotated[str, typer.Option(envvar="WARPSIGHT_EXPORT", metavar="FORMAT",
                      help="Also export the trace, beside it: a format of `warpsight export`.")] = "",
    open_after: Annotated[bool, typer.Option("--open",
                          help="Show the report in the browser afterwards, until Ctrl-C.")] = False,
    print_env: Annotated[bool, typer.Option("--print-env",
                         help="Print the variables that record programs of this shell, until it ends.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No summary.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="The recorder says what it does.")] = False,
) -> None:  # fmt: skip
    """Record a program into a trace.

    The program runs as it would without: same terminal, signals and exit code. `--` before it is optional.
    Inside another recording, or as a further rank of a job that records into the same folder, it joins that recording.
    """
    from warpsight.ui.cli import record_backend

    _set_verbosity(quiet, verbose)
    vendors = record_backend.is_vendors(
        backend, recorder, only_vendors=bool(backend_args or keep or template)
    )
    settings = Settings(
        backend="auto" if vendors else backend, stacks=stacks, stack_depth=stack_depth, sample=_rate(sample), api=api,
        trace=tuple(k for k in trace.replace(",", " ").split() if k), graph=graph, counters=counters,
        kernels=tuple(kernels or _patterns()), duration=duration, delay=delay, capture_range=capture_range,
        ranges=ranges, leave_cupti=leave_cupti,
        opencl_profiling=opencl_profiling, buffer_size=buffer_size, device_buffers=device_buffers, on_full=on_full,
        max_size=max_size, flush=flush, wait=wait, kernel_log=str(kernel_log.absolute()) if kernel_log else "",
        log_stacks=log_stacks, cubins=cubins, ring=ring, after=after,
        triggers=tuple(t for item in trigger or _triggers(ring) for t in item.split(",") if t),
    )  # fmt: skip
    record_backend.check(
        settings, backend, vendors=vendors, arguments=backend_args, keep=keep, template=template
    )
    if print_env:
        from warpsight.recorder.shell import print_environment

        if program or vendors:
            raise UsageError(
                "--print-env takes no program and no vendor's recorder: it prints variables for this shell"
            )
        for flag, given in (("--export", export), ("--open", open_after), ("--strict", strict)):
            if given:
                raise UsageError(f"{flag} is for the end of a program; --print-env returns at once, and the trace is "
                                 "completed when this shell ends")  # fmt: skip
        print_environment(path or Path("shell.warp"), settings, force=force)
        return
    if pid:
        if backend != "uprobe" or program:
            raise UsageError("--pid goes with --backend uprobe and instead of a program")
        backend_args, program = f"--pid {pid} {backend_args}", []
    elif not program:
        raise UsageError("no program to record; for example: warpsight record -- python train.py")
    if export:
        _check_export(path or default_output(program, force=force) if program else path, export, force)
    if vendors:
        where = path or (Path(f"{pid}.warp") if pid else default_output(program, force=force))
        code = record_backend.record(backend, where, program, settings, arguments=backend_args, keep=keep,
                                     template=template, force=force, strict=strict)  # fmt: skip
        if export and where.exists():
            _export(where, export, force)
    else:
        where = path or default_output(program, force=force)
        named = path is not None and os.environ.get("WARPSIGHT_OUTPUT") != str(path)
        code = record(where, program, settings, force=force, strict=strict, export=export, named=named)
    if open_after:
        _open(where)
    raise typer.Exit(code)


def record(path: Path, program: list[str], settings: Settings, *, force: bool = False, strict: bool = False,
           export: str = "", named: bool = False) -> int:  # fmt: skip
    """Record a program and say what came out; its exit code, or 3 under `strict` when data was lost.

    `named`: the path was chosen for this recording alone, so that it is told when another one is joined instead.
    """
    from warpsight.recorder.launch import Launch, join_or_serve
    from warpsight.ui.cli.record_summary import print_summary

    def joining() -> None:
        given = [
            flag
            for flag, value in _of_the_whole(settings, named=named, export=export, strict=strict)
            if value
        ]
        if given:
            terminal.warning("the program joins the recording around it, which has options of its own: "
                             f"{', '.join(given)} given here {'has' if len(given) == 1 else 'have'} no effect")  # fmt: skip

    server = join_or_serve(path, program, settings, force=force, joining=joining)
    launch = Launch(server, terminal.note)
    try:
        code = launch.run(program)
    except WarpsightError:
        server.abandon()
        raise
    summary = _finish(server, program)
    if summary is None:
        return code or 1
    if terminal.verbosity() >= 0:
        print_summary(summary)
    elif summary.lost:
        terminal.warning(
            f"{summary.path}: {summary.lost:,} rows or buffers were lost; warpsight info {summary.path}"
        )
    if export:
        _export(summary.path, export, force)
    return EXIT_LOSS if strict and summary.lost and code == 0 else code


def _of_the_whole(settings: Settings, *, named: bool, export: str, strict: bool) -> list[tuple[str, bool]]:
    """Options of a recording as a whole, and whether they were given to this `record` alone: not by the environment."""
    inherited = os.environ
    return [
        ("-o", named),
        ("--export", bool(export) and inherited.get("WARPSIGHT_EXPORT") != export),
        ("--strict", strict and "WARPSIGHT_STRICT" not in inherited),
        ("--kernel-log", bool(settings.kernel_log) and "WARPSIGHT_KERNEL_LOG" not in inherited),
        ("--ring", bool(settings.ring) and "WARPSIGHT_RING_SIZE" not in inherited),
        ("--max-size", bool(settings.max_size) and "WARPSIGHT_MAX_SIZE" not in inherited),
        ("--for", bool(settings.duration) and "WARPSIGHT_FOR" not in inherited),
        ("--delay", bool(settings.delay) and "WARPSIGHT_DELAY" not in inherited),
    ]


def default_output(program: list[str], *, force: bool = False) -> Path:
    """NAME.warp after the script or program; where that exists and `force` does not replace it, a number is added.

    None is added either where our job is recording into it.
    """
    from warpsight.recorder import join, output

    script = next((a for a in program[1:] if a.endswith((".py", ".sh"))), program[0])
    name = Path(script).stem or "trace"
    job = join.job_of(os.environ)
    for number in range(1, 10_000):
        path = Path(f"{name}.warp" if number == 1 else f"{name}-{number}.warp")
        if force or (not path.exists() and not path.is_symlink()):
            return path
        live = output.announced(path)
        if job and live is not None and live.job == job and live.alive():
            return path
    raise UsageError(f"{name}.warp and its numbered successors exist; choose a name with -o")


def _finish(server: Server, program: list[str]) -> Summary | None:
    """Complete the trace; a failure is told, never allowed to replace the program's exit code."""
    from warpsight.recorder.signals import Signals
    from warpsight.ui.cli.record_summary import Progress

    with Signals() as signals, Progress() as progress:
        del signals  # held back: an impatient Ctrl-C must not cost the trace
        try:
            return server.finish(command=program, progress=progress.update)
        except WarpsightError as error:
            progress.clear()
            terminal.error(str(error))
            return None


def _check_export(path: Path | None, kind: str, force: bool) -> None:
    """Refuse before the program runs what would be refused after it: an unknown format, a file that is there."""
    from warpsight.formats.registry import exporter

    exporter(kind)
    if path is not None and not force and os.path.lexists(beside := _beside(path, kind)):
        raise WarpsightError(f"{beside} exists already, where --export {kind} would write; -f replaces it")


def _beside(path: Path, kind: str) -> Path:
    """Where the export of a trace goes."""
    from warpsight.formats.registry import exporter

    return path.with_suffix(exporter(kind).suffix)


def _export(path: Path, kind: str, force: bool) -> None:
    from warpsight.ui.cli import parser

    beside = str(_beside(path, kind))
    code = parser.run(["export", str(path), "--to", kind, "-o", beside, *(["-f"] if force else [])])
    if code:
        terminal.warning(f"the trace is complete, but its export to {kind} failed with code {code}")


def _open(path: Path) -> None:
    """Show what was recorded; a recording that this process only joined is not complete yet and is not shown."""
    from warpsight.model import manifest

    if (path / manifest.FILE).is_file():
        from warpsight.ui.cli.open import serve

        serve(str(path))
    else:
        terminal.warning(f"{path} holds no finished recording: there is nothing to open")


def _triggers(ring: str) -> list[str]:
    """Triggers of the environment, which mean nothing to a recording without a ring."""
    return [os.environ.get("WARPSIGHT_TRIGGER", "")] if ring else []


def _patterns() -> list[str]:
    """Patterns of the environment. Names of kernels contain spaces, at which the parser would split the variable."""
    return [line for line in os.environ.get("WARPSIGHT_KERNELS", "").splitlines() if line]


def _rate(text: str) -> float:
    if text.strip().lower() == "off":
        return 0.0
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--sample takes a rate in Hz or off, not {text!r}") from None


def _set_verbosity(quiet: bool, verbose: bool) -> None:
    if quiet or verbose:
        terminal.configure(verbosity=int(verbose) - int(quiet))
    if terminal.verbosity() > 0:
        os.environ.setdefault("WARPSIGHT_VERBOSE", "1")
