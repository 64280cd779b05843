"""Which recorder `--backend` and `--recorder` mean: warpsight's own in the process, or a vendor's program."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from warpsight.errors import UsageError, WarpsightError
from warpsight.machine.backends import registry
from warpsight.machine.backends.backend import Backend
from warpsight.recorder.external.tool import ToolRequest
from warpsight.recorder.options import table as options
from warpsight.recorder.options.given import Given
from warpsight.recorder.options.settings import acts_on
from warpsight.recorder.options.table import Option

#: Options of a recording that a vendor's recorder may take over.
_SHARED = ("backend", "duration", "delay")
#: Options that some vendors' recorders take and others do not.
_TOOL_OPTIONS = ("duration", "delay", "template", "pid")


@dataclass(frozen=True)
class BackendChoice:
    """The chosen recorder: of `backend`, or of all automatic ones (None); `external` means the vendor's program."""

    backend: Backend | None
    external: bool
    #: A note for the user: why this recorder was chosen, and what the other one would be.
    note: str = ""


def choose(given: Given) -> BackendChoice:
    """Choose the recorder that the options request.

    Raises:
        UsageError: when the backend has no such recorder.
        WarpsightError: when our own recorder is requested but a requirement is missing.
    """
    name, recorder = given.get("backend"), given.get("recorder")
    backend = None if name == "auto" else registry.find(name)
    if backend is None or not (backend.in_process and backend.external):
        external = backend is not None and backend.external
        if recorder == ("own" if external else "vendor"):
            both = [one.name for one in registry.external().values() if one.in_process]
            raise UsageError(
                f"--recorder {recorder} goes with --backend {' or '.join(both)}; --backend {name} has one recorder"
            )
        return BackendChoice(backend, external)
    if recorder == "vendor" or (recorder == "auto" and _asks_for_external(given)):
        return BackendChoice(backend, True)
    return _own(backend, required=recorder == "own")


def _asks_for_external(given: Given) -> bool:
    """Whether options were given that only vendors' recorders have; those from a file count as defaults."""
    only = [option.name for option in options.of_scope(options.VENDOR) if option.name != "recorder"]
    return any(given.get(name) and name not in given.from_file() for name in only)


def _own(backend: Backend, *, required: bool) -> BackendChoice:
    """Our own recorder if its requirements are installed, otherwise the vendor's."""
    needed = backend.recorder().requirement()
    if needed is None or needed.path is not None:
        untested = f", untested on {backend.vendor}'s hardware" if backend.untested else ""
        through = f" through {needed.path}" if needed is not None else ""
        note = f"{backend.name}: recording in the process{through}{untested}; --recorder vendor runs {backend.program}"
        return BackendChoice(backend, False, note)
    if required:
        raise WarpsightError(f"--recorder own needs {needed.advice}")
    return BackendChoice(backend, True)


def fitting(given: Given, choice: BackendChoice) -> Given:
    """The options that fit a recorder: unsuitable defaults from a file are dropped, other unsuitable options are refused.

    Raises:
        UsageError: for an option that the recorder would ignore; the message names it.
    """
    kept = given.without([name for name in given.from_file() if not _applies(options.BY_NAME[name], choice)])
    for name, value in kept.values.items():
        option = options.BY_NAME[name]
        if value != option.default and (refusal := _refusal(option, choice)):
            raise UsageError(refusal)
    return kept


def _applies(option: Option, choice: BackendChoice) -> bool:
    """Whether the recorder acts on an option."""
    if choice.external and choice.backend is not None and option.name in _TOOL_OPTIONS:
        return option.name in choice.backend.tool_options
    if option.scope == options.RECORDING and not choice.external:
        return acts_on(choice.backend.name if choice.backend is not None else "auto", option)
    return not _refusal(option, choice)


def _refusal(option: Option, choice: BackendChoice) -> str:
    """Why an option does not fit the recorder; "" if it does."""
    if choice.external and option.scope == options.RECORDING and option.name not in _SHARED:
        assert choice.backend is not None
        return (
            f"{option.flag} is an option of warpsight's own recorders, not of --backend {choice.backend.name}: "
            "give its recorder's with --backend-args"
        )
    if not choice.external and option.scope == options.VENDOR and option.name != "recorder":
        if choice.backend is not None and choice.backend.external:
            return f"{option.flag} goes with --recorder vendor: warpsight's own recorder takes none"
        return f"{option.flag} goes with --backend {', '.join(registry.external())}"
    return ""


def request(backend: Backend, given: Given) -> ToolRequest:
    """The request to a vendor's recorder.

    Raises:
        UsageError: for options that the vendor's recorder does not support.
    """
    for name in _TOOL_OPTIONS:
        if given.get(name) and name not in backend.tool_options:
            raise UsageError(
                f"--backend {backend.name}: {backend.program} takes no {options.BY_NAME[name].flag}"
            )
    text = given.get("backend_args")
    try:
        arguments = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"--backend-args {text!r}: {error}") from None
    return ToolRequest(
        given.get("duration"), given.get("delay"), given.get("template"), given.get("pid"), arguments
    )
