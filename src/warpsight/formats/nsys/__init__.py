"""Nsight Systems: SQLite exports, folders of Parquet or Arrow files, and `.nsys-rep` through an installed `nsys`.

Written after NVIDIA's export schema (Nsight Systems documentation, "SQLite Schema Reference"). Tables and columns are looked
up in each file: schemas of 2022 to 2026 differ in both. The trace's notes list data that no table of a trace can hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsight.formats.reading import content
from warpsight.formats.reading.databases import SQLITE_MAGIC, Folder, Sqlite
from warpsight.formats.registry import Coverage

if TYPE_CHECKING:
    from warpsight.formats.registry import Options
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target

#: A table that every export has, whatever was traced.
_ALWAYS = "META_DATA_EXPORT"
_TYPICAL = (_ALWAYS, "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS", "StringIds")


def sniff(source: Source) -> bool:
    """Recognize a SQLite file or a folder with Nsight's tables, or a report."""
    if source.is_directory:
        return any((source.path / f"{name}{end}").is_file() for name in _TYPICAL for end in Folder.SUFFIXES)
    if source.path.suffix in (".nsys-rep", ".qdrep"):
        return True
    # The first pages contain table names in the text of their CREATE statements.
    return (
        source.head.startswith(SQLITE_MAGIC)
        and not content.of_nvprof(source.head)
        and (
            any(name.encode() in source.head for name in (*_TYPICAL[:-1], "TARGET_INFO_SYSTEM_ENV"))
            or _has_tables(source)
        )
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
        FormatError: for a file that is neither, that is damaged, or that needs `nsys` if it is not installed.
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
        "kernels, copies, fills, waits, events, graphs; CUDA, cuBLAS, cuDNN and OS calls with stacks",
        "NVTX ranges; torch's operators; NCCL collectives; MPI and UCX calls as ranges",
        "allocations, pools, page faults, migrations; GPU and network counters; CPU samples; diagnostics as "
        "notes",
    ),
    lost=(
        "graphics, scheduler, ETW and generic events: tables named in a note",
        "whether a copy was asynchronous, without its call; payload fields stored elsewhere; the graph of a "
        "node that ran no kernel; invalid UTF-8",
    ),
    tested=(
        "real exports of schema 2.9.1, 3.1.2, 3.16.1, 3.24.7 and 3.25; every other table written after the "
        "documentation; .nsys-rep through a stand-in for nsys",
    ),
)
