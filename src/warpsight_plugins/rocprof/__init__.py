"""AMD's recorders: rocprofv3 (JSON, CSV, rocpd SQLite), rpd_tracer (RPD SQLite) and rocprof (JSON, CSV), rocprofv2 (CSV).

JSON follows rocprofiler-sdk's `cxx/serialization.hpp`, CSV its `generateCSV.cpp` and the documents of rocprof and rocprofv2, and
rocpd `rocprofiler-sdk-rocpd/rocpd_tables.sql` 3.0 to 4.1 (times inline, or in a separate table). rocprofv3's PFTrace is a
Perfetto trace: the Perfetto reader reads it and knows its categories.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from warpsight.formats.registry import Coverage

if TYPE_CHECKING:
    from pathlib import Path

    from warpsight.formats.registry import Options
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target

_SQLITE = b"SQLite format 3\0"
_ENDINGS = ("_results.db", "_results.json", "_trace.csv", "_counter_collection.csv")


def sniff(source: Source) -> bool:
    """rocprofv3's or rocprof's JSON, a rocpd database, a CSV with rocprof's columns, or a folder with such files."""
    if source.is_directory:
        return any(True for _ in _members(source.path))
    head = source.head
    if head.startswith(_SQLITE):
        return b"rocpd_" in head
    if head.lstrip()[:1] == b"{":
        return b'"rocprofiler-sdk-tool"' in head[:4096] or _is_tracing(head)
    from warpsight_plugins.rocprof.csv_form import is_trace

    return is_trace(head)


def read(source: Source, target: Target, options: Options) -> None:
    """Read one file, or the files of one run's folder.

    Raises:
        FormatError: for a file that has none of these forms or is damaged.
    """
    del options
    if source.is_directory:
        for member in source.members(_members(source.path)):
            _read_file(member, target)
        return
    _read_file(source, target)


def _read_file(source: Source, target: Target) -> None:
    if source.head.startswith(_SQLITE):
        from warpsight_plugins.rocprof.rocpd_form import read_database

        read_database(source, target)
    elif source.head.lstrip()[:1] == b"{":
        from warpsight_plugins.rocprof.chrome_form import read_tracing
        from warpsight_plugins.rocprof.json_form import read_document

        (read_tracing if _is_tracing(source.head) else read_document)(source, target)
    else:
        from warpsight_plugins.rocprof.csv_form import read_table

        read_table(source, target)


def _members(folder: Path) -> Iterator[Path]:
    """Files of a run, the fullest form of each process only: the same run may have been written in all three."""
    chosen: dict[str, tuple[int, list[Path]]] = {}
    for path in sorted(p for end in _ENDINGS for p in folder.rglob(f"*{end}")):
        rank = next(number for number, end in enumerate(_ENDINGS) if path.name.endswith(end))
        rank = min(rank, 2)
        run = str(path.parent / path.name.split("_", 1)[0])
        best, files = chosen.get(run, (rank, []))
        if rank < best:
            chosen[run] = (rank, [path])
        elif rank == best:
            chosen[run] = (rank, [*files, path])
    for _, files in chosen.values():
        yield from files


COVERAGE = Coverage(
    kept=(
        "kernels with shape and resources, copies, allocations; HIP, HSA, RCCL and library calls; ROCTx "
        "ranges",
        "counters of a dispatch, at its start; GPUs, command",
    ),
    lost=(
        "the hardware queue of records that have a stream; arguments of calls, PC samples, thread traces, "
        "code objects",
        "RPD: call stack tables; CSV: sizes of copies; rocprof and rocprofv2: shapes beyond one dimension",
        "databases of the first rocprof (tables HIP, OPS, COPY) are not read",
    ),
    tested=(
        "real files of rocprofv3 (ROCm 7), rocprof, rpd_tracer and rocpd schema 3; CSV tables from ROCm's "
        "documentation; rocpd 3.0.3 and 4.1 written after their schemas",
    ),
)


def _is_tracing(head: bytes) -> bool:
    """Whether a JSON begins as that of the first rocprof does."""
    return b'"traceEvents"' in head and b'"BeginNs"' in head and b'"sort_index"' in head
