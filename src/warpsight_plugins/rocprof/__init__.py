"""AMD's recorders: rocprofv3 (JSON, CSV, rocpd SQLite), rpd_tracer (RPD SQLite) and rocprof (JSON, CSV), rocprofv2 (CSV).

JSON after rocprofiler-sdk's `cxx/serialization.hpp`, CSV after its `generateCSV.cpp` and the documents of rocprof and rocprofv2,
rocpd after `rocprofiler-sdk-rocpd/rocpd_tables.sql` 3.0 to 4.1 (times inline, or in a table of their own). rocprofv3's PFTrace is
a Perfetto trace: the reader of that format takes it, and knows its categories.
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
        from warpsight_plugins.rocprof.chrome_form import is_tracing

        return b'"rocprofiler-sdk-tool"' in head[:4096] or is_tracing(head)
    from warpsight_plugins.rocprof.csv_form import is_trace

    return is_trace(head)


def read(source: Source, target: Target, options: Options) -> None:
    """Read one file, or the files of one run's folder.

    Raises:
        FormatError: for a file that is none of the forms, or is damaged.
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
        from warpsight_plugins.rocprof.chrome_form import is_tracing, read_tracing
        from warpsight_plugins.rocprof.json_form import read_document

        (read_tracing if is_tracing(source.head) else read_document)(source, target)
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
        "kernels with grid in blocks, workgroup, registers (VGPR and accumulation VGPR), LDS, scratch, agent and stream",
        "copies with direction and size; allocations and scratch; HIP, HSA, RCCL, ROCTx and library calls (launches apart)",
        "ROCTx ranges and marks as ranges; correlation ids; counters of a dispatch at its start",
        "GPUs with name, units, memory, clock and PCI address; host, command, pid",
    ),
    lost=(
        "the hardware queue where the record also has a stream",
        "RPD: autograd and call stack tables; which process work of no call belonged to",
        "databases of the first rocprof (tables HIP, OPS, COPY): not read; its JSON tells no sizes of copies and no shapes",
        "arguments of calls, PC samples, thread traces, code objects",
        "CSV: sizes of copies are 0 (the file has none); rocprof and rocprofv2: shapes have one dimension",
    ),
    tested=(
        "recordings of rocprofv3 JSON (ROCm 7, MI350X), rocprof JSON, a rocpd database of schema 3, three of rpd_tracer",
        "rocprofv3 CSV: 17 tables of ROCm's documents, and others quoted in public",
        "rocprofv2 and rocprof CSV; rocpd 3.0.3 and 4.1: files written by their schemas",
    ),
)
