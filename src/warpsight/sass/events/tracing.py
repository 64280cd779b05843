"""Runs a program whose kernels are traced instruction by instruction, with NVIDIA's Sanitizer interface or NVBit.

For the Sanitizer, the launcher assembles the device patches for the GPUs of this machine and starts the program with a library of
ours as CUDA_INJECTION64_PATH. The library patches the modules that hold a requested kernel and writes an event file. The NVBit
tool (:mod:`warpsight.sass.events.nvbit`) is injected in the same way, and writes the same file.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warpsight import _native
from warpsight.device_code.disassembly import find_tool
from warpsight.errors import WarpsightError
from warpsight.formats.events.kinds import (
    CHECKED,
    CLASSES,
    INSTRUCTIONS,
    KINDS,
    REGISTERS,
    TENSOR_COPIES,
    VALUES,
)
from warpsight.recorder.launch import check_runnable
from warpsight.recorder.signals import run_to_end
from warpsight.sass.events import nvbit
from warpsight.sass.races.compiled.compiler import Serving, serving

INJECTION = "CUDA_INJECTION64_PATH"
REQUEST = "WARPSIGHT_EVENTS"
#: Names the Sanitizer's library where it is not found by itself.
_SANITIZER = "WARPSIGHT_SANITIZER"
#: Actions of a patch on an instruction (native/sanitizer/event_format.h).
RECORD, NOTE, DELAY, CHECK, STRESS = 0, 1, 2, 3, 5
_LIBRARY = "libsanitizer-public.so"
_OLDEST = (7, 5)


@dataclass(frozen=True)
class TraceSelection:
    """The instructions to trace in a program; ranges are (low, high), from low up to but not including high.

    Attributes:
        events: classes of :data:`~warpsight.formats.events.kinds.CLASSES`, and `values`; or classes of the NVBit tool.
        kernels: patterns of mangled or demangled names; launches: launches of those kernels, from 0; blocks: blocks of the grid,
            x fastest.
        warps: warps of a block; addresses: addresses of accesses; offsets: bytes from the kernel's start.
        every: every n-th record of a launch; first: at most this many records of a launch; ring_mib: buffer memory for records.
        once: record each instruction only when it is first executed, without its accesses.
        limit: most bytes of the file; events left out are counted.
        check: look for races on the device and record only races; shadow_mib: most device memory for this.
        compiled: compile the checks into modules that come with PTX, which is faster than patching them.
        sass: extended regular expressions, one of which must match the instruction's text (NVBit).
        when: whether registers are read before or after their instruction, or both; predicates: include predicates (NVBit).
    """

    events: tuple[str, ...] = ("memory",)
    kernels: tuple[str, ...] = ()
    launches: tuple[int, int] | None = None
    blocks: tuple[int, int] | None = None
    warps: tuple[int, ...] = ()
    addresses: tuple[int, int] | None = None
    offsets: tuple[tuple[int, int], ...] = ()
    every: int = 1
    first: int | None = None
    ring_mib: int = 64
    once: bool = False
    limit: int | None = None
    check: bool = False
    shadow_mib: int = 4096
    compiled: bool = True
    sass: tuple[str, ...] = ()
    when: str = "before"
    predicates: bool = False

    @property
    def needs_nvbit(self) -> bool:
        """Whether the NVBit tool is needed: the Sanitizer interface cannot record registers, every instruction or tensor maps."""
        return bool(self.sass) or any(
            name in self.events for name in (INSTRUCTIONS, REGISTERS, TENSOR_COPIES)
        )

    def described(self) -> dict[str, Any]:
        """The request as the event file records it, without defaults."""
        said: dict[str, Any] = {"events": list(self.events)}
        for name in ("kernels", "launches", "blocks", "warps", "addresses", "offsets", "first", "sass"):
            if getattr(self, name):
                said[name] = getattr(self, name)
        if self.every > 1:
            said["every"] = self.every
        if self.once:
            said["once"] = True
        if self.check:
            said["check"] = True
        if self.needs_nvbit:
            said["tool"] = "NVBit"
        if REGISTERS in self.events:
            said["when"] = self.when
        return said


@dataclass(frozen=True)
class TracedRun:
    """The result of a run: the program's exit code, the event files, one per process that used a GPU, and what to know of it."""

    code: int
    files: tuple[Path, ...]
    command: tuple[str, ...] = field(default=())
    notes: tuple[str, ...] = ()


