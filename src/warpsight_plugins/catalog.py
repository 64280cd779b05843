"""The formats of this package: one line here and one folder each.

The core finds this table through the entry point `warpsight.formats`, as it finds any other package's.
"""

from __future__ import annotations

from warpsight.formats.registry import Exporter, Reader

READERS: dict[str, Reader] = {
    "unitrace": Reader("Intel unitrace and onetrace: Chrome JSON", "warpsight_plugins.unitrace"),
    "msprof": Reader(
        "Ascend msprof and torch_npu: JSON, CSV and databases",
        "warpsight_plugins.msprof",
        ("trace_view.json", "kernel_details.csv"),
    ),
    "mctracer": Reader("MetaX mcTracer: Chrome JSON", "warpsight_plugins.mctracer"),
    "rocprof": Reader(
        "rocprofv3 JSON, CSV and rocpd; rpd_tracer; rocprof and rocprofv2 CSV",
        "warpsight_plugins.rocprof",
        ("_results.json", "_results.db", "_trace.csv"),
    ),
    "xplane": Reader(
        "JAX, XLA and TensorFlow profiles: xplane.pb", "warpsight_plugins.xplane", (".xplane.pb",), json=False
    ),
    "instruments": Reader(
        "Apple Instruments: XML of xctrace export; .trace through xctrace",
        "warpsight_plugins.instruments",
        (".xml", ".trace"),
        json=False,
    ),
    "cupti-listing": Reader(
        "Text listings of CUPTI's samples", "warpsight_plugins.cupti_listing", json=False
    ),
    "perf-script": Reader(
        "perf script's text: probes and samples with stacks", "warpsight_plugins.perf_script", json=False
    ),
    "bpftrace": Reader(
        "bpftrace's output: stacks with times, or maps of them", "warpsight_plugins.bpf.bpftrace", json=False
    ),
    "speedscope": Reader("speedscope's JSON", "warpsight_plugins.speedscope.reader", (".speedscope.json",)),
    "cutracer": Reader(
        "CUTracer's instruction traces and kernel events: NDJSON, CLP archives of it",
        "warpsight_plugins.cutracer.reader",
        (".ndjson", ".clp"),
    ),
    "tracy-csv": Reader("tracy-csvexport's CSV", "warpsight_plugins.tracy.csvexport", (".csv",), json=False),
    "tracy": Reader(
        "Tracy captures: recognised, and refused with what to do",
        "warpsight_plugins.tracy.capture",
        (".tracy",),
        json=False,
    ),
    "tracesmith-bpf": Reader(
        "TraceSmith's BPF event records", "warpsight_plugins.bpf.tracesmith", json=False
    ),
    "xray": Reader(
        "LLVM XRay logs, basic and FDR",
        "warpsight_plugins.xray.reader",
        options={"map": "the instrumented program, or llvm-xray extract's YAML, for names"},
        json=False,
    ),
    "sbt": Reader(
        "SBT 0.1, TraceSmith's binary trace", "warpsight_plugins.sbt.reader", (".sbt",), json=False
    ),
}

EXPORTERS: dict[str, Exporter] = {
    "speedscope": Exporter("speedscope's JSON", ".speedscope.json", "warpsight_plugins.speedscope.writer"),
    "pprof": Exporter("pprof's profile: GPU time by host stack", ".pb.gz", "warpsight_plugins.pprof"),
    "otlp": Exporter("OpenTelemetry profiles (v1development)", ".otlp.pb", "warpsight_plugins.otlp"),
    "chakra": Exporter("Chakra execution trace of one process", ".et", "warpsight_plugins.chakra"),
    "sbt": Exporter("SBT 0.1, which TraceSmith reads", ".sbt", "warpsight_plugins.sbt.writer"),
    "cutracer": Exporter(
        "CUTracer's instruction trace: NDJSON of the instruction tables",
        ".ndjson",
        "warpsight_plugins.cutracer.writer",
    ),
    "kernel-events": Exporter(
        "CUTracer's kernel events: an NDJSON line per launch, each host stack once",
        ".kernel-events.ndjson",
        "warpsight_plugins.cutracer.kernel_events",
    ),
    "dot": Exporter(
        "The dependency graph for Graphviz, critical path in red", ".dot", "warpsight.analysis.path.dot"
    ),
}
