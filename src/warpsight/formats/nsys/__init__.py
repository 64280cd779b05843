"""Nsight Systems: SQLite exports, folders of Parquet or Arrow files, and `.nsys-rep` through an installed `nsys`.

Written after NVIDIA's export schema (Nsight Systems documentation, "SQLite Schema Reference"). Tables and columns are looked
up in each file: schemas of 2022 to 2026 differ in both. What no table of a trace can hold is named in the trace's notes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsight.formats.reading.databases import SQLITE_MAGIC, Folder, Sqlite
from warpsight.formats.registry import Coverage

if TYPE_CHECKING:
    from warpsight.formats.registry import Options
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target

#: A table that is in every export, whatever was traced.
_ALWAYS = "META_DATA_EXPORT"
_TYPICAL = (_ALWAYS, "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS", "StringIds")


def sniff(source: Source) -> bool:
    """A SQLite file or a folder with Nsight's tables, or a report."""
    if source.is_directory:
        return any((source.path / f"{name}{end}").is_file() for name in _TYPICAL for end in Folder.SUFFIXES)
    if source.path.suffix in (".nsys-rep", ".qdrep"):
        return True
    # Table names stand in the first pages as the text of their CREATE statements.
    return source.head.startswith(SQLITE_MAGIC) and (
        any(name.encode() in source.head for name in (*_TYPICAL[:-1], "TARGET_INFO_SYSTEM_ENV"))
        or _has_tables(source)
    )


def _has_tables(source: Source) -> bool:
    from warpsight.formats.errors import FormatError

    try:
        with Sqlite(source) as tables:
            found = set(tables.names())
    except FormatError:
        return False
    return "StringIds" in found and any(name in found for name in _TYPICAL[:-1])


def read(source: Source, target: Target, options: Options) -> None:
    """Read an export, or a report through `nsys export`.

    Raises:
        FormatError: for a file that is neither, is damaged, or needs an `nsys` that is not installed.
    """
    from warpsight.formats.nsys.export import exported
    from warpsight.formats.nsys.tables import read_tables

    del options
    if source.is_directory:
        read_tables(Folder(source), source, target)
        return
    if source.head.startswith(SQLITE_MAGIC):
        with Sqlite(source) as tables:
            read_tables(tables, source, target)
        return
    with exported(source) as export, Sqlite(export) as tables:
        read_tables(tables, source, target)


COVERAGE = Coverage(
    kept=(
        "kernels with shape, graph and mangled name; copies, fills, waits, events, whole-graph launches",
        "runtime and driver calls (launches apart), cuBLAS, cuDNN and OS library calls, with call chains as stacks",
        "graphs and graph nodes; a launch during which a node was made is marked as captured",
        "NVTX ranges and marks with domain, category, colour, payload and depth; torch's operator ranges as operators",
        "structured payloads as attributes; NCCL's collectives with size, ranks and communicator, joined to their kernel",
        "MPI and UCX calls as ranges with their ranks, tags and sizes",
        "allocations and pools, page faults and migrations of managed memory",
        "GPU metrics, network adapters and switches as counters; CPU samples with stacks",
        "GPUs, thread and process names, host, MPI ranks, wall clock, diagnostics as notes",
    ),
    lost=(
        "graphics (OpenGL, Vulkan, DirectX), scheduler events, ETW and generic events: the tables are named in a note",
        "whether a copy was asynchronous is known only where its API call was recorded",
        "texts that are not UTF-8: their bytes are replaced",
        "payload fields that lie outside of the payload (strings, nested schemas)",
        "the graph of a node is known only where a kernel of the same node ran",
    ),
    tested=(
        "real exports with kernels: schema 2.9.1, 3.1.2, 3.25; with CPU samples and OS calls only: 3.16.1, 3.24.7",
        "schema of 2022 and every other table: a file written by the schema in the documentation",
        ".nsys-rep: a scripted stand-in for nsys",
    ),
)
