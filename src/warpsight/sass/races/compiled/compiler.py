"""Compiles checks into modules while a program loads them: a server in the launcher, asked by the library in the program.

A request is two numbers of 64 bits, the module's and the bytes of its image, then the image. The answer is three texts, each with
its length before it: the code, empty where the module stays as it is; a line for each kernel (its name, barriers, whether it
copies, the facts of its sites); and the sites as JSON, for the event file (native/sanitizer/compiled_modules.cpp).
"""

from __future__ import annotations

import json
import re
import socketserver
import struct
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from warpsight.device_code.demangle import demangle
from warpsight.device_code.disassembly import find_tool
from warpsight.device_code.fatbin import FatbinError, ptx_for
from warpsight.machine import nvml
from warpsight.sass.races.compiled.instructions import COPIES, NoKernelsError, UnsuitableModuleError
from warpsight.sass.races.compiled.instrument import Instrumented, instrumented

_HEAD = struct.Struct("<QQ")
_LARGEST = 1 << 30
#: Registers that leave room for a block of 1,024 threads, for kernels that do not state how large their blocks are.
_REGISTERS = 64
#: A module that takes ptxas longer is left to patches, and so is one whose PTX is larger.
_PATIENCE_S = 60.0
_LARGEST_PTX = 4 << 20
_TARGET = re.compile(r"^\.target\s+sm_(\d+)([af]?)", re.MULTILINE)


@dataclass
class Serving:
    """A server, or why there is none.

    Attributes:
        lines: Those of the request that name the server.
        patched: Modules that were left to patches, by the reason.
        none: Why there is no server.
    """

    lines: list[str] = field(default_factory=list)
    patched: Counter[str] = field(default_factory=Counter)
    none: str = ""

    def notes(self) -> list[str]:
        """Why checks were patched into kernels, which makes these several times slower; empty where none were."""
        if self.none:
            return [f"checks were patched into kernels, not compiled, which is slower: {self.none}"]
        if not self.patched:
            return []
        reasons = "; ".join(f"{reason} ({count})" for reason, count in self.patched.most_common())
        modules = "1 module" if self.patched.total() == 1 else f"{self.patched.total()} modules"
        return [f"checks were patched into {modules}, not compiled, which is slower: {reasons}"]


@contextmanager
def serving(checks: Path, architectures: Sequence[int], kernels: Sequence[str] = ()) -> Iterator[Serving]:
    """Serve while a program runs.

    Args:
        checks: Device code that the checks call.
        architectures: Those of the machine's GPUs, 90 for sm_90; the server works only if they are the same.
        kernels: Patterns of the kernels to check, mangled or demangled; all if there are none.
    """
    tool = find_tool("ptxas")
    if tool is None:
        yield Serving(none="ptxas was not found")
        return
    if len(set(architectures)) != 1:
        yield Serving(none="GPUs of several architectures")
        return
    if not _loads_code_of(tool):
        yield Serving(none="ptxas is newer than the driver")
        return
    with tempfile.TemporaryDirectory(prefix="warpsight-compile-") as folder:
        path = f"{folder}/socket"
        compiler = _Compiler(tool, checks.read_text(), architectures[0], kernels)
        try:
            server = _Server(path, compiler)
        except OSError:
            yield Serving(none="the name of the folder for temporary files is too long for a socket")
            return
        with server:
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            try:
                yield Serving([f"compiler={path}", f"architecture={architectures[0]}"], compiler.patched)
            finally:
                server.shutdown()
                thread.join()


def _loads_code_of(tool: Path | str) -> bool:
    """Whether the driver loads what ptxas makes: code of a later major release it refuses, and the program would fail."""
    with nvml.session() as session:
        driver = nvml.ask(session, session.nvmlSystemGetCudaDriverVersion_v2) if session is not None else None
    if driver is None:
        return True
    said = subprocess.run(
        [str(tool), "--version"], capture_output=True, text=True, errors="replace", check=False
    )
    release = re.search(r"release (\d+)\.", said.stdout)
    return release is not None and int(release[1]) <= driver // 1000


