"""Every option of a recording, one row each.

Everything else that names an option is derived from this table:

* the command line of `record` (:mod:`warpsight.ui.cli.record.recording`),
* the variables that carry options to recorded processes, and the C++ that reads them (`native/runtime/generate_settings.py`),
* keyword arguments of `ws.record` and `ws.run`, and their types (`option_types.py`, by `scripts/generate_option_types.py`),
* keys of a configuration file (:mod:`warpsight.recorder.options.config_file`),
* the page `docs/reference/options.md`.

This module imports only the standard library, because the build reads it too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# Types of values
CHOICE, SWITCH, WHOLE, NUMBER, TEXT, TEXTS, PATH = (
    "choice",
    "switch",
    "whole",
    "number",
    "text",
    "texts",
    "path",
)
# Groups, in the order of the help
COMMON, WHAT, COST, RING, OUTPUT, TOOL = (
    "Common options", "What to record", "Cost and size", "Flight recorder", "Output", "Other backends",
)  # fmt: skip
GROUPS = (COMMON, WHAT, COST, RING, OUTPUT, TOOL)
# Who acts on an option
LAUNCHER, PROCESS, BOTH = "launcher", "recorded process", "both"
#: Scopes: of a recording (`ws.record` takes it too), of a vendor's recorder (`ws.run` too), of the command alone, and
#: variables that no option sets.
RECORDING, VENDOR, COMMAND, VARIABLE = "recording", "vendor", "command", "variable"

STACKS = ("python", "native", "both", "off")
#: Values of `--trace`: first device records that a recorder selects by them, then rows that are always recorded.
KINDS = ("kernel", "memcpy", "memset", "sync", "event", "memory", "overhead", "unified_memory", "environment", "jit",
         "device_graph", "external", "build",
         "flow", "openmp", "openacc", "launch", "api", "graph", "nvtx", "marker", "sample", "stack", "counter", "op",
         "thread")  # fmt: skip


@dataclass(frozen=True)
class Option:
    """One option."""

    #: The keyword in Python and the key in a configuration file.
    name: str
    type: str
    default: Any
    help: str
    group: str = WHAT
    scope: str = RECORDING
    #: Spelling on the command line; if empty, `--name`.
    flags: tuple[str, ...] = ()
    #: The variable that sets it; if empty, `WARPSIGHT_NAME`; "-": no variable and no key in a configuration file.
    variable: str = ""
    choices: tuple[str, ...] = ()
    #: Words that stand for a number.
    words: tuple[tuple[str, float], ...] = ()
    #: The least and the greatest value.
    bounds: tuple[float, float] | None = None
    metavar: str = ""
    #: How the help shows the default; if empty, unchanged.
    shown: str = ""
    #: Characters that separate several values in one string.
    separators: str = ","
    #: Python type of the keyword, if it accepts more than its type says.
    python: str = ""
    reader: str = LAUNCHER
    #: The core's backends whose recorders act on it; empty: all backends.
    backends: tuple[str, ...] = ()
    #: Member of the C++ `Settings`; empty: the recorder in the process does not read it.
    native: str = ""
    #: C++ type of the member: the name of an enumeration, or of an integer.
    native_type: str = ""
    #: Backends whose names are behind the help: `others` (all but the core's), `both` (with two recorders), `takers`.
    listed: str = ""
    #: May be set in a configuration file.
    in_file: bool = True
    #: The option without which it means nothing.
    needs: str = ""

    @property
    def flag(self) -> str:
        """The option as messages spell it."""
        return next((flag for flag in self.spelled if flag.startswith("--")), self.spelled[0])

    @property
    def spelled(self) -> tuple[str, ...]:
        """All its spellings on the command line."""
        return self.flags or ("--" + self.name.replace("_", "-"),)

    @property
    def environment(self) -> str:
        """The environment variable that sets it, or ""."""
        return "" if self.variable == "-" else self.variable or f"WARPSIGHT_{self.name.upper()}"

    @property
    def key(self) -> str:
        """Its name in the settings that table `process` keeps."""
        return self.environment.removeprefix("WARPSIGHT_").lower()


OPTIONS: tuple[Option, ...] = (
    # Common options
    Option("path", PATH, None, "Folder to write.", COMMON, COMMAND, ("-o", "--output"), "WARPSIGHT_OUTPUT",
           shown="PROGRAM.warp", metavar="FOLDER"),
    Option("force", SWITCH, False, "Replace an existing trace.", COMMON, COMMAND, ("-f", "--force"), in_file=False),
    Option("duration", NUMBER, 0.0, "Stop recording after this many seconds; the program continues.", COMMON,
           flags=("--for", "--duration"), variable="WARPSIGHT_FOR", bounds=(0, 1e9), metavar="S", shown="no end"),
    Option("delay", NUMBER, 0.0, "Start recording after this many seconds.", COMMON, bounds=(0, 1e9), metavar="S"),
    Option("on_trigger", SWITCH, False, "Wait for `warpsight cluster trigger` before recording.", COMMON),
    Option("stacks", CHOICE, "python", "Host stacks of launches and other rows.", COMMON, choices=STACKS,
           reader=PROCESS, native="stacks", native_type="StackMode"),
    Option("kernels", TEXTS, (), "Record only kernels whose mangled or demangled name matches; repeatable (variable: one "
           "per line).", COMMON, metavar="PATTERN", separators="\n", reader=PROCESS, native="kernels", shown="all"),
    Option("open", SWITCH, False, "Show the report in the browser afterwards.", COMMON, COMMAND, variable="-"),
    Option("quiet", SWITCH, False, "Print no summary.", COMMON, COMMAND, ("-q", "--quiet"), "-"),
    Option("verbose", SWITCH, False, "Print what the recorder does.", COMMON, COMMAND, ("-v", "--verbose"), "-"),
    # What to record
    Option("backend", TEXT, "auto", "Recorder: auto (CUDA and OpenCL), cuda, opencl, or another backend.",
           metavar="NAME", listed="others"),
    Option("api", TEXT, "default", "API calls to record: default, launches, all, off, or names of functions.",
           metavar="NAMES", separators=", ", python="str | Sequence[str]", reader=PROCESS, native="api"),
    Option("trace", TEXTS, (), "Kinds of device records, comma-separated: kernel, memcpy, memset, sync, event, memory, "
           "overhead, unified_memory, environment, jit, device_graph, external (CUDA), build, flow (OpenCL), openmp, openacc "
           "(ranges).",
           metavar="KINDS", separators=", ", choices=KINDS, reader=PROCESS, native="trace", shown="the usual ones"),
    Option("graph", CHOICE, "auto", "CUDA graphs: a row per kernel (node, same as auto) or per launch (graph).",
           choices=("auto", "node", "graph"), reader=PROCESS, backends=("cuda",), native="graph", native_type="GraphMode"),
    Option("sample", NUMBER, 100.0, "Samples of each process's host threads per second.", words=(("off", 0.0),),
           bounds=(0, 10_000), metavar="HZ|off", python='float | Literal["off"]'),
    Option("counters", TEXT, "10", "GPU counters: off, samples per second, or names (* matches any text).",
           metavar="off|HZ|NAMES", python="str | float | Sequence[str]"),
    Option("capture_range", CHOICE, "off", "profiler-api: record only between cudaProfilerStart and cudaProfilerStop.",
           choices=("off", "profiler-api"), reader=BOTH, backends=("cuda",), native="capture_range"),
    Option("ranges", TEXTS, (), "NVTX ranges: auto (all but XLA's, which can double the run time), xla, nvtx (same as "
           "auto), off, or domain names; torch: also PyTorch's operators with shapes.", metavar="WORDS", separators=", ",
           reader=BOTH, native="ranges", shown="auto"),
    Option("nccl", CHOICE, "auto", "NCCL: a row per collective, send and receive (auto), also per channel, proxy "
           "operation and network step, at a cost (on), or off.", choices=("auto", "on", "off"), reader=BOTH,
           backends=("cuda",), native="nccl", native_type="NcclMode"),
    Option("cubins", SWITCH, False, "Keep the code of each CUDA module in the trace.", reader=PROCESS,
           backends=("cuda",), native="cubins"),
    Option("pc_sampling", WHOLE, 0, "Samples of program counters and stall reasons per second and multiprocessor (on: "
           "1000); also keeps the code.", words=(("off", 0), ("on", 1000)), bounds=(0, 100_000), metavar="on|HZ", shown="off",
           python='int | Literal["on", "off"]', reader=PROCESS, backends=("cuda",), native="pc_sampling",
           native_type="uint32_t"),
    Option("sass_counts", TEXT, "off", "Exact counts per instruction: off, on (the usual ones), all, or names of SASS "
           "metrics; also keeps the code. Kernels run one at a time and many times slower.", metavar="on|all|NAMES",
           python="str | Sequence[str]", reader=PROCESS, backends=("cuda",), native="sass_counts"),
    Option("metrics", TEXTS, (), "Hardware metrics of each kernel or range (names: `warpsight sass metrics --list`).",
           metavar="NAMES", reader=PROCESS, backends=("cuda",), native="metrics", shown="none"),
    Option("metrics_per", CHOICE, "kernel", "Measure --metrics per kernel launch or per range (NVTX, annotate).",
           choices=("kernel", "range"), reader=PROCESS, backends=("cuda",), native="metrics_per_range", needs="metrics"),
    Option("metrics_every", WHOLE, 0, "Instead, sample --metrics of the whole GPU at this interval, as counters.",
           bounds=(0, 1_000_000), metavar="US", shown="off", reader=PROCESS, backends=("cuda",), native="pm_sampling_us",
           native_type="uint32_t", needs="metrics"),
    Option("metrics_passes", TEXT, "", "Folder for --metrics of several passes: each run with it takes the next pass.",
           metavar="FOLDER", shown="one pass", reader=PROCESS, backends=("cuda",), native="metrics_passes", needs="metrics"),
    Option("leave_cupti", SWITCH, False, "Leave CUPTI to the program's own profiler.", flags=("--yield",),
           variable="WARPSIGHT_YIELD", reader=BOTH, backends=("cuda",), native="yield"),
    Option("opencl_profiling", CHOICE, "on", "off: record only the host side of OpenCL.", choices=("on", "off"),
           reader=PROCESS, backends=("opencl",), native="opencl_profiling"),
    # Cost and size
    Option("max_size", WHOLE, 0, "Stop recording at this trace size; the program continues.", COST,
           bounds=(0, 1e9), metavar="MB", shown="no limit"),
    Option("stack_depth", WHOLE, 128, "Frames per stack; deeper stacks lose their outermost frames.", COST,
           bounds=(1, 4096), metavar="FRAMES", reader=PROCESS, native="stack_depth", native_type="int"),
    Option("on_full", CHOICE, "drop-newest", "What to do when a thread's ring is full; dropped rows are counted.", COST,
           choices=("drop-newest", "drop-oldest", "wait"), reader=PROCESS, native="on_full", native_type="FullPolicy"),
    Option("flush", WHOLE, 200, "Milliseconds between flushes.", COST, variable="WARPSIGHT_FLUSH_MS", bounds=(10, 60_000),
           metavar="MS", reader=PROCESS, native="flush_ms", native_type="uint32_t"),
    Option("buffer_size", WHOLE, 128 * 1024, "Bytes per CUPTI activity buffer.", COST, bounds=(4096, 64 << 20),
           metavar="BYTES", reader=PROCESS, backends=("cuda",), native="buffer_bytes", native_type="uint32_t"),
    Option("device_buffers", WHOLE, 0, "Bytes of CUPTI's device buffers; 0: CUPTI's default.", COST,
           bounds=(0, 1 << 30), metavar="BYTES", reader=PROCESS, backends=("cuda",), native="device_buffer_bytes",
           native_type="uint32_t"),
    Option("wait", NUMBER, 10.0, "Seconds to wait for processes that outlive the program.", COST, bounds=(0, 1e6),
           metavar="S"),
    # Flight recorder
    Option("ring", TEXT, "", "Keep only the last 30s, 500MB or 30s,500MB; a trigger writes them as a trace.", RING,
           variable="WARPSIGHT_RING_SIZE", metavar="TIME|SIZE"),
    Option("triggers", TEXTS, (), "What writes a trace of the ring: crash, nccl, hang[=S], slow-step[=K[:RANGES]], none; "
           "repeatable.", RING, flags=("--trigger",), variable="WARPSIGHT_TRIGGER", metavar="WHAT", shown="crash, nccl",
           needs="ring"),
    Option("after", NUMBER, 0.0, "Seconds after the trigger to include in its trace.", RING, bounds=(0, 3600), metavar="S",
           needs="ring"),
    # Output
    Option("export", TEXT, "", "Also export the trace in this format.", OUTPUT, COMMAND,
           metavar="FORMAT"),
    Option("capsule", TEXT, "", "Also cut out work to run again, as NAME.capsule: step:N (of ws.step()), frame:N (of "
           "ws.capture_frame()), or trigger (the first step after one, or what hangs).", OUTPUT, COMMAND,
           metavar="step:N|frame:N|trigger", variable="-", backends=("cuda",)),
    Option("strict", SWITCH, False, "Exit with 3 instead of 0 when data was lost.", OUTPUT, COMMAND),
    Option("kernel_log", TEXT, "", "Also write a JSON line per kernel to this file while the program runs.", OUTPUT,
           metavar="FILE",
           python="str | os.PathLike[str]"),
    Option("log_stacks", CHOICE, "dedup", "Stacks in the kernel log: each once (dedup), with every line (full), or none.", OUTPUT,
           choices=("dedup", "full", "none"), needs="kernel_log"),
    Option("print_env", SWITCH, False, "Print variables that make this shell record every program it starts.", OUTPUT,
           COMMAND, variable="-"),
    # Other backends
    Option("recorder", CHOICE, "auto", "warpsight's recorder in the process (own), the vendor's program (vendor), or own "
           "where possible (auto).", TOOL, VENDOR, choices=("auto", "own", "vendor"), listed="both"),
    Option("backend_args", TEXT, "", "Arguments for the vendor's recorder, in one shell-quoted string.", TOOL, VENDOR,
           metavar="ARGS", python="str | Sequence[str | os.PathLike[str]]"),
    Option("keep", SWITCH, False, "Keep the vendor's files beside the trace.", TOOL, VENDOR),
    Option("template", TEXT, "", "Preset of the vendor's recorder.", TOOL, VENDOR, metavar="NAME",
           listed="takers"),
    Option("pid", WHOLE, 0, "Record this running process instead of a program, until --for or Ctrl-C.", TOOL, COMMAND,
           variable="-", bounds=(0, 1 << 31), metavar="PID", shown="-", listed="takers"),
)  # fmt: skip
#: Variables that the launcher sets by itself, or a user for a single process.
VARIABLES: tuple[Option, ...] = (
    Option("socket", TEXT, "", "The launcher's Unix socket; without it the recorder does nothing.",
           scope=VARIABLE, metavar="path", shown="none", reader=PROCESS, native="socket"),
    Option("dormant", CHOICE, "on", "`dormant`: record nothing until the launcher asks for it or, without a launcher, "
           "[`warpsight attach`](../how-to/flight-recorder.md).", scope=VARIABLE, variable="WARPSIGHT",
           choices=("on", "dormant"), reader=PROCESS, native="dormant"),
    Option("flight_recorder", SWITCH, False, "Set by `record --ring`; limits the process to 65,536 remembered event "
           "texts.", scope=VARIABLE, variable="WARPSIGHT_RING", reader=PROCESS, native="ring"),
    Option("process_verbose", SWITCH, False, "Print on stderr what the recorder does.", scope=VARIABLE,
           variable="WARPSIGHT_VERBOSE", reader=PROCESS, native="verbose"),
    Option("library", PATH, None, "`libwarpsight.so`, for `warpsight.h` and for Python.", scope=VARIABLE, metavar="path",
           shown="the installed one", reader=BOTH),
    Option("cupti", PATH, None, "The `libcupti.so` to use.", scope=VARIABLE, metavar="path",
           shown="found", reader=PROCESS),
    Option("buffer_pool", WHOLE, 128 << 20, "Most host memory for CUPTI's activity buffers, in bytes; records that do "
           "not fit are dropped and counted.", scope=VARIABLE, metavar="bytes", reader=PROCESS),
    Option("config", PATH, None, "The [configuration file](options.md#configuration-file) to use; "
           "`off`: none.", scope=VARIABLE, metavar="path, `off`", shown="the nearest"),
)  # fmt: skip
BY_NAME: dict[str, Option] = {option.name: option for option in OPTIONS}


def of_scope(*scopes: str) -> tuple[Option, ...]:
    """Options of these scopes, in the order of the table."""
    return tuple(option for option in OPTIONS if option.scope in scopes)
