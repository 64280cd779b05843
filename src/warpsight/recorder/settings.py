"""What a recording was asked to do, and the environment variables that say it to recorded processes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from warpsight import _native
from warpsight.errors import UsageError

SOCKET = "WARPSIGHT_SOCKET"
INJECTION = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH")
LAYERS = "OPENCL_LAYERS"
#: Where the runtimes of OpenMP and OpenACC look for tools, and what their lists are separated by.
OPENMP, OPENACC = "OMP_TOOL_LIBRARIES", "ACC_PROFLIB"
PRELOAD = "LD_PRELOAD"
TOOLS = "ROCP_TOOL_LIBRARIES"

STACKS = ("python", "native", "both", "off")
GRAPHS = ("auto", "node", "graph")
BACKENDS = ("auto", "cuda", "opencl", "rocm", "maca")
ON_FULL = ("drop-newest", "drop-oldest", "wait")
RANGES = ("off", "torch")
LOG_STACKS = ("dedup", "full", "none")
CAPTURE_RANGES = ("off", "profiler-api")


@dataclass(frozen=True)
class Settings:
    """Options of a recording; the defaults are those of `warpsight record`."""

    backend: str = "auto"
    stacks: str = "python"
    stack_depth: int = 128
    #: Host samples per second and process; 0 is off.
    sample: float = 100.0
    api: str = "default"
    trace: tuple[str, ...] = ()
    graph: str = "auto"
    #: "off", samples per second, or names of counters (comma-separated, may contain `*`).
    counters: str = "10"
    kernels: tuple[str, ...] = ()
    #: Seconds; 0 is until the program ends.
    duration: float = 0.0
    #: Seconds before recording begins.
    delay: float = 0.0
    #: "profiler-api": record only between the program's cudaProfilerStart and cudaProfilerStop.
    capture_range: str = "off"
    ranges: str = "off"
    leave_cupti: bool = False
    opencl_profiling: str = "on"
    #: Bytes of one CUPTI activity buffer and of its device buffers (0: CUPTI's choice).
    buffer_size: int = 128 * 1024
    device_buffers: int = 0
    on_full: str = "drop-newest"
    #: Megabytes; 0 is without bound.
    max_size: int = 0
    #: Milliseconds between flushes.
    flush: int = 200
    #: Seconds to wait for processes that are still connected when the program has ended.
    wait: float = 10.0
    #: Keep the code of loaded CUDA modules in the trace.
    cubins: bool = False
    #: File that gets a line per kernel while the program runs ("": none), and how stacks stand in it.
    kernel_log: str = ""
    log_stacks: str = "dedup"
    #: Keep only the last so many seconds or bytes ("30s", "500MB", "30s,500MB"); "": everything.
    ring: str = ""
    #: Seconds past a trigger that its trace still holds.
    after: float = 0.0
    #: What writes a trace of the ring by itself: crash, hang[=S], slow-step[=K[:RANGES]], nccl, none.
    triggers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse values that no part of the recorder would understand.

        Raises:
            UsageError: naming the option and what it takes.
        """
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise UsageError(
                    f"{_option(name)} is one of {', '.join(choices)}, not {getattr(self, name)!r}"
                )
        for name, (least, most) in _BOUNDS.items():
            value = getattr(self, name)
            whole = "whole " if name in _WHOLE else ""
            if isinstance(value, bool) or not isinstance(value, (int, float)) or (whole and value % 1):
                raise UsageError(f"{_option(name)} is a {whole}number {_from_to(least, most)}, not {value!r}")
            if not least <= value <= most:
                raise UsageError(f"{_option(name)} is a number {_from_to(least, most)}, not {value:,}")
        if unknown := [kind for kind in self.trace if kind not in KINDS]:
            raise UsageError(f"--trace takes kinds of {', '.join(KINDS)}, not {unknown[0]!r}")
        self._check_api()
        self._check_log()
        from warpsight.recorder.sampling.counters import parse

        parse(self.counters)
        self._check_backend()
        self._check_ring()

    def _check_api(self) -> None:
        """Refuse names that are no functions, and write the others as the recorders read them."""
        from warpsight.capture.functions import patterns

        if not isinstance(self.api, str):
            raise UsageError(
                f"--api is a text: {', '.join(patterns.WORDS)}, or names of functions, not {self.api!r}"
            )
        for pattern in patterns.unknown(self.api):
            if pattern in patterns.WORDS:
                raise UsageError(f"--api {pattern} stands alone, not beside names: {self.api!r}")
            near = patterns.near(pattern)
            hint = f"; did you mean {' or '.join(near)}?" if near else f"; words: {', '.join(patterns.WORDS)}"
            raise UsageError(f"--api {pattern!r} matches no function of CUDA, HIP or OpenCL{hint}")
        object.__setattr__(self, "api", ",".join(patterns.parts(self.api)) or "default")

    def _check_backend(self) -> None:
        """Refuse what the backend's recorder would not act on."""
        if self.capture_range != "off" and self.leave_cupti:
            raise UsageError(
                f"--capture-range {self.capture_range} is the CUDA recorder's: it does not go with --yield"
            )
        if self.backend == "auto":
            return
        for name, backends in _ACTS_ON.items():
            value = getattr(self, name)
            if self.backend in backends or value == getattr(Settings, name):
                continue
            flag = _option(name) if value is True else f"{_option(name)} {value}"
            apis = [_APIS[backend] for backend in backends]
            whose = (
                f"the {apis[0]} recorder's"
                if len(apis) == 1
                else f"for the recorders of {' and '.join(apis)}"
            )
            raise UsageError(f"{flag} is {whose}: it does not go with --backend {self.backend}")

    def _check_log(self) -> None:
        if self.log_stacks != "dedup" and not self.kernel_log:
            raise UsageError(
                f"--log-stacks {self.log_stacks} is for a kernel log: give --kernel-log FILE too"
            )

    def _check_ring(self) -> None:
        from warpsight.recorder.ring import bound, triggers

        if self.ring:
            bound.parse(self.ring)
            if self.kernel_log:
                raise UsageError(
                    "--ring does not go with --kernel-log: a ring converts nothing until it is triggered"
                )
        elif self.after or self.triggers:
            raise UsageError("--after and --trigger belong to a ring: give --ring 30s too")
        triggers.parse(self.triggers)

    def to_json(self) -> dict[str, Any]:
        """For the manifest."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Settings:
        """The inverse of :meth:`to_json`."""
        return cls.of({f.name: content[f.name] for f in fields(cls) if f.name in content})

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Settings:
        """Settings from keyword options; lists become tuples, and one text is a list of one (`trace`: of its words).

        Raises:
            UsageError: for an option that does not exist, or a value it does not take.
        """
        known = {f.name for f in fields(cls)}
        if unknown := [name for name in options if name not in known]:
            raise UsageError(f"there is no option {', '.join(unknown)}; options: {', '.join(sorted(known))}")
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
        for name in _LISTS:
            if isinstance(text := values.get(name), str):  # as on the command line
                values[name] = tuple(text.replace(",", " ").split()) if name == "trace" else (text,)
        for name in _SWITCHES:
            if not isinstance(values.get(name, False), bool):
                raise UsageError(f"{name} is True or False, not {values[name]!r}")
        if values.get("sample") == "off":  # as on the command line
            values["sample"] = 0.0
        for name in _TEXTS & values.keys():
            values[name] = _text(name, values[name])
        return cls(**values)

    def variables(self) -> dict[str, str]:
        """WARPSIGHT_* variables of every option that a recorded process reads itself."""
        out = {
            "WARPSIGHT_STACKS": self.stacks,
            "WARPSIGHT_STACK_DEPTH": str(self.stack_depth),
            # A kernel log has the kernels inside graphs.
            "WARPSIGHT_GRAPH": "node" if self.kernel_log and self.graph == "auto" else self.graph,
            "WARPSIGHT_API": self.api,
            "WARPSIGHT_BUFFER_SIZE": str(self.buffer_size),
            "WARPSIGHT_FLUSH_MS": str(self.flush),
            "WARPSIGHT_ON_FULL": self.on_full,
            "WARPSIGHT_OPENCL_PROFILING": self.opencl_profiling,
        }
        if self.device_buffers:
            out["WARPSIGHT_DEVICE_BUFFERS"] = str(self.device_buffers)
        if self.trace:
            out["WARPSIGHT_TRACE"] = ",".join(self.trace)
        if self.kernels:
            out["WARPSIGHT_KERNELS"] = "\n".join(self.kernels)
        if self.capture_range != "off":
            out["WARPSIGHT_CAPTURE_RANGE"] = self.capture_range
        if self.leave_cupti:
            out["WARPSIGHT_YIELD"] = "1"
        if self.cubins:
            out["WARPSIGHT_CUBINS"] = "1"
        if self.ring:
            out["WARPSIGHT_RING"] = "1"
        if self.ranges != "off":
            out["WARPSIGHT_RANGES"] = self.ranges
        return out

    def launcher_variables(self) -> dict[str, str]:
        """WARPSIGHT_* variables of options that only a recording's launcher acts on, where they are not the default."""
        if not self.kernel_log:
            return {}
        return {"WARPSIGHT_KERNEL_LOG": self.kernel_log, "WARPSIGHT_LOG_STACKS": self.log_stacks}


