"""The command line: the table of verbs, their shared behavior, and error reporting.

A verb is one module `warpsight.ui.cli.<group>.<verb>` (`import_` for the keyword `import`), or a package
`warpsight.ui.cli.<verb>` with verbs below it. Both have a function `command(...)` in typer's notation, whose docstring is the
verb's help and begins with the verb's line in :data:`VERBS`. A module may set `CONTEXT_SETTINGS` for the parser, `HAS_SIDES` if
`--` separates two sides, and (below a folder) `TAKES_PROGRAM` if a program may follow `--`. Verbs print results to standard
output, everything else to standard error, and end with :class:`~warpsight.errors.WarpsightError` or `typer.Exit`. Only the
standard library is imported until a verb runs, so `warpsight --help` and `--version` answer at once.
"""

from __future__ import annotations

import atexit
import codecs
import errno
import gc
import io
import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from warpsight.model.allocator import keep_freed_memory
from warpsight.model.pandas_import import keep_pandas_out
from warpsight.recorder.descriptors import fill_standard


@dataclass(frozen=True)
class _Verb:
    """One verb: its one-line summary and the heading it is listed under in `help --all`."""

    summary: str
    group: str
    #: Its line in `warpsight --help`; "": listed in `help --all` only.
    common: str = ""
    #: The verb takes another program's command line, whose options must not be read as ours.
    wraps: bool = False
    #: Where it runs, as `sys.platform` begins; empty: everywhere. What a vendor records on macOS is recorded there too.
    systems: tuple[str, ...] = ()


#: Verbs with verbs below them: a package each. Any other is a module of its group's package.
FOLDERS = ("capsule", "cluster", "race", "sass")


def module_of(verb: str) -> str:
    """The module of a verb."""
    import keyword

    if verb in FOLDERS:
        return f"warpsight.ui.cli.{verb}"
    return f"warpsight.ui.cli.{VERBS[verb].group.lower()}.{verb}{'_' * keyword.iskeyword(verb)}"


#: Verbs by the heading they are listed under, each with its line.
_LISTED = """
[Record]
record Record a program into a trace.
demo Record a small program on the best available device and show the result.
watch Run a program, and say what it was doing when it hangs or crashes.
dump Say what a running process is doing, on the host and on the GPU.
trigger Make a flight recorder write a trace of its last seconds.
top Show a running recording live: rates, how busy the GPUs are, kernels, counters, loss.
attach Record a running process.
detach End the recording of an attached process.
recover Complete the trace of an interrupted recording.
pack Pack a trace folder into one file.
[Read]
info Show what a trace holds, how it was recorded and what is missing.
stats Summarize kernels, copies, API calls, ranges, events, memory, counters, operators or modules.
analyze Say where the GPUs' time went, why they were idle and what to change first, or run analyses by name.
diff Compare runs of two versions: what changed, and whether it is more than the noise between runs.
cluster Analyze a job of many ranks: which rank holds up the others, and why.
simulate Estimate how long a program's steps would take after a change.
query Ask a trace with SQL or simple filters.
view Show the timeline: a row per device and stream, or single events with --list.
report Write one HTML page with findings, timeline, flame graph and tables.
open Show a trace in the browser: the report, and the Perfetto UI with the trace loaded.
flame Draw a flame graph of the host code that launched the GPU's work, or (--weight samples) used the CPU.
merge Join host stacks from another tool with the GPU work they launched.
export Write a trace in another tool's format.
import Read other tools' files into a trace.
[Debug]
core Explain a GPU core dump: the fault or hang, and where every lane is.
sanitize Run a program under NVIDIA's Compute Sanitizer and explain its findings.
replay Run a capsule's GPU work again, at its original addresses, and compare every output byte.
capsule Cut kernels out of a running program to run them again, and say what a capsule holds.
race Find timing bugs: provoke them with delays, prove that the delays are the cause, shrink them to the fewest points.
[Read]
mcp Serve traces to agents over the Model Context Protocol (standard input and output).
sass Look inside kernels: hot lines, why warps stall, every access and barrier, races, instruction traces.
[Machine]
devices List the devices of this machine.
doctor Say what works here, what does not, and the command that fixes it.
bench Measure what recording costs on this machine.
[About]
help Show the help of a verb.
version Show versions of warpsight, its parts and its libraries.
"""
#: The line about the verbs in it in `warpsight --help`, in its order.
_COMMON = """
record Record a program into a trace.
open Show a trace in the browser: findings, timeline, flame graph.
analyze Say where the GPU time went, why it was idle and what to fix first.
report Write that as one HTML page to share.
flame Draw a flame graph of the host code behind the GPU time.
diff Compare runs of two versions: what changed, beyond noise.
query Ask a trace with SQL or simple filters.
export Write a trace in another tool's format.
top Watch a running recording live.
watch Run a program, and say what it was doing when it hangs or crashes.
"""
#: Verbs that take another program's command line.
_WRAPPING = ("record", "watch", "sanitize")
#: Verbs of Linux alone. A recording of a vendor's recorder on macOS is made and recovered there too.
_LINUX = (
    "demo", "watch", "dump", "trigger", "top", "attach", "detach", "sanitize", "replay", "race", "bench",
)  # fmt: skip
_LINUX_AND_MACOS = ("record", "recover")


