"""A device's id in a trace: the number from its file or driver, unless another device has the same number."""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from warpsight.errors import UsageError

if TYPE_CHECKING:
    from warpsight.model.trace import StoredTrace

#: Ids that the columns of a trace can hold.
_IDS = range(1 << 15)
#: Tables whose rows refer to devices, other than table device.
_TABLES = ("kernel_ids", "memcpy", "memset", "sync", "event", "memory", "counter")


def new_id(own: object, taken: Container[int]) -> int:
    """The id of a new device: its own number if that is free, otherwise the next free one (from 0 without a number).

    Raises:
        UsageError: when all ids are taken.
    """
    first = int(own) if isinstance(own, int) and own in _IDS else 0
    for number in chain(range(first, len(_IDS)), range(first)):
        if number not in taken:
            return number
    raise UsageError(f"more than {len(_IDS):,} devices")


def check(trace: StoredTrace, chosen: Sequence[int]) -> None:
    """Refuse devices that are not in a trace.

    Raises:
        UsageError: for unknown devices; the message lists the trace's devices.
    """
    if not chosen:
        return
    known: dict[int, str] = dict(trace.sql("SELECT device, name FROM device").fetchall())
    if not set(chosen) <= known.keys():
        used = " UNION ".join(f"SELECT device FROM {table} WHERE device IS NOT NULL" for table in _TABLES)
        known = dict.fromkeys((number for (number,) in trace.sql(used).fetchall()), "") | known
    missing = [number for number in chosen if number not in known]
    if missing:
        listed = ", ".join(
            f"{number} ({known[number]})" if known[number] else str(number) for number in sorted(known)
        )
        raise UsageError(f"there is no device {missing[0]}; the trace has {listed or 'none'}")