#: What `--trace` can name: device records that a recorder selects by them, then rows that are there whatever it says.
KINDS = ("kernel", "memcpy", "memset", "sync", "event", "memory", "overhead", "unified_memory", "environment", "jit", "build",
         "flow", "openmp", "openacc", "launch", "api", "graph", "nvtx", "marker", "sample", "stack", "counter", "op",
         "thread")  # fmt: skip
_CHOICES = {"stacks": STACKS, "graph": GRAPHS, "backend": BACKENDS, "on_full": ON_FULL, "ranges": RANGES,
            "opencl_profiling": ("on", "off"), "log_stacks": LOG_STACKS,
            "capture_range": CAPTURE_RANGES}  # fmt: skip
_LISTS = ("trace", "kernels", "triggers")
_TEXTS = {"api", "counters", "kernel_log", "ring"}
_WHOLE = ("stack_depth", "buffer_size", "device_buffers", "max_size", "flush")
_SWITCHES = ("leave_cupti", "cubins")
_BOUNDS = {"stack_depth": (1, 4096), "sample": (0, 10_000), "duration": (0, 1e9), "delay": (0, 1e9),
           "buffer_size": (4096, 64 << 20), "device_buffers": (0, 1 << 30), "max_size": (0, 1e9),
           "flush": (10, 60_000), "wait": (0, 1e6), "after": (0, 3600)}  # fmt: skip
