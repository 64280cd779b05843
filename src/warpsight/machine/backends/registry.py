"""All backends: CUDA and OpenCL from the core, and those from other packages.

A package adds backends with an entry point in the group `warpsight.backends`: an object (such as a module) with `BACKENDS`, a
sequence of :class:`~warpsight.machine.backends.backend.Backend`. A package that cannot be loaded is left out and listed in
:data:`BROKEN`. Looking for entry points takes some milliseconds, so it waits until another backend is needed.
"""

from __future__ import annotations

from functools import lru_cache

from warpsight.machine.backends.backend import Backend

_PACKAGE = "warpsight.machine.backends"
CORE: dict[str, Backend] = {
    "cuda": Backend(
        "cuda", "CUDA", f"{_PACKAGE}.cuda", ("in_process",), api="CUDA", vendor="NVIDIA", automatic=True,
        platform=1, library="cupti",
    ),
    "opencl": Backend(
        "opencl", "OpenCL", f"{_PACKAGE}.opencl", ("in_process",), api="OpenCL", automatic=True, platform=2,
    ),
}  # fmt: skip
#: Entry points that could not be loaded, with the error.
BROKEN: dict[str, str] = {}


@lru_cache(maxsize=1)
def all_backends() -> dict[str, Backend]:
    """Every backend by name, the core's first."""
    from importlib.metadata import entry_points

    found = dict(CORE)
    for entry in entry_points(group="warpsight.backends"):
        try:
            rows = {row.name: row for row in entry.load().BACKENDS}
        except Exception as error:  # a third party's package must not take the others away
            BROKEN[entry.value] = f"{type(error).__name__}: {error}"
            continue
        found |= {name: one for name, one in rows.items() if name not in found}
    return found


def find(name: str) -> Backend | None:
    """The backend with a name, or None. The core's are found without looking at other packages."""
    return CORE.get(name) or all_backends().get(name)


def recording() -> dict[str, Backend]:
    """Backends that `--backend` accepts."""
    return {name: one for name, one in all_backends().items() if one.records}


def external() -> dict[str, Backend]:
    """Backends that have a vendor's recorder."""
    return {name: one for name, one in all_backends().items() if one.external}


def selected(name: str) -> list[Backend]:
    """The backends that `--backend NAME` loads into the program; for `auto`, all of the core's."""
    if name == "auto":
        return [one for one in CORE.values() if one.automatic]
    found = find(name)
    return [found] if found is not None and found.in_process else []


def with_part(name: str) -> list[Backend]:
    """Backends with a given part: `devices`, `doctor`."""
    return [one for one in all_backends().values() if name in one.parts]


def acting_on(option: str) -> list[Backend]:
    """Backends of other packages whose in-process recorders support an optional option."""
    return [one for one in all_backends().values() if option in one.options]


def of_platform(number: int) -> Backend | None:
    """The backend for a platform number in rows of devices and contexts."""
    for one in CORE.values():
        if one.platform == number:
            return one
    return next((one for one in all_backends().values() if number and one.platform == number), None)
