"""The formats for reading and writing traces: each is a row in a table and a module.

The core's own formats are in the tables below. All others come from packages that declare an entry point in the group
`warpsight.formats`: an object (such as a module) with `READERS` and `EXPORTERS`, mappings like those below. Packages that cannot
be loaded are left out and listed in :data:`BROKEN`.

A reader's module has

* `sniff(source: Source) -> bool`: cheap; looks at `source.head` (or the names in a folder), raises nothing;
* `read(source: Source, target: Target, options: Options) -> None`: raises FormatError for what cannot be read, and
  calls `target.lost(…)` or `source.ended_early(…)` for data missing from a file that is read in part;
* `COVERAGE: Coverage`: what is kept, what is lost, and which versions were tested with which file. From it
  `docs/reference/formats.md` is generated (`docs/reference/generate_formats.py`); a test keeps the page current. A writer's
  module may describe its output in the same way: `WRITTEN: Coverage`.

Readers are asked in order of their `rank`, those whose suffix fits the file's name first: special dialects before general ones.
A reader whose format holds host stacks without GPU work also has `parse_stacks(data: bytes) -> Samples`, for `merge`.
A small file of each format is in `tests/golden/formats/<name>/`; the damage tests cut and corrupt every file there.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any

from warpsight.errors import UsageError, WarpsightError, choices
from warpsight.formats.selection import Selection

if TYPE_CHECKING:
    from warpsight.formats.reading.samples import Samples
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target
    from warpsight.model import StoredTrace


_JSON_OBJECT = re.compile(rb'(\xef\xbb\xbf)?\s*\{\s*"')


@dataclass(frozen=True)
class Coverage:
    """A reader's coverage of its format, as sentences for the reference page."""

    kept: Sequence[str]
    lost: Sequence[str]
    #: "version: file and where it comes from"
    tested: Sequence[str]


@dataclass(frozen=True)
class Options:
    """The user's settings for a reader: `--option KEY=VALUE`, limited to keys that the reader lists."""

    values: Mapping[str, str] = field(default_factory=dict)

    def get(self, key: str) -> str | None:
        """The value of an option, or None."""
        return self.values.get(key)


@dataclass(frozen=True)
class Reader:
    """A format that can be read. `options` names the keys of `--option` with their meaning."""

    summary: str
    module: str
    suffixes: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    #: Lower ranks are tried first; 0 is for self-contained formats, higher ones for formats with dialects.
    rank: int = 0
    #: A job leaves a file per rank: a folder of such files is read as one trace.
    ranked: bool = False
    #: Our own files of this format enclose the rows that they show (:mod:`warpsight.formats.enclosed`).
    encloses: bool = False
    #: Its files can be JSON; other readers are not loaded to be asked about a file that begins as a JSON object.
    json: bool = True

    def _loaded(self) -> ModuleType:
        return importlib.import_module(self.module)

    def sniff(self, source: Source) -> bool:
        """Whether the source looks like this format."""
        return bool(self._loaded().sniff(source))

    def read(self, source: Source, target: Target, options: Options) -> None:
        """Read the source into a trace."""
        self._loaded().read(source, target, options)

    def stacks_parser(self) -> Callable[[bytes], Samples] | None:
        """The function that reads host stacks for `merge`; None if the format has no stacks."""
        found: Callable[[bytes], Samples] | None = getattr(self._loaded(), "parse_stacks", None)
        return found

    def coverage(self) -> Coverage:
        """The kept, lost and tested parts of the format."""
        found: Coverage = self._loaded().COVERAGE
        return found


@dataclass(frozen=True)
class Exporter:
    """A format; `module` has `write(trace, file, selection)`, or another `function`, that returns counts of what it wrote.

    It may have `parts(trace, selection)` too, when one file cannot hold everything.
    """

    summary: str
    suffix: str
    module: str
    function: str = "write"

    def write(self, trace: StoredTrace, file: IO[bytes], selection: Selection) -> dict[str, int]:
        """Write the selected part of a trace."""
        function: Callable[[StoredTrace, IO[bytes], Selection], dict[str, int]] = getattr(
            importlib.import_module(self.module), self.function
        )
        return function(trace, file, selection)

    def parts(self, trace: StoredTrace, selection: Selection) -> dict[str, Selection]:
        """If one file cannot hold a selection, its files by name without suffix; otherwise empty."""
        function: Callable[[StoredTrace, Selection], dict[str, Selection]] | None = getattr(
            importlib.import_module(self.module), "parts", None
        )
        return {} if function is None else function(trace, selection)


#: The core"s own formats; every other comes by entry point, groups `warpsight.readers` and `warpsight.writers`.
_CORE_READERS: dict[str, Reader] = {
    "events": Reader(
        "Event traces of sass trace: accesses, barriers and more of single instructions",
        "warpsight.formats.events.reader",
        (".events",),
        json=False,
    ),
    "nsys": Reader(
        "Nsight Systems: SQLite, Parquet and Arrow exports; .nsys-rep through nsys",
        "warpsight.formats.nsys",
        (".sqlite", ".nsys-rep", ".qdrep"),
        rank=10,
    ),
    "kineto": Reader(
        "torch.profiler's JSON (Kineto)",
        "warpsight.formats.kineto.reader",
        (".pt.trace.json",),
        rank=10,
        ranked=True,
        encloses=True,
    ),
    "extended-folded": Reader(
        "Timed folded stacks of uprobe profilers", "warpsight.formats.folded.timed", rank=10
    ),
    "folded": Reader(
        "Folded stacks: frames and a weight per line",
        "warpsight.formats.folded.plain",
        (".folded", ".collapsed"),
        rank=20,
    ),
    "perfetto": Reader(
        "Perfetto's protobuf",
        "warpsight.formats.perfetto.reader",
        (".pftrace", ".perfetto-trace"),
        rank=30,
        encloses=True,
    ),
    "chrome": Reader(
        "Chrome's trace events, any dialect", "warpsight.formats.chrome.reader", rank=40, encloses=True
    ),
}