class _Compiler:
    """Makes code with checks for one architecture."""

    def __init__(self, tool: Path | str, checks: str, architecture: int, kernels: Sequence[str]) -> None:
        self._tool = str(tool)
        self._checks = checks
        self._architecture = architecture
        self._kernels = kernels
        self.patched: Counter[str] = Counter()

    def compiled(self, image: bytes, number: int) -> tuple[bytes, str, str] | None:
        """Code, facts and sites of a module, which it bears the number of; None if it stays as it is."""
        try:
            ptx = ptx_for(image, self._architecture)
            if ptx is None:
                raise UnsuitableModuleError("no PTX in the program")
            if len(ptx) > _LARGEST_PTX:
                raise UnsuitableModuleError("more than 4 MiB of PTX")
            made = instrumented(ptx, self._checks, self._wanted)
            return self._assembled(made, number), _facts(made), _sites(made)
        except NoKernelsError:
            return None
        except (FatbinError, UnsuitableModuleError) as error:
            self.patched[str(error)] += 1
            return None

    def _wanted(self, kernel: str) -> bool:
        """Whether a kernel is chosen: by its name, mangled or not, as the library does it."""
        names = (kernel, demangle(kernel))
        return not self._kernels or any(
            fnmatchcase(name, pattern) for pattern in self._kernels for name in names
        )

    def _assembled(self, made: Instrumented, number: int) -> bytes:
        ptx = f"{made.ptx}\n.visible .global .align 4 .u32 ws_module_{number};\n"
        target = _TARGET.search(ptx)
        exact = target is not None and target[2] and int(target[1]) == self._architecture
        name = f"sm_{self._architecture}{target[2] if target is not None and exact else ''}"
        with tempfile.TemporaryDirectory(prefix="warpsight-compile-") as folder:
            source, code = Path(folder, "module.ptx"), Path(folder, "module.cubin")
            source.write_text(ptx)
            limit = [] if made.bounded else [f"-maxrregcount={_REGISTERS}"]
            command = [self._tool, f"-arch={name}", *limit, str(source), "-o", str(code)]
            try:
                done = subprocess.run(command, capture_output=True, timeout=_PATIENCE_S, check=False)
            except subprocess.TimeoutExpired:
                raise UnsuitableModuleError(f"ptxas took more than {_PATIENCE_S:.0f} s") from None
            if (
                done.returncode
            ):  # as where more predicates are needed behind a call than there are registers for
                raise UnsuitableModuleError("ptxas refused the checks")
            return code.read_bytes()


def _facts(made: Instrumented) -> str:
    lines = []
    for name, sites in made.kernels.items():
        facts = " ".join(["0", *(str(site.facts) for site in sites)])
        copies = any(site.facts >> COPIES & 3 for site in sites)
        lines.append(f"{name}\t{made.one_way} {int(copies)} {facts}")
    return "\n".join(lines)


def _sites(made: Instrumented) -> str:
    return json.dumps(
        {
            name: [[site.number, site.text, site.frames] for site in sites]
            for name, sites in made.kernels.items()
        }
    )


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def __init__(self, path: str, compiler: _Compiler) -> None:
        self.compiler = compiler
        super().__init__(path, _Request)


class _Request(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        """Answer one request; nothing is said to a peer that says too little."""
        head = self.rfile.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return
        number, size = _HEAD.unpack(head)
        image = self.rfile.read(size) if size <= _LARGEST else b""
        made = self.server.compiler.compiled(image, number) if len(image) == size and size else None
        code, facts, sites = made if made is not None else (b"", "", "")
        for text in (code, facts.encode(), sites.encode()):
            self.wfile.write(struct.pack("<Q", len(text)) + text)
