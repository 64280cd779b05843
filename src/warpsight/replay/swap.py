"""Another version of a kernel for a replay: a cubin, PTX, or CUDA C++ that nvcc compiles for the recorded GPU."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from warpsight.device_code.cubin import Cubin
from warpsight.device_code.demangle import demangle, short
from warpsight.device_code.disassembly import find_tool
from warpsight.device_code.kernel_info import parameters
from warpsight.errors import UsageError
from warpsight.replay.capsule import manifest as m
from warpsight.replay.capsule.store import Capsule
from warpsight.replay.script import Replacement

_ENTRY = re.compile(r"\.entry\s+([\w$]+)")
_SUFFIXES = (".cubin", ".ptx", ".cu")
#: From here on instructions exist that only code for exactly this architecture may use.
_ARCHITECTURE_SPECIFIC = (9, 0)


def replacements(
    capsule: Capsule, swaps: Sequence[str], folder: Path
) -> tuple[dict[int, Replacement], list[str]]:
    """The modules that replace functions, by position, and their titles.

    Args:
        capsule: the capsule with the kernels.
        swaps: replacements, each as `KERNEL=FILE`.
        folder: folder for compiled files.

    Raises:
        UsageError: when a kernel or file does not exist, does not compile, or takes other parameters.
    """
    found: dict[int, Replacement] = {}
    names = []
    for number, text in enumerate(swaps):
        kernel, equals, file = text.rpartition("=")
        path = Path(file)
        if not equals or path.suffix not in _SUFFIXES:
            raise UsageError(f"--swap {text!r}: write KERNEL=FILE with FILE ending in {', '.join(_SUFFIXES)}")
        same = _functions(capsule.manifest, kernel)
        replacement = _replacement(capsule.manifest, same[0], path, folder / f"swap-{number}.cubin")
        found |= dict.fromkeys(same, replacement)
        names.append(path.name)
    return found, names


def _functions(manifest: m.Manifest, wanted: str) -> list[int]:
    """The one function whose mangled, readable or short name is, or else holds, the words given; one of each module with it."""
    names = {i: (f.name, demangle(f.name), short(demangle(f.name))) for i, f in enumerate(manifest.functions)}
    exact = [i for i, forms in names.items() if wanted in forms]
    matching = exact or [i for i, forms in names.items() if any(wanted in form for form in forms)]
    kinds = {
        (f.name, tuple((p.offset, p.size) for p in f.parameters))
        for f in map(manifest.functions.__getitem__, matching)
    }
    if len(kinds) == 1:
        return matching
    listed = ", ".join(sorted({names[i][2] for i in matching or names}))
    said = "several kernels match" if matching else "the capsule has no such kernel; it has"
    raise UsageError(f"--swap {wanted}: {said}: {listed}")


def _replacement(manifest: m.Manifest, index: int, path: Path, compiled: Path) -> Replacement:
    function = manifest.functions[index]
    try:
        if path.suffix == ".cu":
            _compile(path, compiled, manifest.device.compute_capability)
            path = compiled
        image = path.read_bytes()
    except OSError as error:
        raise UsageError(f"--swap: {path}: {error.strerror or error}") from None
    if path.suffix == ".ptx":
        return Replacement(
            image + b"\0", _kernel(_ENTRY.findall(image.decode("utf-8", "replace")), function, path)
        )
    cubin = Cubin(image, str(path))
    names = [name for name in cubin.sections.values() if parameters(cubin, name) or name == function.name]
    name = _kernel(names, function, path)
    takes, given = parameters(cubin, name), tuple((p.offset, p.size) for p in function.parameters)
    if takes != given:
        raise UsageError(
            f"--swap: {name} takes {_listed(takes)}, the recorded kernel {_listed(given)} (offset:bytes of each parameter)"
        )
    return Replacement(image, name)


def _listed(layout: Sequence[tuple[int, int]]) -> str:
    return " ".join(f"{offset}:{size}" for offset, size in layout) or "no parameters"


def _kernel(names: Sequence[str], function: m.Function, path: Path) -> str:
    """The kernel in a file that replaces a function: the one with its name, with its short name, or the only one."""
    same = [name for name in names if short(demangle(name)) == short(demangle(function.name))]
    for candidates in ([name for name in names if name == function.name], same, names):
        if len(candidates) == 1:
            return candidates[0]
    raise UsageError(f"--swap: {path} has no kernel {function.name}; it has {', '.join(names) or 'none'}")


def architecture(capability: tuple[int, int]) -> str:
    """The architecture to compile for, as nvcc names it: `sm_80`, `sm_90a`."""
    major, minor = capability
    return f"sm_{major}{minor}{'a' if capability >= _ARCHITECTURE_SPECIFIC else ''}"


def _compile(source: Path, compiled: Path, capability: tuple[int, int]) -> None:
    nvcc = find_tool("nvcc")
    if nvcc is None:
        raise UsageError("--swap with a .cu file needs nvcc: install the CUDA toolkit, or give a cubin")
    command = [
        str(nvcc),
        "-cubin",
        "-lineinfo",
        f"-arch={architecture(capability)}",
        "-o",
        str(compiled),
        str(source),
    ]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        raise UsageError(f"--swap: nvcc cannot compile {source}:\n" + "\n".join(said[:10]))
