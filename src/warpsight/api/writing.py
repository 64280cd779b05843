"""Traces with methods that write: reports, exports, flame graphs, the timeline as text, one packed file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from warpsight.api import choice, files
from warpsight.api.choice import Numbers, Time, Words
from warpsight.api.questions import Questions
from warpsight.errors import TraceError, UsageError

if TYPE_CHECKING:
    from warpsight.analysis.flame.graph import FlameGraph
    from warpsight.formats.registry import Exporter
    from warpsight.formats.selection import Selection
    from warpsight.formats.writing.overlay import Overlay
    from warpsight.model.trace import StoredTrace

#: A new file, or an open binary stream.
Output = str | os.PathLike[str] | IO[bytes]
_REPORT_SUFFIX = ".report.html"


@dataclass(frozen=True)
class Written:
    """An output file: its path and bytes (None for a stream), and counts of its contents."""

    path: Path | None
    bytes: int | None
    counts: Mapping[str, int] = field(default_factory=dict)


class Writing(Questions):
    """A trace that can be written in other forms. Existing files are refused unless `force` is given."""

    def view(
        self,
        *,
        device: Numbers = (),
        stream: Numbers = (),
        process: Numbers = (),
        name: str | None = None,
        begin: Time | None = None,
        end: Time | None = None,
        width: int = 120,
        ascii_only: bool = False,
    ) -> str:
        """Draw the timeline as text, a row per device and stream; :meth:`events` lists single events.

        Args:
            device: As in :meth:`stats`.
            stream: As there.
            process: As there.
            name: As there.
            begin: As there.
            end: As there.
            width: columns, 40 to 400.
            ascii_only: use ASCII only.

        Raises:
            UsageError: for a width that is out of bounds.
        """
        from warpsight.analysis.stats.overview import Picture
        from warpsight.ui.render.timeline import text as timeline_text

        if not 40 <= width <= 400:
            raise UsageError(f"width must be a number of columns from 40 to 400, not {width}")
        picture = Picture.of(self, choice.rows(self, begin, end, device, stream, process, name))
        return timeline_text.plain(picture, picture.begin, picture.end, width, ascii_only=ascii_only)

    def report(
        self,
        out: Output | None = None,
        *,
        force: bool = False,
        title: str | None = None,
        begin: Time | None = None,
        end: Time | None = None,
        device: Numbers = (),
        process: Numbers = (),
        include_paths: bool = False,
        include_arguments: bool = False,
        include_environment: bool = False,
        source: bool = True,
    ) -> Written:
        """Write one HTML page that says what is wrong and shows where. The page works offline.

        Args:
            out: new file or open stream; NAME.report.html by default.
            force: replace an existing file.
            title: page title; the trace's name by default.
            begin: as in :meth:`stats`.
            end: as there.
            device: as there.
            process: as there.
            include_paths: keep paths, user and host names as recorded; secrets are always removed.
            include_arguments: keep the arguments of recorded commands.
            include_environment: keep the recorded environment variables.
            source: embed source lines.

        Raises:
            WarpsightError: when the file exists or cannot be written.
        """
        from warpsight.ui.render.report import ReportOptions, render

        included = {
            "paths": include_paths,
            "arguments": include_arguments,
            "environment": include_environment,
        }
        rows = choice.rows(self, begin, end, device, (), process)
        options = ReportOptions(tuple(name for name, on in included.items() if on), source, title)
        path = Path(_first_name(self.path) + _REPORT_SUFFIX) if out is None else out
        with (
            opened(path, force, self.path) as raw,
            files.as_text(raw) as stream,
        ):  # refused before anything is computed
            stream.write(render(self, rows, options))
        return _written(path, {})

    def export(
        self,
        to: str | None = None,
        out: Output | None = None,
        *,
        force: bool = False,
        begin: Time | None = None,
        end: Time | None = None,
        device: Numbers = (),
        stream: Numbers = (),
        kind: Words = (),
        process: Numbers = (),
        flows: bool = True,
        counters: bool = True,
        rows: bool = True,
        critical_path: bool = False,
        findings: bool = False,
        include_paths: bool = False,
        include_arguments: bool = False,
        include_environment: bool = False,
    ) -> Written:
        """Write the trace in another tool's format.

        Args:
            to: the format: perfetto, chrome, kineto, folded, speedscope, pprof, parquet, csv, …; None: as the suffix of `out`
                implies, otherwise perfetto.
            out: new file or open stream; NAME with the format's suffix by default. A suffix .zst compresses. Several processes
                become a folder if the format holds only one.
            force: replace an existing file.
            begin: only work that ends after this time: a text with a unit (`"200ms"`) or seconds, since the trace's start.
            end: only what began before this time.
            device: work of these devices only.
            stream: work of these streams only.
            process: only these process ids of the trace.
            kind: only kernel, memcpy, memset, sync, launch, api, nvtx, op, event, sample, overhead, build, memory or counter.
            flows: include arrows from launches to their work.
            counters: include counters.
            rows: include rows, so that importing a perfetto, chrome or kineto file gives the same trace.
            critical_path: draw the critical path (perfetto only).
            findings: mark the findings of :meth:`analyze` (perfetto only).
            include_paths: keep paths, user and host names as recorded; secrets are always removed.
            include_arguments: keep the arguments of recorded commands.
            include_environment: keep the recorded environment variables.

        Returns:
            Its path and bytes, and counts of slices, samples and so on.

        Raises:
            UsageError: for a format, kind or device that does not exist, a file that is also the input, or a critical path or
                findings in a format that cannot hold them.
            WarpsightError: when the file exists or cannot be written.
        """
        from warpsight.formats.registry import exporter, named
        from warpsight.formats.selection import Selection
        from warpsight.formats.writing.packing import packed
        from warpsight.model.sharing.shared import INCLUDABLE, shared

        if to is None:
            to = (None if out is None or _is_stream(out) else named(Path(cast(Any, out)).name)) or "perfetto"
        chosen = exporter(to)
        if (critical_path or findings) and to != "perfetto":
            what = "the critical path" if critical_path else "findings"
            raise UsageError(f"{what} can be drawn in Perfetto's format only")
        wanted = zip(INCLUDABLE, (include_paths, include_arguments, include_environment), strict=True)
        part = choice.rows(self, begin, end, device, stream, process)
        selection = Selection(
            part.begin, part.end, part.devices, part.streams, part.processes, choice.words(kind), flows, counters, rows
        )  # fmt: skip
        path = Path(_trace_stem(self.path) + chosen.suffix) if out is None else out
        _check_other(path, self.path)
        _check_suffix(path, to)
        parts = chosen.parts(self, selection)
        with shared(self, tuple(name for name, asked in wanted if asked)) as prepared:
            if parts:
                return _write_parts(prepared, chosen, parts, path, force)
            drawn = _overlays(prepared, selection.processes, critical_path, findings)
            selection = replace(selection, overlays=drawn)
            name = "" if _is_stream(path) else Path(cast(Any, path)).name
            with opened(path, force) as raw, packed(name, raw) as file:
                counts = chosen.write(prepared, file, selection)
        return _written(path, counts)

    def flame(
        self,
        weight: str = "time",
        *,
        to: str | None = None,
        out: Output | None = None,
        force: bool = False,
        diff: StoredTrace | str | os.PathLike[str] | None = None,
        by: Words = (),
        level: Words = (),
        names: str = "demangled",
        merge_lines: bool = False,
        device: Numbers = (),
        stream: Numbers = (),
        rank: Numbers = (),
        process: Numbers = (),
        iteration: int | None = None,
        begin: Time | None = None,
        end: Time | None = None,
        name: str | None = None,
        include_paths: bool = False,
    ) -> FlameGraph:
        """Draw a flame graph of the host code that launched the GPU's work, or used the CPU. Notebooks display it.

        Args:
            weight: time, launches, bytes, idle, allocated, or samples (of host threads).
            to: html, svg, png, folded, speedscope or cpuprofile; by default the suffix of `out` decides.
            out: also write it to this new file or open stream.
            force: replace an existing file.
            diff: an earlier trace to compare with.
            by: split by device, stream, rank, process or thread.
            level: only these levels above kernels: stack, range, op.
            names: kernel names demangled, short or mangled.
            merge_lines: one frame per function instead of per line.
            device: As in :meth:`stats`.
            stream: As there.
            rank: only these ranks.
            process: As there.
            begin: As there.
            end: As there.
            name: As there.
            iteration: only this iteration, from 0.
            include_paths: keep paths, user and host names as recorded in what is written.

        Raises:
            UsageError: for a weight, form, rank or iteration that does not exist.
            WarpsightError: when there is nothing to draw, or the file exists.
        """
        from warpsight.api import flames

        options = flames.FlameOptions(weight, choice.words(by), choice.words(level), names, merge_lines)
        chosen = flames.FlameChoice(
            choice.numbers(device), choice.numbers(stream), choice.numbers(process), choice.numbers(rank), iteration,
            begin, end, name,
        )  # fmt: skip
        form = flames.form_of(to, None if out is None or _is_stream(out) else Path(cast(Any, out)))
        graph = flames.drawn(self, options, chosen, diff)
        if out is not None:
            with opened(out, force, self.path) as raw:
                flames.write(self, flames.redacted(self, graph, include_paths), form, raw)
        return graph

    def pack(self, out: str | os.PathLike[str] | None = None, *, force: bool = False) -> Path:
        """Pack the trace into one file that opens like the folder; NAME.warp.zip beside it by default.

        Raises:
            TraceError: when the file exists and `force` is not set, or cannot be written.
        """
        from warpsight.model.sharing import pack

        name = Path(self.path.rstrip("/")).name
        target = (
            Path(out)
            if out is not None
            else Path(self.path).with_name(name.removesuffix(".warp") + pack.SUFFIX)
        )
        try:
            pack.pack(self.folder, target, force=force)
        except OSError as error:
            raise TraceError(f"{error.filename or target}: {error.strerror or error}") from None
        return target


@contextmanager
def opened(out: Output, force: bool, read: str = "") -> Iterator[IO[bytes]]:
    """A new file for bytes, or the given stream, which stays open; never the input file `read`."""
    _check_other(out, read)
    if _is_stream(out):
        stream = cast(IO[bytes], out)
        yield stream
        stream.flush()
        return
    with files.binary(Path(cast(Any, out)), force) as file:
        yield file


def _check_other(out: Output, read: str) -> None:
    if read and isinstance(out, (str, os.PathLike)) and _same(out, read):
        raise UsageError(f"{out} is the input; name another file")


def _first_name(path: str) -> str:
    """The part of a trace's name before the first dot."""
    return Path(path.rstrip("/")).name.split(".")[0] or "trace"


