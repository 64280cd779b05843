"""Where each table of an export goes, and which notes the others get."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warpsight.formats.nsys import api_calls, counters, device_work, memory, nvtx
from warpsight.formats.nsys.report import INT, TEXT, Report

if TYPE_CHECKING:
    from warpsight.formats.reading.databases import Tables
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target

#: Variables of the recorded program that are kept: the same ones `warpsight record` keeps.
_ENVIRONMENT = (
    "CUDA_", "NCCL_", "TORCH_", "OMP_", "NVIDIA_VISIBLE_DEVICES", "PYTORCH_", "RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_",
)  # fmt: skip
#: Name and value of what made the export: now, and until schema 3.1 (2023.1).
_EXPORT = ("META_DATA_EXPORT", "EXPORT_META_DATA")
#: Tables that describe the report itself.
_ABOUT = (
    *_EXPORT, "META_DATA_CAPTURE", "ANALYSIS_DETAILS", "TARGET_INFO_SESSION_START_TIME", "DIAGNOSTIC_EVENT",
    "StringIds", "TARGET_INFO_SYSTEM_ENV", "TARGET_INFO_GPU", "TARGET_INFO_CUDA_DEVICE", "TARGET_INFO_CUDA_STREAM",
    "TARGET_INFO_CUDA_CONTEXT_INFO", "PROCESSES", "ThreadNames", "MPI_RANKS", "ANALYSIS_FILE", "ProcessStreams",
)  # fmt: skip


def read_tables(tables: Tables, source: Source, target: Target) -> None:
    """Read an open export.

    Raises:
        FormatError: when it has no table of an export or is damaged.
    """
    if not any(tables.columns(name) for name in (*_EXPORT, "StringIds")):
        raise source.error(
            "has neither META_DATA_EXPORT nor StringIds, which every export of Nsight Systems has"
        )
    report = Report(tables, target)
    calls = api_calls.AsynchronousCalls(report)
    device_work.read_kernels(report)
    device_work.read_graph_launches(report)
    device_work.read_copies(report, calls)
    device_work.read_fills(report, calls)
    device_work.read_waits(report, api_calls.WaitingCalls(report))
    device_work.read_events(report)
    device_work.read_graphs(report)
    api_calls.read_cuda_calls(report)
    api_calls.read_library_calls(report)
    api_calls.read_overhead(report)
    nvtx.read_ranges(report)
    nvtx.read_mpi(report)
    memory.read_allocations(report)
    memory.read_page_faults(report)
    counters.read_gpu_metrics(report)
    counters.read_network(report)
    counters.read_samples(report)
    _describe(report)
    _add_notes(report)


def _pairs(report: Report, table: str) -> list[tuple[str, str]]:
    rows = report.rows(table, {"name": TEXT, "value": TEXT}).data.to_pylist()
    return [(row["name"] or "", row["value"] or "") for row in rows]


def _describe(report: Report) -> None:
    """Put version, clock, command and collection into the manifest, and the pair of clock readings into table clock."""
    export = dict(pair for table in _EXPORT for pair in _pairs(report, table))
    capture = _pairs(report, "META_DATA_CAPTURE")
    settings = dict(capture)
    command = [settings[k] for k in ("PROCESS_0:COMMAND",) if settings.get(k)]
    command += [value for name, value in capture if name.startswith("PROCESS_0:ARGUMENT_")]
    details = report.rows(
        "ANALYSIS_DETAILS", {"duration": INT, "startTime": INT, "stopTime": INT}
    ).data.to_pylist()
    source: dict[str, Any] = {
        "tool": export.get("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems"),
        "version": export.get("EXPORT_PRODUCT_VERSION"),
        "schema": export.get("EXPORT_SCHEMA_VERSION"),
        "clock": "ns since the session began",
        "command": command,
        "environment": _environment(capture),
        "collection_ns": details[0]["duration"] if details else None,
        "cuda_graphs": settings.get("CUDA_GRAPH_TRACE_OPTIONS:MODE"),
    }
    if export.get("EXPORT_PARAM_TIME_NORMALIZE") == "true":
        source["clock"] = "ns since 1970 (UTC)"
    report.target.source.update((key, value) for key, value in source.items() if value)
    _clock(report, export)


def _environment(capture: list[tuple[str, str]]) -> dict[str, str]:
    variables = [value for name, value in capture if name == "PROCESS_0:ENVIRONMENT_VARIABLE"]
    split = (text.partition("=") for text in variables if text.startswith(_ENVIRONMENT))
    return {name: value.strip('"') for name, _, value in split}


def _clock(report: Report, export: dict[str, str]) -> None:
    """Times count from the session's start unless the export was shifted or converted to UTC; that moment is known in UTC."""
    rows = report.rows("TARGET_INFO_SESSION_START_TIME", {"utcEpochNs": INT}).data.to_pylist()
    epoch = rows[0]["utcEpochNs"] if rows else None
    if epoch is None:
        return
    shift = export.get("EXPORT_CONFIG_TIME_SHIFT") or export.get("EXPORT_PARAM_TIME_SHIFT") or "0"
    begin = int(shift) if shift.lstrip("-").isdigit() else 0
    if export.get("EXPORT_PARAM_TIME_NORMALIZE") == "true":
        begin = epoch
    report.target.add("clock", [{"monotonic": begin, "realtime": epoch}])


def _add_notes(report: Report) -> None:
    """Nsight's own diagnostics as notes, and the tables that were not read."""
    report.read.update(_ABOUT)
    columns = {"timestamp": INT, "severity": INT, "text": TEXT, "globalPid": INT}
    for row in report.rows("DIAGNOSTIC_EVENT", columns).data.to_pylist():
        if (row["severity"] or 0) in (2, 3):  # ENUM_DIAGNOSTIC_SEVERITY_LEVEL: warning, error
            report.target.note(f"Nsight Systems: {(row['text'] or '').strip()}")
    rest = {
        table: report.tables.count(table)
        for table in report.tables.names()
        if table not in report.read
        and not table.startswith(("ENUM_", "TARGET_INFO_", "META_DATA_", "sqlite_", "NVTX_PAYLOAD_"))
    }
    if named := [f"{table} ({count:,} rows)" for table, count in sorted(rest.items()) if count]:
        report.target.note(f"tables of the report that were not imported: {', '.join(named)}")
