"""The formats a trace can be read from and written in: one line here and one module each.

A reader's module has

* `sniff(source: Source) -> bool`: cheap; looks at `source.head` (or the names in a folder), raises nothing;
* `read(source: Source, target: Target, options: Options) -> None`: raises FormatError for what cannot be read, and
  calls `target.lost(…)` or `source.ended_early(…)` for what is missing of a file that is read in part;
* `COVERAGE: Coverage`: what is kept, what is lost, and which versions were tested with which file. From it
  `docs/reference/formats.md` is generated (`docs/reference/generate_formats.py`); a test keeps the page current. A
  writer's module may say the same of what it writes: `WRITTEN: Coverage`.

Readers are asked in this order, those whose suffix fits the file's name first: special dialects stand before general ones.
A small file of each format lies in `tests/golden/formats/<name>/`; the damage tests cut and corrupt every file there.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

from warpsight.errors import UsageError
from warpsight.formats.selection import Selection

if TYPE_CHECKING:
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target
    from warpsight.trace import Trace


@dataclass(frozen=True)
class Coverage:
    """What a reader makes of its format, as sentences for the reference page."""

    kept: Sequence[str]
    lost: Sequence[str]
    #: "version: file and where it comes from"
    tested: Sequence[str]


@dataclass(frozen=True)
class Options:
    """What the user said beside the file: `--option KEY=VALUE`, only keys that the reader lists."""

    values: Mapping[str, str] = field(default_factory=dict)

    def get(self, key: str) -> str | None:
        """The value of an option, None when it was not given."""
        return self.values.get(key)


@dataclass(frozen=True)
class Reader:
    """A format that can be read. `options` names the keys of `--option` with their meaning."""

    summary: str
    module: str
    suffixes: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    def _loaded(self) -> Any:
        return importlib.import_module(self.module)

    def sniff(self, source: Source) -> bool:
        """Whether the source looks like this format."""
        return bool(self._loaded().sniff(source))

    def read(self, source: Source, target: Target, options: Options) -> None:
        """Read the source into a trace."""
        self._loaded().read(source, target, options)

    def coverage(self) -> Coverage:
        """What is kept, lost and tested."""
        found: Coverage = self._loaded().COVERAGE
        return found


@dataclass(frozen=True)
class Exporter:
    """A format; `module` has `write(trace, file, selection)` that returns counts of what it wrote.

    It may have `parts(trace, selection)` too, when one file cannot hold everything.
    """

    summary: str
    suffix: str
    module: str

    def write(self, trace: Trace, file: IO[bytes], selection: Selection) -> dict[str, int]:
        """Write the selected part of a trace."""
        function: Callable[[Trace, IO[bytes], Selection], dict[str, int]] = importlib.import_module(
            self.module
        ).write
        return function(trace, file, selection)

    def parts(self, trace: Trace, selection: Selection) -> dict[str, Selection]:
        """What goes into which file, by name without suffix, when one file cannot hold the selection; else empty."""
        function: Callable[[Trace, Selection], dict[str, Selection]] | None = getattr(
            importlib.import_module(self.module), "parts", None
        )
        return {} if function is None else function(trace, selection)


READERS: dict[str, Reader] = {
    "unitrace": Reader("Intel unitrace and onetrace: Chrome JSON", "warpsight.formats.unitrace"),
    "msprof": Reader(
        "Ascend msprof and torch_npu: JSON, CSV and databases",
        "warpsight.formats.msprof",
        ("trace_view.json", "kernel_details.csv"),
    ),
    "mctracer": Reader("MetaX mcTracer: Chrome JSON", "warpsight.formats.mctracer"),
    "rocprof": Reader(
        "rocprofv3 JSON, CSV and rocpd; rpd_tracer; rocprof and rocprofv2 CSV",
        "warpsight.formats.rocprof",
        ("_results.json", "_results.db", "_trace.csv"),
    ),
    "xplane": Reader(
        "JAX, XLA and TensorFlow profiles: xplane.pb", "warpsight.formats.xplane", (".xplane.pb",)
    ),
    "instruments": Reader(
        "Apple Instruments: XML of xctrace export; .trace through xctrace",
        "warpsight.formats.instruments",
        (".xml", ".trace"),
    ),
    "nsys": Reader(
        "Nsight Systems: SQLite, Parquet and Arrow exports; .nsys-rep through nsys",
        "warpsight.formats.nsys",
        (".sqlite", ".nsys-rep", ".qdrep"),
    ),
    "cupti-listing": Reader("Text listings of CUPTI's samples", "warpsight.formats.cupti_listing"),
    "kineto": Reader(
        "torch.profiler's JSON (Kineto)", "warpsight.formats.kineto.reader", (".pt.trace.json",)
    ),
    "extended-folded": Reader("Timed folded stacks of uprobe profilers", "warpsight.formats.extended_folded"),
    "perf-script": Reader(
        "perf script's text: probes and samples with stacks", "warpsight.formats.perf_script"
    ),
    "bpftrace": Reader("bpftrace's output: stacks with times, or maps of them", "warpsight.formats.bpftrace"),
    "speedscope": Reader("speedscope's JSON", "warpsight.formats.speedscope.reader", (".speedscope.json",)),
    "folded": Reader(
        "Folded stacks: frames and a weight per line", "warpsight.formats.folded", (".folded", ".collapsed")
    ),
    "cutracer": Reader(
        "CUTracer's instruction traces and kernel events: NDJSON, CLP archives of it",
        "warpsight.formats.cutracer.reader",
        (".ndjson", ".clp"),
    ),
    "tracy-csv": Reader("tracy-csvexport's CSV", "warpsight.formats.tracy.csvexport", (".csv",)),
    "tracy": Reader(
        "Tracy captures: recognised, and refused with what to do",
        "warpsight.formats.tracy.capture",
        (".tracy",),
    ),
    "tracesmith-bpf": Reader("TraceSmith's BPF event records", "warpsight.formats.tracesmith_bpf"),
    "xray": Reader(
        "LLVM XRay logs, basic and FDR",
        "warpsight.formats.xray.reader",
        options={"map": "the instrumented program, or llvm-xray extract's YAML, for names"},
    ),
    "sbt": Reader("SBT 0.1, TraceSmith's binary trace", "warpsight.formats.sbt.reader", (".sbt",)),
    "perfetto": Reader(
        "Perfetto's protobuf", "warpsight.formats.perfetto.reader", (".pftrace", ".perfetto-trace")
    ),
    # Last among JSON: nearly every tool's file is one of these too.
    "chrome": Reader("Chrome's trace events, any dialect", "warpsight.formats.chrome.reader"),
}

EXPORTERS: dict[str, Exporter] = {
    "perfetto": Exporter(
        "Perfetto's protobuf, for ui.perfetto.dev", ".pftrace", "warpsight.formats.perfetto.writer"
    ),
    "chrome": Exporter(
        "Chrome's JSON, for chrome://tracing and others", ".json", "warpsight.formats.chrome.writer"
    ),
    "folded": Exporter("Folded stacks with ns: host stack and kernel", ".folded", "warpsight.formats.folded"),
    "speedscope": Exporter("speedscope's JSON", ".speedscope.json", "warpsight.formats.speedscope.writer"),
    "kineto": Exporter(
        "torch.profiler's JSON, for HTA and others", ".pt.trace.json", "warpsight.formats.kineto.writer"
    ),
    "pprof": Exporter("pprof's profile: GPU time by host stack", ".pb.gz", "warpsight.formats.pprof"),
    "otlp": Exporter("OpenTelemetry profiles (v1development)", ".otlp.pb", "warpsight.formats.otlp"),
    "chakra": Exporter("Chakra execution trace of one process", ".et", "warpsight.formats.chakra"),
    "parquet": Exporter("All tables, Parquet in a zip", ".parquet.zip", "warpsight.formats.tabular.parquet"),
    "arrow": Exporter("All tables, Arrow IPC in a zip", ".arrow.zip", "warpsight.formats.tabular.arrow"),
    "csv": Exporter("All tables, CSV in a zip", ".csv.zip", "warpsight.formats.tabular.csv"),
    "jsonl": Exporter("All tables, JSON lines in a zip", ".jsonl.zip", "warpsight.formats.tabular.jsonl"),
    "sbt": Exporter("SBT 0.1, which TraceSmith reads", ".sbt", "warpsight.formats.sbt.writer"),
    "cutracer": Exporter(
        "CUTracer's instruction trace: NDJSON of the instruction tables",
        ".ndjson",
        "warpsight.formats.cutracer.writer",
    ),
    "kernel-events": Exporter(
        "CUTracer's kernel events: an NDJSON line per launch, each host stack once",
        ".kernel-events.ndjson",
        "warpsight.formats.cutracer.kernel_events",
    ),
    "dot": Exporter(
        "The dependency graph for Graphviz, critical path in red", ".dot", "warpsight.analysis.dependency.dot"
    ),
}


def reader(name: str) -> Reader:
    """The reader of a format.

    Raises:
        UsageError: when there is none.
    """
    if name not in READERS:
        raise UsageError(f"there is no format {name!r} to read; formats: {', '.join(READERS)}")
    return READERS[name]


def exporter(name: str) -> Exporter:
    """The exporter of a format.

    Raises:
        UsageError: when there is none.
    """
    if name not in EXPORTERS:
        raise UsageError(f"there is no format {name!r}; formats: {', '.join(EXPORTERS)}")
    return EXPORTERS[name]


def sniff(source: Source) -> str | None:
    """The format of a source by its content, None when no reader knows it."""
    name = source.path.name.lower()
    for end in (".gz", ".zst", ".zstd"):
        name = name.removesuffix(end)
    likely = [form for form, r in READERS.items() if name.endswith(r.suffixes)]
    rest = [form for form in READERS if form not in likely]
    return next((form for form in (*likely, *rest) if READERS[form].sniff(source)), None)
