"""Ascend's msprof and torch_npu: timelines, summaries and databases.

`trace_view.json`, `msprof_*.json` and CANN 6's `task_time_*.json`; `op_summary`, `kernel_details` and `task_time` CSV;
`msprof_*.db` and `ascend_pytorch_profiler_*.db`. Columns and fields follow Huawei's CANN documents.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from warpsight.formats.registry import Coverage

if TYPE_CHECKING:
    from warpsight.formats.registry import Options
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target

_SQLITE = b"SQLite format 3\0"
_TEXT_TIME = re.compile(rb'"ts": ?"\d{10,}\.\d+"')
_TORCH = re.compile(rb'"cat": ?"(cpu_op|enqueue|dequeue|python_function|user_annotation)"')
_TABLES = (b"STRING_IDS", b"CANN_API", b"TASK")
#: Files of a result folder, the fullest first.
_PATTERNS = (
    "msprof_*.db", "ascend_pytorch_profiler*.db", "trace_view.json", "msprof_*.json", "kernel_details.csv",
    "op_summary_*.csv", "task_time_*.csv",
)  # fmt: skip


def sniff(source: Source) -> bool:
    """A database or JSON with Ascend's names, a CSV with its columns, or a result folder (`PROF_…`, `…_ascend_pt`)."""
    if source.is_directory:
        return bool(_files(source.path))
    head = source.head
    if head.startswith(_SQLITE):
        return sum(name in head for name in _TABLES) >= 2
    if head.lstrip()[:1] in (b"[", b"{"):
        return (
            any(mark in head for mark in (b"Ascend Hardware", b'"CANN"', b"Physic Stream Id", b'"notify_id"'))
            or (
                # CANN 6 writes the tasks of the scheduler alone (task_time_*.json).
                b'"Task Scheduler"' in head and b'"Task Type"' in head
            )
            or (
                # torch_npu lists operators first and names itself after them; no other tool writes those times as strings.
                head.lstrip()[:1] == b"["
                and _TEXT_TIME.search(head) is not None
                and _TORCH.search(head) is not None
            )
        )
    from warpsight_plugins.msprof.csv_form import is_trace

    return is_trace(head)


def read(source: Source, target: Target, options: Options) -> None:
    """Read one file, or the fullest file of every device's result in a folder.

    Raises:
        FormatError: for a file that has none of these forms or is damaged.
    """
    del options
    if not source.is_directory:
        _read_file(source, target)
        return
    for member in source.members(_files(source.path)):
        _read_file(member, target)


def _read_file(source: Source, target: Target) -> None:
    if source.head.startswith(_SQLITE):
        from warpsight_plugins.msprof.database import read_database

        read_database(source, target)
    elif source.head.lstrip()[:1] in (b"[", b"{"):
        from warpsight_plugins.msprof.timeline import read_timeline

        read_timeline(source, target)
    else:
        from warpsight_plugins.msprof.csv_form import read_table

        read_table(source, target)


def _files(folder: Path) -> list[Path]:
    """The files to read: for each result, those of the first pattern that matches."""
    found: dict[Path, tuple[int, list[Path]]] = {}
    for rank, pattern in enumerate(_PATTERNS):
        for path in sorted(folder.rglob(pattern)):
            result = next(filter(_is_result, path.parents), path.parent)
            best, files = found.setdefault(result, (rank, []))
            if best == rank:
                files.append(path)
    return [path for _, files in found.values() for path in files]


def _is_result(folder: Path) -> bool:
    """Whether a folder holds what one process or card left."""
    return folder.name.startswith("PROF_") or folder.name.endswith("_ascend_pt")


COVERAGE = Coverage(
    kept=(
        "tasks as kernels with block count; copies; event waits and records; CANN calls; torch_npu operators;"
        " mstx ranges",
        "collectives (not in CSV), iterations; AI Core frequency; devices, ranks",
    ),
    lost=(
        "sizes of copies and threads where JSON or CSV lack them",
        "overlap analysis, PMU columns and other counters, named in a note",
    ),
    tested=(
        "real torch_npu files from Ascend-mstt's tests; CANN 8 forms and databases written after the "
        "documentation",
    ),
)
