"""The known facts about one device, from any source."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Device:
    """One physical device (or MIG instance). None means that no interface on this machine reports the value.

    Memory sizes are bytes, bandwidth bytes per second, clocks kHz.
    """

    index: int
    platform: str  # the API that programs it: cuda, opencl, …
    uuid: str
    name: str
    vendor: str
    pci: str | None = None
    numa_node: int | None = None
    compute_capability: str | None = None
    memory_bytes: int | None = None
    memory_bandwidth: int | None = None
    multiprocessors: int | None = None
    clock_khz: int | None = None
    memory_clock_khz: int | None = None
    warp_size: int | None = None
    registers_per_multiprocessor: int | None = None
    shared_per_multiprocessor: int | None = None
    threads_per_multiprocessor: int | None = None
    blocks_per_multiprocessor: int | None = None
    driver: str | None = None
    runtime: str | None = None
    mig: str | None = None  # off, on, or the instance this is
    kind: str = "gpu"  # gpu, cpu, accelerator

    def to_json(self) -> dict[str, Any]:
        """A flat JSON object; keys are the field names."""
        return asdict(self)
