"""`@ws.probe`: a function that runs at every event of a kind on the GPU, and files of such functions."""

from __future__ import annotations

import builtins
import importlib.util
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from warpsight.errors import UsageError, WarpsightError
from warpsight.model.private_files import no_file
from warpsight.sass.probes.event import Event, EventFilter, places
from warpsight.sass.probes.maps import Map
from warpsight.sass.probes.tree import Statement

Function = Callable[[Event], None]
#: As native/sanitizer/probe_format.h.
MOST_MAPS, MOST_PROBES = 16, 31


@dataclass(frozen=True)
class Probe:
    """A probe as declared.

    Attributes:
        function: the user's function; at: names of events; kernel: pattern of mangled or demangled names.
        level: whether the function runs for each active lane ("thread") or once for the warp.
    """

    function: Function
    at: tuple[str, ...]
    kernel: str
    level: str
    where: tuple[EventFilter, ...]

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__

    def __call__(self, event: Event) -> None:
        """Probes run on the GPU."""
        raise UsageError(f"{self.name} is a probe: ws.sass.probe([{self.name}], command) runs it")


@dataclass(frozen=True)
class Translated:
    """A probe with its tree and the features that it uses."""

    probe: Probe
    body: tuple[Statement, ...]
    fields: frozenset[str]
    maps: tuple[Map, ...]
    reads: bool


def probe(
    *, at: str | Sequence[str], kernel: str = "*", level: Literal["thread", "warp"] = "thread"
) -> Callable[[Function], Probe]:
    """Turn a function of one event into a probe.

    Args:
        at: events: `memory`, `memory.load`, `global.store`, `shared.atomic`, or a kind from `sass events`.
        kernel: pattern of kernel names.
        level: "thread": run for each active lane; "warp": once per warp.
    """
    names = (at,) if isinstance(at, str) else tuple(at)
    if level not in ("thread", "warp"):
        raise UsageError(f"the level of a probe must be thread or warp, not {level!r}")
    where = places(names)
    return lambda function: Probe(function, names, kernel, level, where)


def translated(probes: Sequence[Probe]) -> list[Translated]:
    """The probes' syntax trees; also names their maps.

    Raises:
        UsageError: for unsupported code in a function, with its file and line.
    """
    from warpsight.sass.probes.translation import translate

    if not probes:
        raise UsageError("there is no probe: a probe is a function with @ws.probe(at=…)")
    found = [translate(one) for one in probes]
    if len(maps_of(found)) > MOST_MAPS or len(found) > MOST_PROBES:
        raise UsageError(f"at most {MOST_PROBES} probes with {MOST_MAPS} maps can run together")
    return found


def maps_of(probes: Sequence[Translated]) -> list[Map]:
    """The maps of probes, each once, in order of use."""
    return list({id(one): one for each in probes for one in each.maps}.values())


def module_of(path: Path, constants: Mapping[str, str] | None = None) -> ModuleType:
    """Execute a Python file with new values for its `constants`.

    Raises:
        WarpsightError: when it cannot be run.
        UsageError: when it has no such constant.
    """
    if reason := no_file(path):
        raise UsageError(f"{path}: {reason}")
    spec = importlib.util.spec_from_file_location(f"warpsight_probes_{path.stem}".replace("-", "_"), path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path}: a file of probes is a Python file (.py)")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except WarpsightError as error:
        raise UsageError(f"{path}: {error}") from None
    except Exception as error:
        raise WarpsightError(f"{path}{_line(error, path)}: {type(error).__name__}: {error}") from None
    for name, text in (constants or {}).items():
        _set(module, path, name, text)
    return module


def probes_of(module: ModuleType, path: Path) -> list[Probe]:
    """The probes of a file, in file order.

    Raises:
        UsageError: when it has none.
    """
    found = [value for value in vars(module).values() if isinstance(value, Probe)]
    if not found:
        raise UsageError(f"{path}: there is no probe in it: a probe is a function with @ws.probe(at=…)")
    return found


def _line(error: BaseException, path: Path) -> str:
    at, found = error.__traceback__, getattr(error, "lineno", None)
    while at is not None:
        if at.tb_frame.f_code.co_filename == str(path):
            found = at.tb_lineno
        at = at.tb_next
    return f":{found}" if found else ""


def _set(module: ModuleType, path: Path, name: str, text: str) -> None:
    old: Any = vars(module).get(name)
    if type(old) not in (int, float, str, bool):
        raise UsageError(
            f"{path}: the file has no constant {name} that could be set (a number, string, or boolean)"
        )
    try:
        vars(module)[name] = (
            {"true": True, "false": False}[text.lower()] if isinstance(old, bool)
            else int(text, 0) if isinstance(old, int) else type(old)(text)
        )  # fmt: skip
    except (KeyError, ValueError):
        raise UsageError(f"{path}: {name} is a {type(old).__name__}, which {text!r} is not") from None
    # Functions of the file see the new value: they look names up in the module.


def builtin_functions() -> dict[int, str]:
    """Functions that a probe may call, by identity."""
    from warpsight.sass.probes import event

    own = ("as_float16", "as_bfloat16", "as_float32", "as_float64", "popcount", "isnan", "isinf")
    known = {id(getattr(event, name)): name for name in own}
    known |= {
        id(getattr(builtins, name)): name for name in ("abs", "min", "max", "int", "float", "bool", "range")
    }
    return known | {id(math.isnan): "isnan", id(math.isinf): "isinf"}
