"""Flame graphs from options: rows, form, and redaction of the output."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from warpsight.api import choice, files
from warpsight.errors import UsageError, WarpsightError, choices

if TYPE_CHECKING:
    from warpsight.analysis.flame.graph import FlameGraph, Shape
    from warpsight.model.selection import Rows
    from warpsight.model.trace import StoredTrace

#: Form → suffixes that mean it; the first is the one written by default.
FORMS = {
    "html": (".flame.html", ".html", ".htm"),
    "svg": (".flame.svg", ".svg"),
    "png": (".flame.png", ".png"),
    "folded": (".folded", ".txt", ".collapsed"),
    "speedscope": (".speedscope.json", ".json"),
    "cpuprofile": (".cpuprofile",),
}
#: What a graph of each weight is made of.
_NEEDED = {
    "time": "device work",
    "launches": "kernel launches",
    "bytes": "copies or sets",
    "idle": "device work",
    "allocated": "allocations",
    "samples": "samples of host threads",
    "pc-samples": "samples of program counters",
}


@dataclass(frozen=True)
class FlameOptions:
    """How a graph is drawn."""

    weight: str
    by: Sequence[str]
    level: Sequence[str]
    names: str
    merge_lines: bool

    def shape(self) -> Shape:
        """The options in the form that the analysis takes.

        Raises:
            UsageError: for a weight, level or split that does not exist.
        """
        from warpsight.analysis.flame.graph import LEVELS, Shape

        split = tuple(self.by) or (("process", "thread") if self.weight == "samples" else ())
        shape = Shape(
            self.weight, split, tuple(self.level) or tuple(LEVELS), self.names, not self.merge_lines
        )
        shape.check()
        return shape


@dataclass(frozen=True)
class FlameChoice:
    """The rows that the options select in a given trace: times and iterations differ between traces."""

    device: Sequence[int]
    stream: Sequence[int]
    process: Sequence[int]
    rank: Sequence[int]
    iteration: int | None
    begin: choice.Time | None
    end: choice.Time | None
    name: str | None

    def rows(self, trace: StoredTrace) -> Rows:
        """The conditions, for this trace.

        Raises:
            UsageError: for a rank, iteration, device, stream or process that the trace lacks, and for an invalid name.
        """
        from warpsight.model.selection import Rows

        choice.check(trace, self.device, self.stream, self.process, self.name)
        processes = list(self.process)
        for rank in self.rank:
            found = trace.sql("SELECT process FROM process WHERE rank = $rank", rank=rank).fetchall()
            if not found:
                raise UsageError(f"{trace.path} has no rank {rank}")
            processes += [int(row[0]) for row in found]
        first, last = choice.window(trace, self.begin, self.end)
        if self.iteration is not None:
            from warpsight.analysis.flame.windows import iteration_window

            first, last = iteration_window(trace, self.iteration, first, last)
        return Rows(first, last, self.device, self.stream, processes, self.name)


def drawn(
    trace: StoredTrace,
    options: FlameOptions,
    chosen: FlameChoice,
    before: StoredTrace | str | os.PathLike[str] | None = None,
) -> FlameGraph:
    """The graph of a trace, or of its difference from the trace `before`.

    Raises:
        UsageError: for unknown options.
        WarpsightError: when there is nothing to draw; the message says what could be drawn instead.
    """
    from warpsight.analysis.flame.graph import flame, flame_diff
    from warpsight.formats.importing import open_any

    shape = options.shape()
    if before is None:
        graph = flame(trace, chosen.rows(trace), shape)
    elif isinstance(before, (str, os.PathLike)):
        with open_any(before) as earlier:
            return drawn(trace, options, chosen, earlier)
    else:
        graph = flame_diff(before, trace, (chosen.rows(before), chosen.rows(trace)), shape)
    _check_not_empty(trace, graph)
    return graph


def form_of(to: str | None, out: Path | None) -> str:
    """The requested form, or the one that the file's name implies.

    Raises:
        UsageError: when neither gives a form, or the two differ.
    """
    named = next((form for form, suffixes in FORMS.items() if str(out or "").endswith(suffixes)), None)
    if to is not None:
        if to not in FORMS:
            raise UsageError(f"there is no form {to!r}{choices(to, FORMS)}")
        if named != to and named in ("html", "svg", "png"):
            raise UsageError(
                f"{out} is the name of a file of form {named}, and --to says {to}; leave one out"
            )
        return to
    if out is None or named is not None:
        return named or "html"
    raise UsageError(
        f"{out}: the name does not imply a form: use the suffix .html, .svg, .png, .folded, .speedscope.json or .cpuprofile, or "
        "use --to"
    )


def redacted(trace: StoredTrace, graph: FlameGraph, include_paths: bool) -> FlameGraph:
    """The graph without private data: private paths (unless wanted), user and host names, secrets."""
    from warpsight.model.sharing.redaction import Redactor

    redactor = Redactor.of(trace, include=("paths",) if include_paths else ())
    return replace(graph, labels=[redactor.text(label) for label in graph.labels],
                   traces=tuple(redactor.text(path) for path in graph.traces))  # fmt: skip


def write(trace: StoredTrace, graph: FlameGraph, form: str, file: IO[bytes]) -> None:
    """Write a graph of `trace` in one of :data:`FORMS`."""
    if form == "png":
        from warpsight.ui.render.flame.pictures import png

        png(graph, file)
        return
    with files.as_text(file) as stream:
        _write_text(trace, graph, form, stream)


def _write_text(trace: StoredTrace, graph: FlameGraph, form: str, stream: IO[str]) -> None:
    from warpsight.ui.render import loss
    from warpsight.ui.render.flame import page as flame_page
    from warpsight.ui.render.flame import pictures as flame_pictures
    from warpsight.ui.render.flame import text as flame_text

    if form == "folded":
        flame_text.write_folded(graph, stream)
    elif form == "speedscope":
        stream.write(_json(flame_text.speedscope(graph, Path(graph.traces[-1]).name)))
    elif form == "cpuprofile":
        stream.write(_json(flame_text.cpuprofile(graph)))
    elif form == "svg":
        stream.write(flame_pictures.svg(graph))
    else:
        missing = [
            f"Incomplete: {count:,} lost in {source}: {cause}" for source, cause, count in loss.lost(trace)
        ]
        name = " → ".join(Path(path).name for path in graph.traces)
        stream.write(flame_page.page(graph, name, lost=missing))


def _json(value: object) -> str:
    import msgspec

    return msgspec.json.encode(value).decode() + "\n"


def _check_not_empty(trace: StoredTrace, graph: FlameGraph) -> None:
    from warpsight.analysis.flame.samples import count

    if any(account.rows or account.without_time for account in graph.accounts):
        return
    samples = 0 if graph.weight == "samples" else count(trace)
    other = f"; --weight samples draws its {samples:,} samples of host threads" if samples else ""
    raise WarpsightError(
        f"{' and '.join(graph.traces)}: no {_NEEDED[graph.weight]} in the requested part, so there is nothing to draw{other}"
    )