_TABULAR = "warpsight.formats.tabular"
_CORE_EXPORTERS: dict[str, Exporter] = {
    "perfetto": Exporter(
        "Perfetto's protobuf, for ui.perfetto.dev", ".pftrace", "warpsight.formats.perfetto.writer"
    ),
    "chrome": Exporter(
        "Chrome's JSON, for chrome://tracing and others", ".json", "warpsight.formats.chrome.writer"
    ),
    "folded": Exporter(
        "Folded stacks with ns: host stack and kernel", ".folded", "warpsight.formats.folded.plain"
    ),
    "kineto": Exporter(
        "torch.profiler's JSON, for HTA and others", ".pt.trace.json", "warpsight.formats.kineto.writer"
    ),
    "parquet": Exporter("All tables, Parquet in a zip", ".parquet.zip", _TABULAR, "parquet"),
    "arrow": Exporter("All tables, Arrow IPC in a zip", ".arrow.zip", _TABULAR, "arrow"),
    "csv": Exporter("All tables, CSV in a zip", ".csv.zip", _TABULAR, "csv"),
    "jsonl": Exporter("All tables, JSON lines in a zip", ".jsonl.zip", _TABULAR, "jsonl"),
}


#: Entry points that could not be loaded, with the error.
BROKEN: dict[str, str] = {}


@lru_cache(maxsize=1)
def _tables() -> tuple[dict[str, Reader], dict[str, Exporter]]:
    """All readers by rank, and all exporters: the core's and those of entry points."""
    from importlib.metadata import entry_points

    readers, exporters = dict(_CORE_READERS), dict(_CORE_EXPORTERS)
    for entry in entry_points(group="warpsight.formats"):
        try:
            found = entry.load()
            more = dict(found.READERS), dict(found.EXPORTERS)
        except Exception as error:  # a third party's package must not take the others away
            BROKEN[entry.value] = f"{type(error).__name__}: {error}"
            continue
        readers = {**more[0], **readers}
        exporters |= {name: one for name, one in more[1].items() if name not in exporters}
    return dict(sorted(readers.items(), key=lambda item: item[1].rank)), exporters


def __getattr__(name: str) -> Any:
    """`READERS` and `EXPORTERS`, gathered on first use: looking for entry points takes some milliseconds."""
    if name == "READERS":
        return _tables()[0]
    if name == "EXPORTERS":
        return _tables()[1]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def reader(name: str) -> Reader:
    """The reader of a format.

    Raises:
        UsageError: when it does not exist.
    """
    readers = _tables()[0]
    if name not in readers:
        raise UsageError(f"there is no format {name!r} to read{choices(name, readers, 'formats: ')}")
    return readers[name]


def exporter(name: str) -> Exporter:
    """The exporter of a format.

    Raises:
        UsageError: when it does not exist.
    """
    exporters = _tables()[1]
    if name not in exporters:
        raise UsageError(f"there is no format {name!r}{choices(name, exporters, 'formats: ')}")
    return exporters[name]


def named(name: str) -> str | None:
    """The format of a file by its suffix, compressed or not; the longest wins: `.pt.trace.json`, not `.json`."""
    exporters, ends = _tables()[1], (name.lower(), _plain_name(Path(name)))
    found = [form for form, one in exporters.items() if any(end.endswith(one.suffix) for end in ends)]
    return max(found, key=lambda form: len(exporters[form].suffix), default=None)


def files_of_ranks(folder: Path) -> list[Path]:
    """Files in a folder whose format has a file per rank of a job, by name and number."""
    from warpsight.formats.source import Source

    found = []
    ranked = {name: form for name, form in _tables()[0].items() if form.ranked}
    ends = tuple(suffix for form in ranked.values() for suffix in (*form.suffixes, ".json"))
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.is_file() and not path.name.startswith(".") and _plain_name(path).endswith(ends):
            with Source(path) as source:
                if sniff(source) in ranked:
                    found.append(path)
    return sorted(found, key=lambda path: [part.zfill(20) for part in re.split(r"(\d+)", path.name)])


def _plain_name(path: Path) -> str:
    """A file's name in lower case, without the suffix of its compression."""
    name = path.name.lower()
    for end in (".gz", ".zst", ".zstd"):
        name = name.removesuffix(end)
    return name


def sniff(source: Source) -> str | None:
    """The format of a source, detected from its content; None if no reader recognizes it."""
    name = _plain_name(source.path)
    readers = _tables()[0]
    likely = [form for form, r in readers.items() if name.endswith(r.suffixes)]
    rest = [form for form in readers if form not in likely]
    if _JSON_OBJECT.match(source.head):
        rest = [form for form in rest if readers[form].json]
    return next((form for form in (*likely, *rest) if _knows(readers[form], source)), None)


def _knows(one: Reader, source: Source) -> bool:
    """Whether a reader recognizes a source; a reader that fails on the content does not."""
    try:
        return one.sniff(source)
    except (WarpsightError, OSError, MemoryError):
        raise
    except Exception:
        return False