def refuse_other_tools() -> None:
    """Raise WarpsightError if another tool is set to be loaded into programs."""
    if os.environ.get(INJECTION):
        raise WarpsightError(
            f"{INJECTION} names {os.environ[INJECTION]}: another tool is in the program already; unset it to trace events"
        )


def trace(program: Sequence[str], selection: TraceSelection, out: Path) -> TracedRun:
    """Run a program and trace it.

    The file is `out`. If several processes used a GPU, each has its own, with its pid before the suffix.

    Raises:
        StartError: when the program does not exist (127) or cannot be run (126).
        WarpsightError: when a requirement of tracing is missing, or another tool is injected.
    """
    check_runnable(program[0])
    refuse_other_tools()
    if selection.needs_nvbit:
        library, interface = nvbit.tool(architectures), None
    else:
        library, interface = injected_library(), sanitizer_library()
    with tempfile.TemporaryDirectory(prefix=".events-", dir=out.parent.resolve()) as temporary:
        if interface is None:
            lines, variables = nvbit_request(selection, Path(temporary, "events")), nvbit.QUIET
        else:
            found = architectures()
            patches = assemble(Path(temporary), found)
            lines = request(selection, Path(temporary, "events"), interface, patches)
            variables = {}
        server = Serving()
        with ExitStack() as running:
            if interface is not None and selection.check and selection.compiled:
                checks = shipped_ptx("compiled_checks")
                server = running.enter_context(serving(checks, found, selection.kernels))
            lines += server.lines
            code = run_injected(program, {INJECTION: str(library), REQUEST: "\n".join(lines), **variables})
        return TracedRun(code, keep_files(Path(temporary), out), tuple(program), tuple(server.notes()))


def request(selection: TraceSelection, file: Path, sanitizer: Path, patches: Sequence[Path]) -> list[str]:
    """The request to the library: lines of `key=value` (native/sanitizer/request.cpp)."""
    lines = [f"library={sanitizer}", *(f"patches={path}" for path in patches)]
    lines += [f"instruction={number}:{patch}" for number, patch in _patches_of(selection)]
    lines += [
        f"mode={CHECK if selection.check else NOTE if selection.once else RECORD}",
        f"shadow={selection.shadow_mib << 20}",
        f"values={int(VALUES in selection.events)}",
    ]
    return [*_selected(selection, file), *lines]


def nvbit_request(selection: TraceSelection, file: Path) -> list[str]:
    """The request to the NVBit tool (native/nvbit/instrument.h has the bits)."""
    wanted = {INSTRUCTIONS: 1, REGISTERS: 1 | 2, "memory": 4, TENSOR_COPIES: 64}
    collect = 0
    for name in selection.events:
        collect |= wanted[name]
    collect |= 8 if selection.predicates else 0
    if REGISTERS in selection.events:
        collect |= {"before": 16, "after": 32, "both": 48}[selection.when]
    lines = [*_selected(selection, file), "library=NVBit", f"collect={collect}"]
    lines += [f"sass={pattern}" for pattern in selection.sass if collect]
    return [*lines, *disassembler()]


def disassembler() -> list[str]:
    """The request line that names the nvdisasm for NVBit."""
    found = find_tool("nvdisasm")
    return [f"nvdisasm={found}"] if found else []


def _selected(selection: TraceSelection, file: Path) -> list[str]:
    """The lines of a request shared by both libraries."""
    lines = [f"file={file}", f"description={json.dumps(selection.described())}"]
    lines += [f"kernel={pattern}" for pattern in selection.kernels]
    for key in ("launches", "blocks", "addresses"):
        if getattr(selection, key):
            lines.append(f"{key}={'..'.join(map(str, getattr(selection, key)))}")
    lines += [f"offsets={low}..{high}" for low, high in selection.offsets]
    if selection.warps:
        lines.append(f"warps={sum(1 << warp for warp in set(selection.warps))}")
    lines += [f"every={selection.every}", f"ring={selection.ring_mib << 20}"]
    if selection.limit is not None:
        lines.append(f"limit={selection.limit}")
    return [*lines, f"first={selection.first}"] if selection.first is not None else lines


def _patches_of(selection: TraceSelection) -> list[tuple[int, str]]:
    """Instruction classes, and the patch for each."""
    if selection.check:
        return [(number, KINDS[number].check) for number in CHECKED]
    kinds = [kind for name in selection.events if name != VALUES for kind in CLASSES[name]]
    if selection.once:
        return [(kind.number, kind.visit) for kind in kinds if kind.name != "local"]
    return [(kind.number, kind.patch) for kind in kinds]


