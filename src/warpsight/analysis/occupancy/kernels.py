"""Theoretical occupancy of every kernel and shape, and how well its blocks fill the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warpsight.analysis.base.result import Finding, Result
from warpsight.analysis.base.tables import table
from warpsight.analysis.occupancy.limits import OccupancyLimits, blocks_per_multiprocessor, limits
from warpsight.model.naming import texts as names_of
from warpsight.model.selection import Rows
from warpsight.model.work import named

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

_ALL = Rows()
_SPEC = """device:int16 name:string grid:string block:string registers:int32 shared:int64:B kernels:int64 time:int64:ns
    blocks_per_multiprocessor:int32 warps_per_multiprocessor:int32 occupancy:float64 limiter:string waves:float64
    last_wave:float64 tail_share:float64 tail_time:float64:ns"""
_DEVICES = """device:int16 kernels:int64 time:int64:ns judged_time:int64:ns occupancy:float64 tail_time:float64:ns
    tail_share:float64"""
_SHAPE = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers", "shared_static", "shared_dynamic",
          "shared_config", "cluster_x", "cluster_y", "cluster_z")  # fmt: skip


def occupancy(trace: StoredTrace, rows: Rows = _ALL) -> Result:
    """Theoretical occupancy, waves and tail of every kernel name and shape on every device, most time first.

    Occupancy is the warps of the blocks that fit on a multiprocessor at once (by threads, blocks, registers and shared memory,
    see :mod:`warpsight.analysis.occupancy.limits`) / the warps it holds; `limiter` says what keeps it from more. Waves are blocks
    of the grid / (blocks that fit on a multiprocessor x multiprocessors): how many times the grid fills the device. The last wave
    is filled to `last_wave` (0 to 1). If all blocks take equally long, ceil(waves) - waves of ceil(waves) parts of the kernel's
    time and room are empty: `tail_share`; `tail_time` is that share of its time. Clusters are not taken into account.

    Returns:
        Table `occupancy`, and `devices` with means weighted by kernel time. Null where the device's limits are not known.
    """
    devices = {row[0]: row[1:] for row in trace.sql(
        """SELECT device, compute_capability, threads_per_multiprocessor, blocks_per_multiprocessor, registers_per_multiprocessor,
        shared_per_multiprocessor, multiprocessors, vendor FROM device""").fetchall()}  # fmt: skip
    known = {number: _limits(row) for number, row in devices.items()}
    counts = {number: row[5] for number, row in devices.items()}
    texts = names_of.texts(trace)
    shapes = {row[0]: dict(zip(_SHAPE, row[1:], strict=True)) for row in trace.sql(
        f"SELECT id, {', '.join(_SHAPE)} FROM shape").fetchall()}  # fmt: skip
    sql = f"""SELECT device, name_id, shape_id, count(*), sum(greatest(duration, 0))::BIGINT FROM kernel_ids
        WHERE start IS NOT NULL AND duration IS NOT NULL AND {rows.where()}{named(trace, rows.name)}
        GROUP BY ALL ORDER BY 5 DESC, 1, 2, 3"""
    found, clustered = [], 0
    for device, name, shape, kernels, time in trace.sql(sql).fetchall():
        own = shapes.get(shape)
        row: dict[str, Any] = {
            "device": device,
            "name": texts.get(name, ""),
            "kernels": kernels,
            "time": time,
        }
        if own is not None:
            clustered += kernels * (
                (own["cluster_x"] or 0) * (own["cluster_y"] or 1) * (own["cluster_z"] or 1) > 1
            )
            row |= _judged(own, known.get(device), counts.get(device), time)
        found.append(row)
    tables = {"occupancy": table(_SPEC, found), "devices": table(_DEVICES, _devices(found))}
    return Result(tables, _doubts(found, clustered))


def _limits(row: tuple[Any, ...]) -> OccupancyLimits | None:
    capability, threads, blocks, registers, shared, _, vendor = row
    if not str(vendor).upper().startswith("NVIDIA"):
        return None
    return limits(capability, threads=threads, blocks=blocks, registers=registers, shared=shared)


def _judged(
    shape: dict[str, Any], of: OccupancyLimits | None, multiprocessors: int | None, time: int
) -> dict[str, Any]:
    grid, block = ([shape[f"{what}_{axis}"] or 0 for axis in "xyz"] for what in ("grid", "block"))
    threads, count = block[0] * block[1] * block[2], grid[0] * grid[1] * grid[2]
    shared = (shape["shared_static"] or 0) + (shape["shared_dynamic"] or 0)
    row: dict[str, Any] = {"grid": "×".join(map(str, grid)), "block": "×".join(map(str, block)),
                           "registers": shape["registers"], "shared": shared}  # fmt: skip
    if of is None or threads <= 0:
        return row
    fit, limiter = blocks_per_multiprocessor(
        of, threads, shape["registers"] or 0, shared, shape["shared_config"] or 0
    )
    if not fit:
        return row | {"limiter": limiter}
    warps = fit * -(-threads // of.warp)
    row |= {"blocks_per_multiprocessor": fit, "warps_per_multiprocessor": warps, "limiter": limiter,
            "occupancy": warps / (of.threads // of.warp)}  # fmt: skip
    if not multiprocessors or count <= 0:
        return row
    room = fit * multiprocessors
    full = -(-count // room)
    tail = (full * room - count) / (full * room)
    return row | {"waves": count / room, "last_wave": (count - (full - 1) * room) / room, "tail_share": tail,
                  "tail_time": time * tail}  # fmt: skip


def _devices(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    out = []
    for device in dict.fromkeys(row["device"] for row in found):
        own = [row for row in found if row["device"] == device]
        judged = [row for row in own if row.get("occupancy") is not None]
        time, tailed = sum(row["time"] for row in judged), [row for row in judged if "tail_time" in row]
        lost, length = sum(row["tail_time"] for row in tailed), sum(row["time"] for row in tailed)
        out.append({
            "device": device, "kernels": sum(row["kernels"] for row in own), "time": sum(row["time"] for row in own),
            "judged_time": time, "tail_time": lost if tailed else None, "tail_share": lost / length if length else None,
            "occupancy": sum(row["time"] * row["occupancy"] for row in judged) / time if time else None,
        })  # fmt: skip
    return out


def _doubts(found: list[dict[str, Any]], clustered: int) -> tuple[Finding, ...]:
    if not found:
        return (Finding("note", "the selection has no kernel with times"),)
    out = []
    total = sum(row["kernels"] for row in found)
    missing = sum(row["kernels"] for row in found if row.get("occupancy") is None)
    if missing:
        text = f"the occupancy of {missing:,} of {total:,} kernels is not known: no shape, or no limits of the device"
        out.append(Finding("note", text, {"kernels": missing, "of": total}))
    if clustered:
        text = f"{clustered:,} of {total:,} kernels ran in clusters, which are placed whole: fewer blocks may fit than stated"
        out.append(Finding("note", text, {"kernels": clustered, "of": total}))
    return tuple(out)
