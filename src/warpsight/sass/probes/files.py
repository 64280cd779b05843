"""Files of probes, run in a program or evaluated on a trace, with the tables that the file derives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsight.errors import UsageError, WarpsightError, choices
from warpsight.sass.events.trace import EventTrace
from warpsight.sass.probes import definition, interpreter, ready, running
from warpsight.sass.probes.definition import Probe
from warpsight.sass.probes.results import Results, results

if TYPE_CHECKING:
    from warpsight.sass.events.tracing import TraceSelection


def find(probe: str) -> Path:
    """The requested file: an existing one, otherwise that of a built-in probe.

    Raises:
        UsageError: when there is neither.
    """
    if probe.endswith(".py") or Path(probe).is_file():
        return Path(probe)
    found = ready.find(probe)
    if found is None:
        raise UsageError(f"there is no built-in probe {probe!r}{choices(probe, ready.listed())}")
    return found


@dataclass(frozen=True)
class ProbeFile:
    """The probes of a file, and its function `derive`, if any, which turns the tables of its maps into results."""

    path: Path
    probes: tuple[Probe, ...]
    derive: Callable[[dict[str, Any]], dict[str, Any]] | None

    @classmethod
    def open(cls, path: Path, constants: Mapping[str, str] | None = None) -> ProbeFile:
        """Run a Python file to get its probes, with new values for its `constants`.

        Raises:
            WarpsightError: when it cannot be run.
            UsageError: when it has no probe, or no such constant.
        """
        module = definition.module_of(path, constants)
        return cls(path, tuple(definition.probes_of(module, path)), getattr(module, "derive", None))

    def of_program(
        self,
        program: Sequence[str],
        out: Path,
        selection: TraceSelection | None,
        map_mib: int,
    ) -> Results:
        """Run a program with the probes: see :func:`running.run`."""
        done = running.run(program, self.probes, out, selection, map_mib)
        return self._derived(results([EventTrace(file) for file in done.files], done.code))

    def of_trace(self, trace: Path) -> Results:
        """Evaluate the probes on a trace: see :func:`interpreter.interpret`."""
        return self._derived(interpreter.interpret(trace, self.probes))

    def _derived(self, found: Results) -> Results:
        if self.derive is None or not found.launches:
            return found
        try:
            return replace(found, tables=self.derive(dict(found.tables)))
        except Exception as error:
            raise WarpsightError(f"{self.path}: derive(tables): {type(error).__name__}: {error}") from error