def assemble(folder: Path, architectures: Sequence[int], source: Path | None = None) -> list[Path]:
    """The patches as cubins, one for each architecture.

    Args:
        folder: folder for the cubins.
        architectures: names such as `sm_90`.
        source: PTX text, by default that of event traces.

    Raises:
        WarpsightError: when ptxas is missing or fails.
    """
    tool = find_tool("ptxas")
    if tool is None:
        raise WarpsightError(
            "ptxas, which assembles the patches for this GPU, is not installed: pip install nvidia-cuda-nvcc, or install the "
            "CUDA toolkit"
        )
    made = []
    for number in architectures:
        made.append(folder / f"sm_{number}.cubin")
        command = [
            str(tool),
            "--compile-as-tools-patch",
            f"-arch=sm_{number}",
            str(source or shipped_ptx("patches")),
            "-o",
            str(made[-1]),
        ]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
            raise WarpsightError(f"{tool} cannot assemble the patches for sm_{number}: {said[0]}")
    return made


def shipped_ptx(name: str) -> Path:
    """Device code that comes with warpsight: `patches`, `compiled_checks` or `probes`."""
    source = Path(__file__).parents[4] / "native" / "sanitizer" / f"{name}.ptx"
    found = _native.installed_beside(source.name) or source
    if not found.is_file():
        raise WarpsightError(f"this installation of warpsight cannot trace events: it has no {name}.ptx")
    return found


def injected_library() -> Path:
    """Our library that the CUDA driver loads into the program."""
    return _native.needed_beside(
        "libwarpsight_events.so",
        "cannot trace events: it was built without NVIDIA's Sanitizer headers (wheel nvidia-cuda-sanitizer-api, or the CUDA "
        "toolkit)",
    )


def sanitizer_library() -> Path:
    """NVIDIA's library: from the variable, a wheel, or a toolkit."""
    named = os.environ.get(_SANITIZER)
    folders: list[Path] = []
    for entry in (*sys.path, *([str(Path(named).parent)] if named else ())):
        if entry.endswith(("site-packages", "dist-packages")):
            folders += Path(entry, "nvidia").glob("*/lib")
            folders += Path(entry, "nvidia").glob("*/compute-sanitizer")
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            folders.append(Path(os.environ[variable], "compute-sanitizer"))
    folders.append(Path("/usr/local/cuda/compute-sanitizer"))
    candidates = [Path(named)] if named else [folder / _LIBRARY for folder in folders]
    found = next((path for path in candidates if path.is_file()), None)
    if found is None:
        where = f"{_SANITIZER}={named} is not a file" if named else "pip install nvidia-cuda-sanitizer-api"
        raise WarpsightError(f"NVIDIA's Sanitizer library ({_LIBRARY}) was not found: {where}")
    return found.resolve()


def architectures() -> list[int]:
    """The architectures of this machine's GPUs, such as `sm_90`."""
    from warpsight.machine import nvml

    with nvml.session() as session:
        listed = (
            [device.compute_capability for device in nvml.devices(session)] if session is not None else []
        )
    known = sorted({(int(text.split(".")[0]), int(text.split(".")[1])) for text in listed if text})
    if not known:
        raise WarpsightError("no NVIDIA GPU was found on this machine, so there is nothing to trace")
    usable = [10 * major + minor for major, minor in known if (major, minor) >= _OLDEST]
    if not usable:
        text = ", ".join(f"{major}.{minor}" for major, minor in known)
        raise WarpsightError(
            f"the Sanitizer patches GPUs of compute capability 7.5 and later; here are {text}"
        )
    return usable


def run_injected(program: Sequence[str], variables: Mapping[str, str]) -> int:
    """Run a program with additional variables; returns its exit code as a shell would. Signals sent to us are passed on."""
    try:
        return run_to_end(program, {**os.environ, **variables})
    except OSError as error:
        raise WarpsightError(f"{program[0]}: {error.strerror or error}") from None


def keep_files(folder: Path, out: Path) -> tuple[Path, ...]:
    """Move a run's event files from its temporary folder to their destination."""
    made = sorted(folder.glob("events.*"))
    return tuple(_keep(file, out, alone=len(made) == 1) for file in made)


def _keep(file: Path, out: Path, *, alone: bool) -> Path:
    pid = file.suffix
    target = out if alone else out.with_name(f"{out.stem}{pid}{out.suffix}")
    shutil.move(file, target)
    return target
