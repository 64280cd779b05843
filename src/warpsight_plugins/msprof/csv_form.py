"""CSV: op_summary, kernel_details and task_time; times in microseconds with decimals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsight.formats.reading import csv_columns
from warpsight_plugins.msprof.recording import MsprofRecording

if TYPE_CHECKING:
    from warpsight.formats.reading.csv_columns import Columns
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target

_START = ("taskstarttime(us)", "starttime(us)", "taskstart(us)")
_LENGTH = ("taskduration(us)", "duration(us)", "tasktime(us)")
_NAME = ("opname", "name", "kernelname")
_KIND = ("tasktype", "acceleratorcore", "kerneltype")


def is_trace(head: bytes) -> bool:
    """Whether a file begins with the columns of one of the tables."""
    first = head.split(b"\n", 1)[0]
    if b"," not in first or b"\0" in first:
        return False
    there = set(csv_columns.header(head))
    return all(there.intersection(spellings) for spellings in (_START, _LENGTH, _NAME, _KIND))


def read_table(source: Source, target: Target) -> None:
    """Read one file.

    Raises:
        FormatError: when its columns belong to none of the tables, or a value is not a number.
    """
    if not is_trace(source.head):
        raise source.error("does not have the columns of op_summary, kernel_details or task_time")
    recording = MsprofRecording(target)
    process = target.process(f"{source.path.parent}/host", command="")
    for rows in csv_columns.read(source):
        _tasks(rows, recording, process)
    recording.rows.close()
    target.source.update(tool="msprof", clock="ns since 1970")


def _tasks(rows: Columns, recording: MsprofRecording, process: int) -> None:
    start, length = rows.nanoseconds(*_START), rows.nanoseconds(*_LENGTH)
    devices, streams = rows.numbers("deviceid", fill=0), rows.numbers("streamid", fill=0)
    tasks, blocks = rows.numbers("taskid", fill=0), rows.numbers("blockdim", "blocknum", fill=0)
    names, kinds = rows.texts(*_NAME), rows.texts(*_KIND)
    for i in range(len(rows)):
        place = recording.place(process, recording.device(int(devices[i])), int(streams[i]))
        row = {"start": int(start[i]), "duration": int(length[i]), **place}
        recording.task(kinds[i], names[i], row, blocks=int(blocks[i]), task=int(tasks[i]))
