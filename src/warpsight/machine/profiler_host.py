"""A chip's counters and the passes they need, from CUPTI's Profiler Host interface, without a GPU.

Structures follow `cupti_profiler_host.h`, `cupti_sass_metrics.h` and `cupti_target.h` of CUDA 13.0. Each begins with its own
size, so newer libraries take them too.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint8, c_uint64, c_void_p
from dataclasses import dataclass
from functools import cache
from typing import Any

from warpsight.errors import UsageError, WarpsightError
from warpsight.machine import cupti
from warpsight.machine.cuda import cuda_driver

#: CUpti_ProfilerType
RANGES, SAMPLING = 0, 1
#: CUpti_MetricType
_TYPES = ("counter", "ratio", "throughput")


_ASK_CHIP = """
import ctypes, sys
from ctypes import byref, c_char_p, c_size_t, c_void_p

class Begin(ctypes.Structure):
    _fields_ = (("size", c_size_t), ("private", c_void_p))

class Chip(ctypes.Structure):
    _fields_ = (*Begin._fields_, ("device", c_size_t), ("name", c_char_p))

cupti = ctypes.CDLL(sys.argv[1])
begin, chip = Begin(ctypes.sizeof(Begin)), Chip(ctypes.sizeof(Chip), None, int(sys.argv[2]), None)
ok = ctypes.CDLL("libcuda.so.1").cuInit(0) == 0 and cupti.cuptiProfilerInitialize(byref(begin)) == 0
if ok and cupti.cuptiDeviceGetChipName(byref(chip)) == 0 and chip.name:
    print(chip.name.decode())