#: Options that not every recorder acts on, with the backends whose recorders do.
_ACTS_ON = {"graph": ("cuda",), "capture_range": ("cuda",), "leave_cupti": ("cuda", "rocm", "maca"),
            "buffer_size": ("cuda", "maca"), "device_buffers": ("cuda",), "cubins": ("cuda",),
            "opencl_profiling": ("opencl",)}  # fmt: skip
_APIS = {"cuda": "CUDA", "opencl": "OpenCL", "rocm": "ROCm", "maca": "MACA"}
_OPTIONS = {"duration": "--for", "leave_cupti": "--yield", "triggers": "--trigger"}


def _text(name: str, value: Any) -> str:
    """An option that is a text on the command line: a rate may be a number, names a list, a file a path."""
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if isinstance(value, (tuple, list)) and all(isinstance(part, str) for part in value):
        return ",".join(value)
    if name == "counters" and isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value:g}"
    raise UsageError(f"{_option(name)} is a text, not {value!r}")


def _from_to(least: float, most: float) -> str:
    return f"from {least:,.0f} to {most:,.0f}"


def _option(name: str) -> str:
    return _OPTIONS.get(name, "--" + name.replace("_", "-"))


def _directives(settings: Settings, environment: Mapping[str, str], library: str) -> dict[str, str]:
    """Variables that load the recorder into the runtimes of OpenMP and OpenACC, where `--trace` names them."""
    out: dict[str, str] = {}
    if "openmp" in settings.trace:
        if environment.get("OMP_TOOL", "").strip().lower() == "disabled":
            raise UsageError("--trace openmp: OMP_TOOL=disabled forbids tools in OpenMP programs; unset it")
        # the first that wants to is the tool
        others = [p for p in environment.get(OPENMP, "").split(":") if p and os.path.realpath(p) != library]
        out[OPENMP] = ":".join([library, *others])
    if "openacc" in settings.trace:
        present = environment.get(OPENACC)
        if present and os.path.realpath(present) != library:
            raise UsageError(f"{OPENACC} is already set ({present}): another tool records OpenACC; unset it")
        out[OPENACC] = library
    return out


def recorder_variables(settings: Settings, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that load the recorder into a program and tell it what to record, without the socket.

    Raises:
        UsageError: when the environment already injects another tool into CUDA programs.
        NativeMissingError: when this installation has no compiled parts.
    """
    path = _native.library_path()
    if path is None:
        _native.load()  # raises, with what to do about it
    assert path is not None
    library = str(path)
    out = {_native.ENVIRONMENT: library, **settings.variables()}
    if settings.backend in ("auto", "cuda"):
        for name in INJECTION:
            present = environment.get(name)
            if present and os.path.realpath(present) != library:
                raise UsageError(
                    f"{name} is already set ({present}): another tool records this program. "
                    "Unset it, or record without CUDA: --backend opencl"
                )
            out[name] = library
    if settings.backend in ("auto", "opencl"):
        layers = [part for part in environment.get(LAYERS, "").split(":") if part and part != library]
        out[LAYERS] = ":".join([*layers, library])
    if settings.backend == "rocm":
        tools = [part for part in environment.get(TOOLS, "").split(":") if part and part != library]
        # rocprofiler-sdk 1.0 does not look at what follows the last of several colons.
        out[TOOLS] = ":".join([*tools, library, ""]) if tools else library
    if settings.backend == "maca":
        out[PRELOAD] = _with_maca_entry(path, environment.get(PRELOAD, ""))
    out |= _directives(settings, environment, library)
    if settings.ranges == "torch":
        from warpsight.recorder import torch_ranges

        out["PYTHONPATH"] = torch_ranges.python_path(environment.get("PYTHONPATH", ""))
    return out


def _with_maca_entry(library: Path, preloaded: str) -> str:
    """LD_PRELOAD with the library that gets the recorder into programs of MACA: nothing else is known to.

    Raises:
        UsageError: when this installation lacks it.
    """
    entry = library.with_name("libwarpsight_maca.so")
    if not entry.is_file():
        raise UsageError(f"--backend maca: this installation has no {entry.name}; reinstall warpsight")
    rest = [part for part in preloaded.replace(" ", ":").split(":") if part and part != str(entry)]
    return ":".join([str(entry), *rest])
