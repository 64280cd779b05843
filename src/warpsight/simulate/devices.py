"""The change in duration of device work on another device, by the bound of each kernel."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.ops import peaks
from warpsight.analysis.ops.peaks import Peaks
from warpsight.errors import UsageError
from warpsight.model.work import COMMUNICATION, COPY, KERNEL, SET, Work

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = npt.NDArray[Any]
#: Short names that people use for the device that is meant most often.
_USUAL = {
    "A100": "A100-SXM4-80GB", "H100": "H100 80GB HBM3", "V100": "V100-SXM2", "P100": "P100-SXM2", "B300": "B300",
    "MI250X": "MI250X",
}  # fmt: skip
#: Kernels that the matrix units bound: products, convolutions and attention, as libraries and compilers call them.
_MATRIX = re.compile(
    r"gemm|gemv|cutlass|cublas|nvjet|wgmma|mma|conv|wgrad|dgrad|flash|fmha|attention|Cijk_|matmul|xmma|sdpa",
    re.I,
)
#: Device work that no faster device makes shorter (ns).
_SHORTEST = 1_500


def factors(trace: StoredTrace, work: Work, name: str, lean: int) -> tuple[Column, str]:
    """The factor of each row's time on the named device, and its derivation.

    Products scale with the rate of the matrix units or with the bandwidth, whichever helps less (`lean` -1: more); everything
    else scales with the bandwidth. Copies between host and device and collectives keep their time.

    Raises:
        UsageError: when the device, or a device of the trace, is not in the table of peaks.
    """
    tried = (peaks.of_device(one) for one in (_USUAL.get(name.upper(), name), name.upper()))
    other = next((found for found in tried if found is not None), None)
    if other is None or not other.bandwidth:
        raise UsageError(f"device:{name}: no peaks are known for that device; use the driver's name for it")
    own = [one for one in peaks.of_trace(trace).values() if one.bandwidth]
    if not own:
        raise UsageError(
            f"device:{name}: the trace's own device is not known, so there is nothing to compare with"
        )
    bandwidth, rate = _ratios(own[0], other)
    matrix = {-1: min(bandwidth, rate), 0: rate, 1: max(bandwidth, rate)}[lean]
    names = dict(trace.sql("SELECT id, demangled FROM name").fetchall())
    size = max([0, int(work.name_id.max(initial=0)), *names]) + 1
    bound = np.zeros(size, bool)
    for number, text in names.items():
        bound[number] = bool(text and _MATRIX.search(text))
    factor = np.where(bound[work.name_id], matrix, bandwidth)
    factor[np.isin(work.kind, (COMMUNICATION, SET))] = 1.0
    factor[work.kind == COPY] = 1.0
    duration = work.end - work.start
    small = (duration * factor < _SHORTEST) & (work.kind == KERNEL) & (factor < 1)
    factor[small] = np.minimum(_SHORTEST / np.maximum(duration[small], 1), 1.0)
    note = (
        f"device: products take {rate:.2f} times as long (rate of the matrix units), other kernels {bandwidth:.2f} times "
        "(bandwidth); copies, collectives and the host stay as they are"
    )
    return factor, note


def _ratios(own: Peaks, other: Peaks) -> tuple[float, float]:
    """Ratios of old to new bandwidth, and of old to new matrix-unit rate in the first type that both have."""
    assert own.bandwidth and other.bandwidth
    bandwidth = own.bandwidth / other.bandwidth
    for dtype in ("bf16", "fp16", "tf32", "fp32"):
        mine, theirs = own.rate(dtype, True), other.rate(dtype, True)
        if mine and theirs:
            return bandwidth, mine / theirs
    return bandwidth, bandwidth
