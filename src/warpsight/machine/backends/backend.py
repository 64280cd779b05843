"""A backend: a row of a table, and the modules with its parts."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import re

    from warpsight.machine.checks import Check
    from warpsight.machine.device import Device


@dataclass(frozen=True)
class ApiFunctions:
    """The functions of a backend's API, as rows of calls number them."""

    #: In rows of calls (`Api.domain`).
    domain: int
    #: The domain's default for functions without a group.
    name: str
    #: A file of `number name` lines; None when the recorder names the functions it meets.
    names: Path | None = None
    #: Prefixes of function names that are in no file.
    prefixes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Variable:
    """An environment variable of a backend, for the reference: set by the user or by `record`."""

    name: str
    #: Who reads it.
    reader: str
    #: Its meaning or value.
    meaning: str


@dataclass(frozen=True)
class Backend:
    """One backend: cheap to list. Its parts are modules of its package, imported on first use.

    `parts` names those modules:

    * `in_process`: warpsight's own recorder of the API (:class:`InProcess`)
    * `tool`: the vendor's recorder, as `TOOL` (:class:`warpsight.recorder.external.tool.Tool`)
    * `devices`: describes the vendor's hardware (:class:`Devices`)
    * `doctor`: checks and versions (:class:`Doctor`)
    """

    #: Value of `--backend`; also the platform of its devices.
    name: str
    summary: str
    package: str
    parts: tuple[str, ...]
    #: The API that programs use, as named in messages.
    api: str = ""
    vendor: str = ""
    #: Other spellings of the vendor in OpenCL drivers.
    spellings: tuple[str, ...] = ()
    #: `--backend auto` includes it.
    automatic: bool = False
    #: The recorder in the process has not run on the vendor's hardware yet.
    untested: bool = False
    #: Options that only some recorders support, including this in-process one.
    options: tuple[str, ...] = ()
    #: In rows of devices and contexts (`platform`, `api`).
    platform: int = 0
    functions: tuple[ApiFunctions, ...] = ()
    #: The library that delivers records of device work, and the source named for lost ones.
    library: str = ""
    #: Libraries between a program and the recorder's callbacks, by a part of their path: no callers in stacks.
    callback_libraries: tuple[str, ...] = ()
    #: Variables that a user may set, and that `record` sets for others to read.
    variables: tuple[Variable, ...] = ()
    sets: tuple[Variable, ...] = ()
    #: The vendor's recorder program, and its options for duration, delay, template and pid.
    program: str = ""
    tool_options: tuple[str, ...] = ()

    @property
    def in_process(self) -> bool:
        """Whether warpsight itself can record the API, inside the program."""
        return "in_process" in self.parts

    @property
    def external(self) -> bool:
        """Whether a vendor's recorder can run."""
        return "tool" in self.parts

    @property
    def records(self) -> bool:
        """Whether `--backend` accepts it; some backends only describe devices."""
        return self.in_process or self.external

    def part(self, name: str) -> ModuleType:
        """One of the modules that `parts` names."""
        return importlib.import_module(f"{self.package}.{name}")

    def recorder(self) -> InProcess:
        """Warpsight's own recorder of the API."""
        found: InProcess = self.part("in_process")
        return found


class InProcess(Protocol):
    """A module that gets warpsight's library into programs of an API."""

    def variables(self, library: Path, environment: Mapping[str, str]) -> dict[str, str]:
        """The environment variables that load `library` into programs, on top of `environment`.

        Raises:
            UsageError: when another tool is there already, or this installation lacks a part.
        """

    def requirement(self) -> Requirement | None:
        """The vendor's library behind the recorder, or None."""

    def sign(self) -> Sign | None:
        """How to recognize a process that uses the API; None if that is impossible."""


class Devices(Protocol):
    """A module that describes a vendor's hardware."""

    def devices(self, root: Path) -> list[Device]:
        """All devices of the vendor; `root` is where sysfs is mounted."""

    def missing(self, there: bool, readable: bool) -> str | None:
        """Problems in querying devices. `there`: devices were found; `readable`: the PCI bus can be read."""


class Doctor(Protocol):
    """A module with the backend's part of `warpsight doctor` and `warpsight version`."""

    def checks(self) -> Sequence[Check]:
        """The backend's checks; empty on machines without the vendor's hardware or software."""

    def libraries(self) -> dict[str, str | None]:
        """Where the vendor's libraries are, by name."""


@dataclass(frozen=True)
class Requirement:
    """The library that an in-process recorder needs: its place here, and the alternative without it."""

    path: Path | None
    advice: str


@dataclass(frozen=True)
class Sign:
    """How to recognize a process that uses an API, and what should have loaded the recorder there."""

    api: str
    #: A device that programs open when they work with the GPU.
    device: str | None = None
    #: Matches the program's mapped files.
    mapped: re.Pattern[str] | None = None
    #: What loads the recorder, by which variable; empty if a process without it is not noteworthy.
    loader: str = ""
    variable: str = ""
