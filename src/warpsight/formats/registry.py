"""The formats a trace can be written in: one line here and one module each."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from warpsight.errors import UsageError
from warpsight.formats.selection import Selection

if TYPE_CHECKING:
    from warpsight.trace import Trace


@dataclass(frozen=True)
class Exporter:
    """A format; `module` has `write(trace, file, selection)` that returns counts of what it wrote."""

    summary: str
    suffix: str
    module: str

    def write(self, trace: Trace, file: IO[bytes], selection: Selection) -> dict[str, int]:
        """Write the selected part of a trace."""
        function: Callable[[Trace, IO[bytes], Selection], dict[str, int]] = importlib.import_module(
            self.module
        ).write
        return function(trace, file, selection)


EXPORTERS: dict[str, Exporter] = {
    "perfetto": Exporter(
        "Perfetto's protobuf, for ui.perfetto.dev", ".pftrace", "warpsight.formats.perfetto.writer"
    ),
    "chrome": Exporter("Chrome's JSON, for chrome://tracing and others", ".json", "warpsight.formats.chrome"),
}


def exporter(name: str) -> Exporter:
    """The exporter of a format.

    Raises:
        UsageError: when there is none.
    """
    if name not in EXPORTERS:
        raise UsageError(f"there is no format {name!r}; formats: {', '.join(EXPORTERS)}")
    return EXPORTERS[name]