"""


class ProfilerHostError(WarpsightError):
    """CUPTI could not answer."""


def _params(name: str, *fields: tuple[str, Any]) -> type[ctypes.Structure]:
    first = (("structSize", c_size_t), ("pPriv", c_void_p))
    return type(name, (ctypes.Structure,), {"_fields_": [*first, *fields]})


_HOST, _NAMES = ("pHostObject", c_void_p), POINTER(c_char_p)
_Chips = _params("Chips", ("numChips", c_size_t), ("ppChipNames", _NAMES))
_Initialize = _params("Initialize", ("profilerType", c_int), ("pChipName", c_char_p),
                      ("pCounterAvailabilityImage", c_void_p), _HOST)  # fmt: skip
_Deinitialize = _params("Deinitialize", _HOST)
_BaseMetrics = _params(
    "BaseMetrics", _HOST, ("metricType", c_int), ("ppMetricNames", _NAMES), ("numMetrics", c_size_t)
)
_SubMetrics = _params("SubMetrics", _HOST, ("metricType", c_int), ("pMetricName", c_char_p), ("numOfSubmetrics", c_size_t),
                      ("ppSubMetrics", _NAMES))  # fmt: skip
_Properties = _params("Properties", _HOST, ("pMetricName", c_char_p), ("pDescription", c_char_p), ("pHwUnit", c_char_p),
                      ("pDimUnit", c_char_p), ("metricType", c_int))  # fmt: skip
_AddMetrics = _params("AddMetrics", _HOST, ("ppMetricNames", _NAMES), ("numMetrics", c_size_t))
_ImageSize = _params("ImageSize", _HOST, ("configImageSize", c_size_t))
_Image = _params("Image", _HOST, ("configImageSize", c_size_t), ("pConfigImage", c_void_p))
_Passes = _params(
    "Passes", ("configImageSize", c_size_t), ("pConfigImage", c_void_p), ("numOfPasses", c_size_t)
)
_SassNumber = _params("SassNumber", ("pChipName", c_char_p), ("numOfMetrics", c_size_t))


class _Detail(ctypes.Structure):
    _fields_ = (("metricId", c_uint64), ("pMetricName", c_char_p), ("pMetricDescription", c_char_p))


_SassMetrics = _params(
    "SassMetrics", ("pChipName", c_char_p), ("numOfMetrics", c_size_t), ("pMetricsList", POINTER(_Detail))
)


@dataclass(frozen=True)
class Metric:
    """One metric of a chip, without the suffixes that make it a number.

    Attributes:
        name: the chip's name for it; kind: counter, ratio, throughput, or instruction (counted at each instruction by `sass
            counts`). description, unit: as CUPTI states them.
        suffixes: one of them follows the name: `.sum`, `.avg.pct_of_peak_sustained_elapsed`.
        passes: how often work must run to measure it; 0 if it cannot be measured.
    """

    name: str
    kind: str
    description: str
    unit: str = ""
    suffixes: tuple[str, ...] = ()
    passes: int = 1


@cache
def _library() -> ctypes.CDLL:
    version = cuda_driver.version()
    found = cupti.find(version[0] if version else None)
    if found is None:
        raise ProfilerHostError("no libcupti was found; install it with: pip install 'warpsight[nvidia]'")
    try:
        library = ctypes.CDLL(str(found.path))
        _ = library.cuptiProfilerHostInitialize
    except (OSError, AttributeError) as error:
        raise ProfilerHostError(
            f"{found.path} has no Profiler Host interface (CUDA 12.6 and newer): {error}"
        ) from None
    return library


def _call(function: str, params: ctypes.Structure) -> int:
    params.structSize = ctypes.sizeof(params)
    return int(getattr(_library(), function)(byref(params)))


def chips() -> tuple[str, ...]:
    """The chips that this version of CUPTI supports."""
    params = _Chips()
    if _call("cuptiProfilerHostGetSupportedChips", params):
        raise ProfilerHostError("CUPTI does not say which chips it knows")
    return tuple(params.ppChipNames[i].decode() for i in range(params.numChips))


@cache
def chip_of_device() -> str | None:
    """The chip of the first device of this machine; None without a GPU.

    Queried in a separate process, because CUPTI can crash if it does not fit the driver.
    """
    if cuda_driver.library() is None:
        return None
    environment = {name: value for name, value in os.environ.items() if name != "CUDA_INJECTION64_PATH"}
    try:
        path = str(_library()._name)
        command = [sys.executable, "-I", "-c", _ASK_CHIP, path, "0"]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            env=environment,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def checked_chip(name: str | None) -> str:
    """A chip's name as CUPTI spells it; this machine's chip if no name is given.

    Raises:
        UsageError: for an unknown chip, or without a name if there is no GPU.
    """
    wanted = name or chip_of_device()
    known = {chip.lower(): chip for chip in chips()}
    if wanted is None:
        raise UsageError(f"no NVIDIA GPU here: name one with --chip ({', '.join(known.values())})")
    if wanted.lower() not in known:
        raise UsageError(f"--chip {wanted}: this CUPTI knows {', '.join(known.values())}")
    return known[wanted.lower()]


@contextmanager
def _host(chip: str, kind: int) -> Iterator[c_void_p]:
    params = _Initialize(profilerType=kind, pChipName=chip.encode())
    result = _call("cuptiProfilerHostInitialize", params)
    if result or not params.pHostObject:
        raise ProfilerHostError(f"CUPTI cannot describe the counters of {chip} (error {result})")
    try:
        yield params.pHostObject
    finally:
        _call("cuptiProfilerHostDeinitialize", _Deinitialize(pHostObject=params.pHostObject))


def base_metrics(chip: str, kind: int) -> dict[str, str]:
    """Metric → counter, ratio or throughput, in CUPTI's order."""
    found: dict[str, str] = {}
    with _host(chip, kind) as host:
        for number, word in enumerate(_TYPES):
            params = _BaseMetrics(pHostObject=host, metricType=number)
            if not _call("cuptiProfilerHostGetBaseMetrics", params):
                found |= dict.fromkeys(
                    (params.ppMetricNames[i].decode() for i in range(params.numMetrics)), word
                )
    return found


def describe(chip: str, names: Sequence[str], kind: int = RANGES) -> list[Metric]:
    """Known facts about base metrics of a chip."""
    types = base_metrics(chip, kind)
    found = []
    with _host(chip, kind) as host:
        for name in names:
            suffixes = _suffixes(host, name, _TYPES.index(types[name]))
            description, unit = _properties(host, name)
            needed = passes(chip, [name + suffixes[0]], kind) if suffixes else 0
            found.append(Metric(name, types[name], description, unit, suffixes, needed or 0))
    return found


def _suffixes(host: object, name: str, number: int) -> tuple[str, ...]:
    params = _SubMetrics(pHostObject=host, metricType=number, pMetricName=name.encode())
    if _call("cuptiProfilerHostGetSubMetrics", params):
        return ()
    return tuple(params.ppSubMetrics[i].decode() for i in range(params.numOfSubmetrics))


def _properties(host: object, name: str) -> tuple[str, str]:
    params = _Properties(pHostObject=host, pMetricName=name.encode())
    if _call("cuptiProfilerHostGetMetricProperties", params):
        return "", ""
    return (params.pDescription or b"").decode(), (params.pDimUnit or b"").decode()


def passes(chip: str, names: Sequence[str], kind: int = RANGES) -> int | None:
    """How often work must run for all these metrics with their suffixes; None if the chip lacks one."""
    with _host(chip, kind) as host:
        listed = (c_char_p * len(names))(*(name.encode() for name in names))
        if _call(
            "cuptiProfilerHostConfigAddMetrics",
            _AddMetrics(pHostObject=host, ppMetricNames=listed, numMetrics=len(names)),
        ):
            return None
        size = _ImageSize(pHostObject=host)
        if _call("cuptiProfilerHostGetConfigImageSize", size):
            return None
        image = (c_uint8 * size.configImageSize)()
        at = ctypes.cast(image, c_void_p)
        if _call(
            "cuptiProfilerHostGetConfigImage",
            _Image(pHostObject=host, configImageSize=len(image), pConfigImage=at),
        ):
            return None
        params = _Passes(configImageSize=len(image), pConfigImage=at)
        return None if _call("cuptiProfilerHostGetNumOfPasses", params) else int(params.numOfPasses)


def instruction_metrics(chip: str) -> list[Metric]:
    """Metrics that CUPTI can count at each instruction of a chip."""
    number = _SassNumber(pChipName=chip.encode())
    if _call("cuptiSassMetricsGetNumOfMetrics", number):
        return []
    details = (_Detail * number.numOfMetrics)()
    params = _SassMetrics(pChipName=chip.encode(), numOfMetrics=number.numOfMetrics, pMetricsList=details)
    if _call("cuptiSassMetricsGetMetrics", params):
        return []
    return [
        Metric(one.pMetricName.decode(), "instruction", (one.pMetricDescription or b"").decode())
        for one in details
    ]
