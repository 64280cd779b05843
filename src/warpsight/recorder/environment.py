"""The environment of recorded programs: variables that load the recorder and say where and what to record."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from warpsight import _native
from warpsight.errors import UsageError
from warpsight.machine.backends import registry
from warpsight.recorder.options.settings import Settings

SOCKET = "WARPSIGHT_SOCKET"
#: Where the runtimes of OpenMP and OpenACC look for tools.
OPENMP, OPENACC = "OMP_TOOL_LIBRARIES", "ACC_PROFLIB"
#: Variables that name the profiler plugin of NCCL and RCCL.
NCCL = "NCCL_PROFILER_PLUGIN"
#: Holds nothing but a `sitecustomize` that hands on to the user's own one.
_HOOK_FOLDER = str(Path(__file__).parents[1] / "inside" / "python_hook")


def recorder_variables(settings: Settings, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that load the recorder into a program and configure what to record, without the socket.

    Raises:
        UsageError: when the environment loads another tool in its place.
        NativeMissingError: when this installation has no compiled parts.
    """
    path = _native.library_path()
    if path is None:
        _native.load()  # raises, with what to do about it
    assert path is not None
    # An empty variable means the same as an absent one; it is set if it must override another value.
    options = {name: text for name, text in settings.variables().items() if text or name in environment}
    out = {_native.ENVIRONMENT: str(path), **options}
    for backend in registry.selected(settings.backend):
        out |= backend.recorder().variables(path, environment)
    out |= _directives(settings, environment, str(path))
    out |= _nccl(settings, environment, str(path))
    if "torch" in settings.ranges:
        out["PYTHONPATH"] = python_path(environment.get("PYTHONPATH", ""))
    return out


def python_path(present: str) -> str:
    """PYTHONPATH with the hook for `--ranges torch` in front; it turns torch operators into NVTX ranges without changes."""
    parts = [part for part in present.split(os.pathsep) if part and part != _HOOK_FOLDER]
    return os.pathsep.join([_HOOK_FOLDER, *parts])


def _directives(settings: Settings, environment: Mapping[str, str], library: str) -> dict[str, str]:
    """Variables that load the recorder into the OpenMP and OpenACC runtimes, if `--trace` names them."""
    out: dict[str, str] = {}
    if "openmp" in settings.trace:
        if environment.get("OMP_TOOL", "").strip().lower() == "disabled":
            raise UsageError("--trace openmp: OMP_TOOL=disabled forbids tools in OpenMP programs; unset it")
        # the first one that can be used is the tool
        others = [p for p in environment.get(OPENMP, "").split(":") if p and os.path.realpath(p) != library]
        out[OPENMP] = ":".join([library, *others])
    if "openacc" in settings.trace:
        present = environment.get(OPENACC)
        if present and os.path.realpath(present) != library:
            raise UsageError(f"{OPENACC} is already set ({present}): another tool records OpenACC; unset it")
        out[OPENACC] = library
    return out


def _nccl(settings: Settings, environment: Mapping[str, str], library: str) -> dict[str, str]:
    """The variable that makes NCCL load the recorder as its profiler; another profiler stays unless `--nccl on` was given."""
    present = environment.get(NCCL)
    if settings.nccl == "off" or settings.backend == "opencl":
        return {}
    if present and os.path.realpath(present) != library:
        if settings.nccl == "on":
            raise UsageError(
                f"{NCCL} is already set ({present}): NCCL has one profiler; unset it, or leave out --nccl on"
            )
        return {}
    return {NCCL: library}


def without_recorder(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without the variables that would record a process of the recorder's own."""
    from warpsight.machine.backends.cuda.in_process import INJECTION
    from warpsight.machine.backends.opencl.in_process import LAYERS

    loads = (SOCKET, *INJECTION, LAYERS)
    return {
        name: value
        for name, value in environment.items()
        if name == _native.ENVIRONMENT or (name not in loads and "libwarpsight" not in value)
    }
