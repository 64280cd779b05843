"""TraceSmith's BPF event records: an array of its `BPFEventRecord`, as a loader of its programs would write it to a file.

A record is a C struct of 152 bytes on x86-64: time (ns), pid, tid, cpu, type, then a union of 128 bytes. There is no
header: files are recognized by several plausible records in a row; shorter ones need `--from tracesmith-bpf`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from warpsight.formats.registry import Coverage, Options

if TYPE_CHECKING:
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target

COVERAGE = Coverage(
    kept=(
        "launches with shape, pid, tid and correlation; copies, synchronization and device choice as `api`",
        "allocations and frees; page faults, migrations, driver and PCIe events as `user_event`",
    ),
    lost=("CPU numbers; raw bytes of custom records",),
    tested=("files written after TraceSmith 0.11's struct",),
)
RECORD = np.dtype(
    [("time", "<u8"), ("pid", "<u4"), ("tid", "<u4"), ("cpu", "<u4"), ("type", "<u4"), ("payload", "V128")]
)
_KERNEL = np.dtype(
    [("correlation", "<u8"), ("stream", "<u8"), ("shape", "<u4", 6), ("shared", "<u4"), ("name", "S64")]
)
_MEMORY = np.dtype(
    [("source", "<u8"), ("destination", "<u8"), ("size", "<u8"), ("direction", "<u4"), ("asynchronous", "u1")]
)
_UVM = np.dtype([("address", "<u8"), ("page_size", "<u4"), ("fault_type", "<u4"), ("gpu", "<u4")])
TYPES = {
    0: "unknown", 1: "cuda_launch_kernel", 2: "cuda_memcpy", 3: "cuda_malloc", 4: "cuda_free", 5: "cuda_synchronize",
    6: "cuda_set_device", 10: "uvm_fault", 11: "uvm_migrate", 12: "uvm_evict", 13: "uvm_prefetch", 20: "driver_ioctl",
    21: "driver_mmap", 22: "driver_open", 23: "driver_close", 30: "pcie_dma_transfer", 31: "pcie_msi_interrupt",
    40: "hip_launch_kernel", 41: "hip_memcpy", 42: "hip_malloc", 43: "hip_free", 100: "custom",
}  # fmt: skip
_LAUNCHES = {1: "cudaLaunchKernel", 40: "hipLaunchKernel"}
_CALLS = {2: "cudaMemcpy", 41: "hipMemcpy", 5: "cudaDeviceSynchronize", 6: "cudaSetDevice"}
_ALLOCATIONS = {3: "allocate", 42: "allocate", 4: "free", 43: "free"}


def sniff(source: Source) -> bool:
    """Whether the first records, at least three, have known types, ids and plausible times."""
    count = min(len(source.head) // RECORD.itemsize, 64)
    rows = np.frombuffer(source.head, RECORD, count)
    if count < 3 or not np.isin(rows["type"], [kind for kind in TYPES if kind]).all():
        return False
    small = (
        (rows["pid"] < 1 << 22) & (rows["tid"] < 1 << 22) & (rows["cpu"] < 1 << 13) & (rows["time"] < 1 << 62)
    )
    near = np.abs(np.diff(rows["time"].astype(np.int64))) < 3_600_000_000_000
    return bool(small.all() and near.all() and (rows["tid"] > 0).all())


def read(source: Source, target: Target, options: Options) -> None:
    """Read a file.

    Raises:
        FormatError: when it is empty, or its first record is of no known type.
    """
    with source.open() as file:
        data = file.read()
    count, rest = divmod(len(data), RECORD.itemsize)
    if not count:
        raise source.error(f"has fewer bytes than one record of {RECORD.itemsize}", offset=len(data))
    rows = np.frombuffer(data, RECORD, count)
    if int(rows["type"][0]) not in TYPES:
        raise source.error(f"the first record has an unknown type {int(rows['type'][0])}", offset=20)
    if rest:
        source.ended_early(f"the last record has {rest} of {RECORD.itemsize} bytes")
    late = rows["time"] >= 1 << 63
    strange = ~np.isin(rows["type"], list(TYPES)) | late
    if strange.any():
        target.lost(int(strange.sum()), "records of unknown types or with times beyond 63 bits", "user_event")
    rows = rows[~strange]
    target.source.update(clock="bpf_ktime_get_ns: CLOCK_MONOTONIC")
    if len(rows):
        _place(target, rows)


def _place(target: Target, rows: np.ndarray[Any, Any]) -> None:
    pairs = np.stack([rows["pid"], rows["tid"]], axis=1).astype(np.int64)
    known, place = np.unique(pairs, axis=0, return_inverse=True)
    who = [(target.process(pid), tid) for pid, tid in known.tolist()]
    ids = np.array([(process, target.thread(process, tid)) for process, tid in who], np.int32)[place.ravel()]
    common: dict[str, np.ndarray[Any, Any]] = {
        "time": rows["time"].astype(np.int64),
        "process": ids[:, 0],
        "thread": ids[:, 1],
    }
    kinds = rows["type"]
    done = np.zeros(len(rows), bool)
    for types, add in ((_LAUNCHES, _launches), (_CALLS, _calls), (_ALLOCATIONS, _allocations)):
        chosen = np.flatnonzero(np.isin(kinds, list(types)))
        if len(chosen):
            add(target, rows[chosen], {name: column[chosen] for name, column in common.items()})
        done[chosen] = True
    others = np.flatnonzero(~done)
    if len(others):
        _others(target, rows[others], {name: column[others] for name, column in common.items()})


def _payload(rows: np.ndarray[Any, Any], kind: np.dtype[Any]) -> np.ndarray[Any, Any]:
    raw = np.ascontiguousarray(rows["payload"]).view(np.uint8).reshape(len(rows), 128)[:, : kind.itemsize]
    return np.ascontiguousarray(raw).view(kind).ravel()


def _launches(target: Target, rows: np.ndarray[Any, Any], common: dict[str, Any]) -> None:
    kernel = _payload(rows, _KERNEL)
    columns = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared_dynamic")
    packed = np.minimum(np.column_stack([kernel["shape"], kernel["shared"]]), (1 << 31) - 1)
    shapes, place = np.unique(packed, axis=0, return_inverse=True)
    ids = np.array([target.shape(**dict(zip(columns, s, strict=True))) for s in shapes.tolist()], np.int32)
    names, where = np.unique(kernel["name"], return_inverse=True)
    named = np.array([target.name(n.decode("utf-8", "replace") or "?") for n in names.tolist()], np.int32)
    target.add("launch", {
        "start": common["time"], "duration": np.zeros(len(rows), np.int64), "process": common["process"],
        "thread": common["thread"], "function": [_LAUNCHES[t] for t in rows["type"].tolist()],
        "correlation": kernel["correlation"].view(np.int64), "captured": np.zeros(len(rows), bool),
        "name_id": named[where], "shape_id": ids[place.ravel()]})  # fmt: skip


def _calls(target: Target, rows: np.ndarray[Any, Any], common: dict[str, Any]) -> None:
    memory = _payload(rows, _MEMORY)
    sized = np.isin(rows["type"], (2, 41))
    import pyarrow as pa

    target.add("api", {
        "start": common["time"], "duration": np.zeros(len(rows), np.int64), "process": common["process"],
        "thread": common["thread"], "function": [_CALLS[t] for t in rows["type"].tolist()],
        "bytes": pa.array(memory["size"].view(np.int64), mask=~sized)})  # fmt: skip


def _allocations(target: Target, rows: np.ndarray[Any, Any], common: dict[str, Any]) -> None:
    memory = _payload(rows, _MEMORY)
    address = np.where(memory["destination"], memory["destination"], memory["source"])
    target.add("memory", {
        "time": common["time"], "process": common["process"], "thread": common["thread"], "address": address,
        "operation": [_ALLOCATIONS[t] for t in rows["type"].tolist()], "bytes": memory["size"].view(np.int64),
        "kind": ["device"] * len(rows),
        "allocator": ["HIP" if t >= 40 else "CUDA" for t in rows["type"].tolist()]})  # fmt: skip


def _others(target: Target, rows: np.ndarray[Any, Any], common: dict[str, Any]) -> None:
    kinds = rows["type"].tolist()
    uvm = _payload(rows, _UVM)
    fields = [
        f'{{"address":{u["address"]},"page_size":{u["page_size"]},"fault_type":{u["fault_type"]},"gpu":{u["gpu"]}}}'
        if 10 <= kind <= 13 else None
        for kind, u in zip(kinds, uvm, strict=True)
    ]  # fmt: skip
    target.add("user_event", {
        "start": common["time"], "duration": np.zeros(len(rows), np.int64), "process": common["process"],
        "thread": common["thread"], "name": [TYPES[kind] for kind in kinds], "kind": ["bpf"] * len(rows),
        "attributes": fields})  # fmt: skip
