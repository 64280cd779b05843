"""Flame graphs of the host: samples of its threads, each a row that weighs one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.errors import UsageError
from warpsight.model.selection import Rows

if TYPE_CHECKING:
    import pyarrow as pa

    from warpsight.model import StoredTrace

Column = NDArray[Any]
RUNNING, WAITING = "running", "waiting"
#: Letter of a thread's state → label of the leaf; a thread that holds the GIL is running or about to run.
_STATES = {"S": "waiting", "D": "waiting for a disk", "T": "stopped", "Z": "ended"}
#: SQL for the same.
_STATE = (
    f"CASE WHEN gil OR state = 'R' THEN '{RUNNING}' "
    + " ".join(f"WHEN state = '{letter}' THEN '{text}'" for letter, text in _STATES.items())
    + " ELSE 'state ' || state END"
)


def load(trace: StoredTrace, rows: Rows) -> pa.Table:
    """Samples in the columns of flame-graph leaves, with their state as `text`.

    Raises:
        UsageError: when devices or streams are selected, because host threads belong to none.
    """
    if rows.devices or rows.streams:
        raise UsageError("host samples have no device or stream: leave out --device and --stream")
    condition, parameters = rows.where(time="time"), {}
    if rows.name is not None:
        condition, parameters = f"{condition} AND regexp_matches({_STATE}, $pattern)", {"pattern": rows.name}
    sql = f"""SELECT {_STATE} AS text, 1::BIGINT AS weight, process, -1::SMALLINT AS device, -1 AS context, -1 AS stream,
        -1 AS correlation, coalesce(stack, 0) AS stack, time AS start, thread FROM sample WHERE {condition}"""
    return trace.sql(sql, **parameters).to_arrow_table()


def count(trace: StoredTrace) -> int:
    """The number of samples in a trace."""
    return int(trace.sql("SELECT count(*) FROM sample").fetchall()[0][0])


def threads(trace: StoredTrace, process: Column, thread: Column) -> tuple[Column, list[str]]:
    """The numbered thread of each row, and the names of the threads; thread 0 is unknown."""
    rows = np.stack([process, thread], axis=1).astype(np.int64)
    distinct, back = np.unique(rows, axis=0, return_inverse=True)
    names = {(p, t): name for p, t, name in trace.sql("SELECT process, thread, name FROM thread").fetchall()}
    pids = dict(trace.sql("SELECT process, pid FROM process").fetchall())
    several = len({p for p, _ in distinct.tolist()}) > 1
    texts = []
    for owner, number in distinct.tolist():
        text = (
            " ".join(filter(None, ("thread", str(number), names.get((owner, number)))))
            if number
            else "no thread"
        )
        texts.append(text + (f" of process {pids.get(owner, owner)}" if several else ""))
    return back.reshape(-1), texts
