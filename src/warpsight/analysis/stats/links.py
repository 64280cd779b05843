"""How fast the paths between host and devices are: measured by `warpsight bench --links`, or from the device's facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warpsight.errors import WarpsightError
from warpsight.machine import links as measured

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

#: (source device or None for the host, destination) → bytes per second, and the source of that figure.
_Speeds = dict[tuple[int | None, int | None], tuple[float, str]]
#: Kinds of copies by which ends are a device.
_HOST_TO_DEVICE, _DEVICE_TO_HOST = ("HtoD", "HtoA"), ("DtoH", "AtoH")
_ON_DEVICE = ("DtoD", "DtoA", "AtoD", "AtoA")


def speeds(trace: StoredTrace) -> _Speeds:
    """The speed of every known path, with pinned memory on the host's side.

    A trace may carry measurements in its manifest (`links`); otherwise those stored on this machine count, if they are for the
    same devices (by UUID). A copy within a device reads and writes its memory, so without a measurement half the peak bandwidth
    of the memory is its limit.
    """
    devices = trace.sql("SELECT device, uuid, name, memory_bandwidth FROM device").fetchall()
    found: _Speeds = {(d, d): (b / 2, "half of the memory's peak") for d, _, _, b in devices if b}
    numbers: dict[str, int | None] = {"host": None}
    for device, uuid, name, _ in devices:
        numbers |= {str(uuid): device, str(name): device}
    for link in _links(trace):
        source, destination, rate = (link.get(key) for key in ("source", "destination", "bytes_per_second"))
        if (
            not isinstance(source, str)
            or not isinstance(destination, str)
            or not isinstance(rate, int | float)
        ):
            continue  # a manifest may hold anything
        known = source in numbers and destination in numbers and (source, destination) != ("host", "host")
        if known and rate > 0 and link.get("memory") != "pageable":
            found[numbers[source], numbers[destination]] = (float(rate), "measured")
    return found


def path(
    kind: str, device: int | None, source: int | None, destination: int | None
) -> tuple[int | None, int | None] | None:
    """The ends of a copy as :func:`speeds` names them; None when unknown."""
    if kind in _HOST_TO_DEVICE:
        return None, device
    if kind in _DEVICE_TO_HOST:
        return device, None
    if kind in _ON_DEVICE:
        return device, device
    if kind == "PtoP" and source is not None and destination is not None:
        return source, destination
    return None


def _links(trace: StoredTrace) -> list[dict[str, Any]]:
    stored = trace.manifest.get("links")
    if isinstance(stored, list):
        return [link for link in stored if isinstance(link, dict)]
    try:
        return [link.to_json() for link in measured.kept()]
    except (WarpsightError, TypeError, KeyError):
        return []
