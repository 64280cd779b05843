"""Peak rates of known devices: dense rates by element type, and memory bandwidth.

Figures are those of the vendors' data sheets, without sparsity, at boost clock:

* NVIDIA: V100, T4, A100, A10, A30, A40, L4, L40, L40S, H100, H200 data sheets; Blackwell architecture brief (B200) and the
  B300's data sheet; Turing, GA102 and Ada GPU architecture white papers (GeForce, RTX).
* AMD: data sheets of MI100, MI210, MI250, MI250X, MI300A, MI300X, MI325X, MI350X, MI355X. An MI250 is two devices; figures are
  those of one.

Where a device is not in the table, its compute capability may still fix what a multiprocessor does per cycle (CUDA C++
Programming Guide, arithmetic throughput).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

_TERA, _GIGA = 1e12, 1e9


@dataclass(frozen=True)
class Peaks:
    """A device's peaks.

    Attributes:
        bandwidth: Memory bandwidth, B/s; None if unknown.
        matrix: Operations per second of the matrix units, by element type (tf32 beside ours).
        vector: The same for all other units.
        source: Where the rates come from.
    """

    bandwidth: float | None
    matrix: Mapping[str, float]
    vector: Mapping[str, float]
    source: str

    def rate(self, dtype: str, matrix: bool) -> float | None:
        """Operations per second for a type; None if the device has no known rate for it.

        Products of types that no matrix unit takes run on the vector units.
        """
        name = (_ON_MATRIX if matrix else _ON_VECTOR).get(dtype, dtype)
        if matrix and name in self.matrix:
            return self.matrix[name]
        return self.vector.get(name) if not matrix or name in ("fp32", "fp64") else None


#: Types that run at another type's rate. Kernels convert small floats to fp32 before computing with them.
_ON_MATRIX = {"uint8": "int8", "fp4x2": "fp4", "complex64": "fp32", "complex128": "fp64"}
_ON_VECTOR = dict.fromkeys(("fp16", "bf16", "fp8"), "fp32")


@dataclass(frozen=True)
class _Known:
    """A line of the table: bandwidth in GB/s, rates in TFLOP/s."""

    name: str
    bandwidth: float
    matrix: Mapping[str, float]
    vector: Mapping[str, float]


def _half(rate: float, **more: float) -> dict[str, float]:
    return {"fp16": rate, "bf16": rate, **more}


_A100 = _half(312, tf32=156, fp64=19.5, int8=624), {"fp32": 19.5, "fp64": 9.7}
_H100 = _half(989.4, tf32=494.7, fp64=66.9, int8=1978.9, fp8=1978.9), {"fp32": 66.9, "fp64": 33.5}
_NVL = _half(835, tf32=417, fp64=60, int8=1671, fp8=1671), {"fp32": 60, "fp64": 30}
_MI300X = (
    _half(1307.4, tf32=653.7, fp32=163.4, fp64=163.4, int8=2614.9, fp8=2614.9), {"fp32": 163.4, "fp64": 81.7}
)  # fmt: skip
_MI300A = _half(980.6, tf32=490.3, fp32=122.6, fp64=122.6, int8=1961.2, fp8=1961.2)
_MI350X = _half(2306.9, fp32=144.2, fp64=72.1, int8=4613.7, fp8=4613.7, fp4=9227.5)
_MI355X = _half(2516.6, fp32=157.3, fp64=78.6, int8=5033.2, fp8=5033.2, fp4=10066.3)
_B200 = _half(2250, tf32=1125, fp64=37, int8=4500, fp8=4500, fp4=9000)
_GB200 = _half(2500, tf32=1250, fp64=40, int8=5000, fp8=5000, fp4=10000)
#: Patterns of names (as drivers report them), tried in order.
_TABLE = (
    _Known(r"\bB300", 8000, _half(2250, tf32=1125, fp8=4500, fp4=13500), {"fp32": 75, "fp64": 1.25}),
    _Known(r"\bGB200", 8000, _GB200, {"fp32": 80, "fp64": 40}),
    _Known(r"\bB200", 8000, _B200, {"fp32": 75, "fp64": 37}),
    _Known(r"\bGH200 480GB", 4000, *_H100),
    _Known(r"\bH200 NVL", 4800, *_NVL),
    _Known(r"\bH200\b", 4800, *_H100),
    _Known(r"\bH100 NVL", 3900, *_NVL),
    _Known(r"\bH100 PCIe", 2039, _half(756, tf32=378, fp64=51, int8=1513, fp8=1513), {"fp32": 51, "fp64": 26}),
    _Known(r"\bH100( 80GB HBM3| SXM5?)", 3352, *_H100),
    _Known(r"\bH20\b", 4000, _half(148, tf32=74, int8=296, fp8=296, fp64=1), {"fp32": 44, "fp64": 1}),
    _Known(r"\bA100.*80GB.*PCI", 1935, *_A100),
    _Known(r"\bA100.*80GB", 2039, *_A100),
    _Known(r"\bA100.*40GB|\bA100-(SXM4|PCIE)$", 1555, *_A100),
    _Known(r"\bA30\b", 933, _half(165, tf32=82, fp64=10.3, int8=330), {"fp32": 10.3, "fp64": 5.2}),
    _Known(r"\bA40\b", 696, _half(149.7, tf32=74.8, int8=299.3), {"fp32": 37.4}),
    _Known(r"\bA10G\b", 600, _half(70, tf32=35, int8=140), {"fp32": 35}),
    _Known(r"\bA10\b", 600, _half(125, tf32=62.5, int8=250), {"fp32": 31.2}),
    _Known(r"\bL40S", 864, _half(362, tf32=183, fp8=733, int8=733), {"fp32": 91.6}),
    _Known(r"\bL40\b", 864, _half(181, tf32=90.5, fp8=362, int8=362), {"fp32": 90.5}),
    _Known(r"\bL4\b", 300, _half(121, tf32=60, fp8=242, int8=242), {"fp32": 30.3}),
    _Known(r"RTX 6000 Ada", 960, _half(364.2, tf32=182.1, fp8=728.5, int8=728.5), {"fp32": 91.1}),
    _Known(r"RTX A6000", 768, _half(154.8, tf32=77.4, int8=309.7), {"fp32": 38.7}),
    _Known(r"RTX 4090(?! Laptop| D)", 1008, _half(165.2, tf32=82.6, fp8=330.3, int8=660.6), {"fp32": 82.6}),
    _Known(r"RTX 3090(?! Ti)", 936, _half(71, tf32=35.6, int8=284), {"fp32": 35.6}),
    _Known(r"RTX 2080 Ti", 616, {"fp16": 53.8, "int8": 215.2}, {"fp32": 13.4}),
    _Known(r"\bT4\b", 320, {"fp16": 65, "int8": 130}, {"fp32": 8.1}),
    _Known(r"\bV100-SXM2", 900, {"fp16": 125}, {"fp32": 15.7, "fp64": 7.8}),
    _Known(r"\bV100-PCIE|\bV100 PCIe", 900, {"fp16": 112}, {"fp32": 14, "fp64": 7}),
    _Known(r"\bP100-SXM2", 732, {}, {"fp32": 10.6, "fp64": 5.3}),
    _Known(r"\bP100-PCIE-16GB", 732, {}, {"fp32": 9.3, "fp64": 4.7}),
    _Known(r"MI355X", 8000, _MI355X, {"fp32": 157.3, "fp64": 78.6}),
    _Known(r"MI350X", 8000, _MI350X, {"fp32": 144.2, "fp64": 72.1}),
    _Known(r"MI325X", 6000, *_MI300X),
    _Known(r"MI300X", 5300, *_MI300X),
    _Known(r"MI300A", 5300, _MI300A, {"fp32": 122.6, "fp64": 61.3}),
    # The driver has one name for both (`MI250X / MI250`), so the model is unknown.
    _Known(r"MI250X(?! ?/)", 1638, _half(191.5, fp32=47.9, fp64=47.9, int8=191.5), {"fp32": 23.9, "fp64": 23.9}),
    _Known(r"(?<!/)(?<!/ )MI250\b", 1638, _half(181, fp32=45.3, fp64=45.3, int8=181), {"fp32": 22.6, "fp64": 22.6}),
    _Known(r"MI210", 1638, _half(181, fp32=45.3, fp64=45.3, int8=181), {"fp32": 22.6, "fp64": 22.6}),
    _Known(r"MI100", 1229, {"fp16": 184.6, "bf16": 92.3, "fp32": 46.1, "int8": 184.6}, {"fp32": 23.1, "fp64": 11.5}),
)  # fmt: skip
#: Compute capability → operations per cycle and multiprocessor. Only where all products of a capability agree.
_PER_CYCLE: dict[str, tuple[dict[str, float], dict[str, float]]] = {
    "7.0": ({"fp16": 1024}, {"fp32": 128, "fp64": 64}),
    "8.0": (_half(2048, tf32=1024, fp64=128, int8=4096), {"fp32": 128, "fp64": 64}),
    "8.6": ({}, {"fp32": 256}),
    "8.9": ({}, {"fp32": 256}),
    "9.0": (_half(4096, tf32=2048, fp64=256, int8=8192, fp8=8192), {"fp32": 256, "fp64": 128}),
    "10.0": (_half(8192, tf32=4096, fp8=16384, int8=16384), {"fp32": 256, "fp64": 128}),
}  # fmt: skip


def of_device(
    name: str, *, capability: str | None = None, multiprocessors: int | None = None, clock_khz: int | None = None,
    bandwidth: int | None = None,
) -> Peaks | None:  # fmt: skip
    """The peaks of a device from its row in a trace; None if nothing is known.

    Args:
        name: Marketing name.
        capability: Compute capability, as "9.0".
        multiprocessors: Their number.
        clock_khz: Their highest clock.
        bandwidth: Memory bandwidth, B/s; takes precedence over the table.
    """
    for known in _TABLE:
        if re.search(known.name, name):
            own = bandwidth or known.bandwidth * _GIGA
            return Peaks(own, _times(known.matrix, _TERA), _times(known.vector, _TERA), "data sheet")
    per_cycle = _PER_CYCLE.get(capability or "")
    if per_cycle is not None and multiprocessors and clock_khz:
        cycles = multiprocessors * clock_khz * 1000.0
        matrix, vector = (_times(one, cycles) for one in per_cycle)
        return Peaks(bandwidth or None, matrix, vector, "multiprocessors × clock")
    return Peaks(float(bandwidth), {}, {}, "device") if bandwidth else None


def _times(rates: Mapping[str, float], scale: float) -> dict[str, float]:
    return {name: rate * scale for name, rate in rates.items()}


def of_trace(trace: StoredTrace) -> dict[int, Peaks]:
    """The peaks of the trace's devices, by device id; unknown ones are absent."""
    sql = "SELECT device, name, compute_capability, multiprocessors, clock_khz, memory_bandwidth FROM device"
    found = {
        device: of_device(name or "", capability=capability, multiprocessors=count, clock_khz=clock, bandwidth=bandwidth)
        for device, name, capability, count, clock, bandwidth in trace.sql(sql).fetchall()
    }  # fmt: skip
    return {device: peaks for device, peaks in found.items() if peaks is not None}