def _verbs() -> dict[str, _Verb]:
    common = dict(line.split(None, 1) for line in _COMMON.strip().splitlines())
    found, group = {}, ""
    for line in _LISTED.strip().splitlines():
        if line.startswith("["):
            group = line.strip("[]")
            continue
        name, summary = line.split(None, 1)
        systems = ("linux",) if name in _LINUX else ("linux", "darwin") if name in _LINUX_AND_MACOS else ()
        found[name] = _Verb(summary, group, common.get(name, ""), name in _WRAPPING, systems)
    return found


VERBS: dict[str, _Verb] = _verbs()
_IN_HELP = tuple(line.split()[0] for line in _COMMON.strip().splitlines())

#: Columns needed for a text beside a name.
_ROOM = 24
#: Reading verbs that run until they are stopped, and return memory to the system.
_SERVING = ("open", "mcp")
#: Words from other tools, and the equivalent verb here.
OTHER_WORDS = {
    "run": "record", "profile": "record", "trace": "record", "start": "record", "show": "open", "serve": "open",
    "ui": "open", "gui": "open", "view-trace": "open", "analyse": "analyze", "verdict": "analyze", "explain": "analyze",
    "summary": "info", "summarize": "stats", "flamegraph": "flame", "flame-graph": "flame", "compare": "diff",
    "sql": "query", "convert": "export", "live": "top", "unpack": "pack", "load": "import", "coredump": "core",
}  # fmt: skip

_GLOBAL_OPTIONS: dict[str, str] = {
    "--no-color": "No colors, even on a terminal (also: NO_COLOR in the environment).",
    "-q, --quiet": "Errors and results only, no notes.",
    "-v, --verbose": "More notes, and a traceback with an internal error.",
    "--version": "Show versions and exit.",
    "--install-completion": "Install completion for the current shell.",
    "--show-completion": "Print the completion script of the current shell.",
    "-h, --help": "Show this help and exit.",
}