def _trace_stem(path: str) -> str:
    """The name of a trace without the suffixes of packed, compressed and foreign files."""
    name = Path(path.rstrip("/")).name
    for end in (".gz", ".zst", ".zstd", ".zip"):
        name = name.removesuffix(end)
    return Path(name).stem or "trace"


def _overlays(
    trace: StoredTrace, processes: Sequence[int], critical_path: bool, findings: bool
) -> list[Overlay]:
    """The overlays drawn over the exported timeline."""
    from warpsight.model.selection import Rows

    rows = Rows(processes=processes)
    drawn = []
    if findings:
        from warpsight.analysis.rules.overlay import overlays
        from warpsight.analysis.rules.verdict import verdict

        drawn += overlays(verdict(trace, rows).findings)
    if critical_path:
        from warpsight.analysis.path.overlay import overlay

        drawn.append(overlay(trace, rows))
    return drawn


def _is_stream(out: Output) -> bool:
    return not isinstance(out, (str, os.PathLike))


def _same(path: str | os.PathLike[str], read: str) -> bool:
    out = Path(path)
    return out.exists() and Path(read).exists() and out.samefile(read)


def _written(out: Output, counts: Mapping[str, int]) -> Written:
    if _is_stream(out):
        return Written(None, None, counts)
    path = Path(cast(Any, out))
    return Written(path, path.stat().st_size, counts)