_GLOBAL_FLAGS = {"--no-color", "-q", "--quiet", "-v", "--verbose"}
_EXIT_BROKEN_PIPE = 141
EXIT_INTERRUPTED = 130
#: Seconds that an interrupted verb has to exit by itself, and those that must first restore the terminal.
_GRACE_S = 0.5
#: Seconds that functions registered for the end of the process get once it is interrupted.
_EXIT_FUNCTIONS_S = 0.2
_DRAWING = ("view",)
#: Signals that ended this process, kept because exceptions on the way out do not say.
_came: list[int] = []


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code: 0 success, 1 failure, 2 usage, 3 loss with `--strict`, 4 and 5 by `diff`."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        if argv is None:
            _own_process(arguments)
        _accept_all_letters()
        code = _main(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has gone
        _drop_output()
        return _EXIT_BROKEN_PIPE
    except OSError as error:
        _drop_output()
        return _unwritten(error)
    except KeyboardInterrupt:
        return 128 + _came[-1] if _came else EXIT_INTERRUPTED
    return code


def _drop_output() -> None:
    """Point standard output elsewhere, so that the flush at the end of the process stays quiet."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _unwritten(error: OSError) -> int:
    """Report that the result could not be written to standard output."""
    from warpsight.ui.render import terminal

    closed = error.errno == errno.EBADF
    terminal.error(f"the output was not written: {'standard output is closed' if closed else error.strerror}")
    return 1


def _own_process(arguments: Sequence[str]) -> None:
    """Prepare a process that is there for this command line alone."""
    _notice_endings()
    fill_standard()
    keep_pandas_out()
    verb = next((a for a in arguments if a not in _GLOBAL_FLAGS), "")
    if verb in VERBS and VERBS[verb].group == "Read":
        if verb not in _SERVING:
            keep_freed_memory()
            _spare_what_a_short_life_does_not_need()
        if verb not in _DRAWING:
            end_soon_after_interrupt()


def _spare_what_a_short_life_does_not_need() -> None:
    """Collect garbage in cycles seldom, and never at the end; let NumPy start no threads for linear algebra.

    Together a tenth of a short command's time. Arrow takes its memory where NumPy does: what decoded columns leave serves the
    next array.
    """
    gc.set_threshold(200_000, 50, 100)
    atexit.register(gc.freeze)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def _notice_endings() -> None:
    """Turn Ctrl-C, SIGTERM and SIGHUP into an exception, so that temporary files are removed; unless ignored, as under nohup."""
    import signal

    for number in _ending():
        if signal.getsignal(number) == signal.SIG_DFL or (
            number == signal.SIGINT and signal.getsignal(number) != signal.SIG_IGN
        ):
            # asyncio takes Ctrl-C over from Python's own handler alone
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else _end)


def _ending() -> list[int]:
    import signal

    return [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


def _end(number: int, frame: object) -> None:
    _came.append(number)
    raise KeyboardInterrupt


def end_soon_after_interrupt(grace_s: float = _GRACE_S) -> None:
    """Let Ctrl-C end the process even while threads are computing or waiting for input: nothing they do is kept.

    Python waits for its threads at the end. Here, temporary files and unfinished output are removed `grace_s` seconds after the
    signal, and the process exits. Without grace, no exception is raised first, because a loop of asyncio would print it.
    """
    import signal

    def leave(number: int) -> None:
        import threading
        import weakref

        try:
            weakref.finalize._exitfunc()  # type: ignore[attr-defined]
            # DuckDB's function waits for a statement that is running, for minutes perhaps
            rest = threading.Thread(target=atexit._run_exitfuncs, daemon=True)
            rest.start()
            rest.join(_EXIT_FUNCTIONS_S)
        finally:
            os._exit(128 + number)

    def interrupted(number: int, frame: object) -> None:
        import threading

        if not grace_s:
            leave(number)
        timer = threading.Timer(grace_s, leave, (number,))
        timer.daemon = True
        timer.start()
        _end(number, frame)

    for number in _ending():
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, interrupted)


def _accept_all_letters() -> None:
    """Print characters that the output's encoding lacks as question marks instead of failing.

    What goes to a file or a program on Windows is UTF-8, as everywhere, unless PYTHONIOENCODING says otherwise.
    """
    for stream in (sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper):
            continue
        if sys.platform == "win32" and not stream.isatty() and "PYTHONIOENCODING" not in os.environ:
            stream.reconfigure(encoding="utf-8")
        if stream.errors in ("strict", "surrogateescape"):
            codecs.register_error("warpsight", _as_it_is)
            stream.reconfigure(errors="warpsight")


def _as_it_is(error: UnicodeError) -> tuple[str | bytes, int]:
    """Write bytes of file names and arguments unchanged, and unsupported characters as question marks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    bad = error.object[error.start : error.end]
    try:
        return bad.encode("ascii", "surrogateescape"), error.end
    except UnicodeEncodeError:
        return "?" * len(bad), error.end


def _main(arguments: list[str]) -> int:
    if "_WARPSIGHT_COMPLETE" not in os.environ:
        wanted = [a for a in arguments if a not in _GLOBAL_FLAGS]
        if not wanted or wanted in (["--help"], ["-h"], ["help"]):
            sys.stdout.write(overview())
            return 0 if wanted else 2
        if wanted == ["--help", "--all"]:
            sys.stdout.write(overview(every=True))
            return 0
        if wanted == ["--version"]:
            from warpsight.ui.cli.about import installed

            sys.stdout.write(installed.text())
            return 0
    from warpsight.ui.cli import parser

    return parser.run(hoisted(_opening(arguments)))


def _opening(arguments: Sequence[str]) -> list[str]:
    """`warpsight TRACE` means `warpsight open TRACE`: a path in the place of the verb that is not a program."""
    place = next((i for i, a in enumerate(arguments) if not a.startswith("-")), None)
    word = "" if place is None else arguments[place]
    if place is None or word in VERBS or word.endswith(".py") or not os.path.exists(word):
        return list(arguments)
    return [*arguments[:place], "open", *arguments[place:]]


def hoisted(arguments: Sequence[str]) -> list[str]:
    """Move the global flags before the verb, so that `stats x.warp --no-color` works too.

    Everything after a lone `--`, or after a verb that wraps another program, stays in place.
    """
    verb = next((i for i, a in enumerate(arguments) if not a.startswith("-")), None)
    if verb is None or arguments[verb] not in VERBS or VERBS[arguments[verb]].wraps:
        return list(arguments)
    end = arguments.index("--") if "--" in arguments else len(arguments)
    flags = [a for a in arguments[:end] if a in _GLOBAL_FLAGS]
    rest = [a for a in arguments[:end] if a not in _GLOBAL_FLAGS]
    return [*flags, *rest, *arguments[end:]]


def overview(*, every: bool = False) -> str:
    """The text of `warpsight --help`; with `every`, that of `warpsight help --all`, all verbs by group."""
    columns = max(40, shutil.get_terminal_size().columns)
    lines = [
        "Usage: warpsight [OPTIONS] VERB [ARGS]…",
        *_listed("     warpsight TRACE", "the same as warpsight open TRACE", 38, columns),
        "",
        *textwrap.wrap("Records GPU programs and says where their time went.", columns),
        "",
    ]
    width = max(map(len, VERBS)) + 2
    if every:
        for group in dict.fromkeys(verb.group for verb in VERBS.values()):
            lines.append(f"{group}:")
            for name, verb in VERBS.items():
                if verb.group == group:
                    lines += _listed(name, verb.summary, width, columns)
            lines.append("")
    else:
        lines += ["  warpsight record -- python train.py", "  warpsight open train.warp", "", "Verbs:"]
        for name in _IN_HELP:
            lines += _listed(name, VERBS[name].common, width, columns)
        more = f"{len(VERBS) - len(_IN_HELP)} more: warpsight help --all"
        lines += [*_listed("…", more, width, columns), ""]
    lines.append("Options:")
    width = max(map(len, _GLOBAL_OPTIONS)) + 2
    for flags, meaning in _GLOBAL_OPTIONS.items():
        lines += _listed(flags, meaning, width, columns)
    lines += ["", *textwrap.wrap("`warpsight help VERB` explains a verb and shows examples.", columns), ""]
    return "\n".join(lines)


def _listed(name: str, text: str, width: int, columns: int) -> list[str]:
    """A name and its meaning, wrapped in a second column, or below the name if there is little room."""
    if columns - width < _ROOM:
        return [f"  {name}", *textwrap.wrap(text, columns, initial_indent=" " * 8, subsequent_indent=" " * 8)]
    indent = " " * (2 + width)
    first = f"  {name:{width}}"
    return textwrap.wrap(
        text, columns, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False
    )


if __name__ == "__main__":
    sys.exit(main())