def _check_suffix(out: Output, to: str) -> None:
    """Refuse a file name that implies a different format than the requested one, or an unsupported compression.

    Raises:
        UsageError: for `-o run.parquet` with `--to csv`; a name that says no format is fine.
    """
    from warpsight.formats.registry import EXPORTERS, exporter

    if _is_stream(out):
        return
    name = Path(cast(Any, out)).name.lower()
    if name.endswith(".gz") and not exporter(to).suffix.endswith(".gz"):
        raise UsageError(f"{name} would not be compressed: only names ending in .zst are")
    endings = {form: _last_suffix(f"x{one.suffix}") for form, one in EXPORTERS.items()}
    meant = [form for form, ending in endings.items() if ending and ending == _last_suffix(name)]
    if meant and to in endings and to not in meant:
        wanted = EXPORTERS[to].suffix
        raise UsageError(
            f"{Path(cast(Any, out)).name} is a name for {meant[0]}, not for {to}: name it NAME{wanted}, or choose --to {meant[0]}"
        )


def _last_suffix(name: str) -> str:
    """The content suffix of a file name, before any compression suffix."""
    for ending in (".zst", ".zstd", ".clp", ".gz", ".zip"):
        name = name.removesuffix(ending)
    return Path(name).suffix


def _write_parts(
    trace: StoredTrace, chosen: Exporter, parts: Mapping[str, Selection], out: Output, force: bool
) -> Written:
    """Write one file per part into a new folder; returns the summed counts."""
    if _is_stream(out):
        raise UsageError("several processes need several files: name a folder, or choose one process")
    path, suffix = Path(cast(Any, out)), chosen.suffix
    if path.name.endswith(suffix):
        path = path.with_name(path.name.removesuffix(suffix) + suffix.removesuffix(".json"))
    total = {"files": len(parts)}
    with files.folder(path, suffix, force) as made:
        for name, selection in parts.items():
            with files.binary(made / (name + suffix)) as file:
                for key, count in chosen.write(trace, file, selection).items():
                    total[key] = total.get(key, 0) + count
    return Written(path, sum(file.stat().st_size for file in path.iterdir()), total)
