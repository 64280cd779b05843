"""One GPU's NVML values as named numbers: gauges, byte counts as rates, and GPM on Hopper and newer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

#: Clock event (throttle) reasons by bit; names follow nvml.h.
_THROTTLE_REASONS = {
    0x1: "gpu_idle", 0x2: "applications_clocks", 0x4: "software_power_cap", 0x8: "hardware_slowdown", 0x10: "sync_boost",
    0x20: "software_thermal", 0x40: "hardware_thermal", 0x80: "power_brake", 0x100: "display_clocks",
}  # fmt: skip
#: Fields of nvmlDeviceGetFieldValues: cumulative counts. name -> (field id, scope, bytes per unit)
_ALL_LINKS = 0xFFFFFFFF
_BYTE_FIELDS = {"pcie_tx": (197, 0, 1), "pcie_rx": (198, 0, 1), "nvlink_tx": (138, _ALL_LINKS, 1024),
                "nvlink_rx": (139, _ALL_LINKS, 1024)}  # fmt: skip
#: GPM metrics: id -> (name, unit, factor)
_GPM_METRICS = {
    1: ("gpm_graphics_activity", "%", 1.0), 2: ("gpm_sm_activity", "%", 1.0), 3: ("gpm_sm_occupancy", "%", 1.0),
    4: ("gpm_integer_activity", "%", 1.0), 5: ("gpm_tensor_activity", "%", 1.0), 10: ("gpm_dram_bandwidth", "%", 1.0),
    11: ("gpm_fp64_activity", "%", 1.0), 12: ("gpm_fp32_activity", "%", 1.0), 13: ("gpm_fp16_activity", "%", 1.0),
    20: ("gpm_pcie_tx", "B/s", float(1 << 20)), 21: ("gpm_pcie_rx", "B/s", float(1 << 20)),
    60: ("gpm_nvlink_rx", "B/s", float(1 << 20)), 61: ("gpm_nvlink_tx", "B/s", float(1 << 20)),
}  # fmt: skip
#: Every counter, as patterns of `--counters` name them.
NAMES = (
    "gpu_utilization", "memory_utilization", "memory_used", "power", "sm_clock", "memory_clock", "temperature",
    "throttle_reasons", *(f"throttle_{reason}" for reason in _THROTTLE_REASONS.values()), *_BYTE_FIELDS,
    *(name for name, _, _ in _GPM_METRICS.values()),
)  # fmt: skip
_GIVE_UP_AFTER = 3


@dataclass(frozen=True)
class _Value:
    """One reading: `source` is 1 for NVML and 2 for GPM, as in record kind Counter."""

    name: str
    value: float
    unit: str
    source: int = 1


Reader = Callable[[], list[_Value]]


class GpuReaders:
    """The readers of one GPU. Unsupported readers are tried once, failing readers a few times."""

    def __init__(self, nvml: ModuleType, index: int, handle: object, wanted: Callable[[str], bool]) -> None:
        self.index = index
        self._nvml = nvml
        self._handle = handle
        self._wanted = wanted
        self._failures: dict[str, int] = {}
        self._counts: dict[str, tuple[float, float]] = {}
        self._slow_due = 0.0
        self._gpm = _Gpm(nvml, handle) if wanted("gpm_") else None
        self._readers = dict(self._all_readers())
        #: Readers that were given up, with the reason.
        self.refused: dict[str, str] = {}

    def read(self) -> Iterator[_Value]:
        """The current values of this GPU's requested counters, if available."""
        for name, reader in list(self._readers.items()):
            try:
                values = reader()
            except self._nvml.NVMLError as error:
                self._failed(name, error)
                continue
            self._failures.pop(name, None)
            yield from (v for v in values if self._wanted(v.name))

    def close(self) -> None:
        """Release GPM's resources."""
        if self._gpm is not None:
            self._gpm.close()

    def _failed(self, name: str, error: Exception) -> None:
        count = self._failures[name] = self._failures.get(name, 0) + 1
        unsupported = getattr(error, "value", None) in (3, 13)  # not supported, function not found
        if unsupported or count >= _GIVE_UP_AFTER:
            del self._readers[name]
            self.refused[name] = str(error)

    def _all_readers(self) -> Iterator[tuple[str, Reader]]:
        nvml, handle = self._nvml, self._handle
        gauges: dict[str, Reader] = {
            "utilization": self._utilization,
            "memory_used": lambda: [
                _Value("memory_used", float(nvml.nvmlDeviceGetMemoryInfo(handle).used), "B")
            ],
            "power": lambda: [_Value("power", nvml.nvmlDeviceGetPowerUsage(handle) / 1000, "W")],
            "sm_clock": lambda: [_Value("sm_clock", float(nvml.nvmlDeviceGetClockInfo(handle, 1)), "MHz")],
            "memory_clock": lambda: [
                _Value("memory_clock", float(nvml.nvmlDeviceGetClockInfo(handle, 2)), "MHz")
            ],
            "temperature": lambda: [
                _Value("temperature", float(nvml.nvmlDeviceGetTemperature(handle, 0)), "°C")
            ],
            "throttle": self._throttle,
            "transfers": self._transfers,
        }
        for name, reader in gauges.items():
            if name in ("utilization", "throttle", "transfers") or self._wanted(name):
                yield name, reader
        if self._gpm is not None and self._gpm.supported:
            yield "gpm", self._gpm.read

    def _utilization(self) -> list[_Value]:
        rates = self._nvml.nvmlDeviceGetUtilizationRates(self._handle)
        return [
            _Value("gpu_utilization", float(rates.gpu), "%"),
            _Value("memory_utilization", float(rates.memory), "%"),
        ]

    def _throttle(self) -> list[_Value]:
        nvml = self._nvml
        read = (
            getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
            or nvml.nvmlDeviceGetCurrentClocksThrottleReasons
        )
        bits = int(read(self._handle))
        each = [
            _Value(f"throttle_{name}", float(bool(bits & bit)), "1")
            for bit, name in _THROTTLE_REASONS.items()
        ]
        return [_Value("throttle_reasons", float(bits), "1"), *each]

    def _transfers(self) -> list[_Value]:
        """Rates from cumulative counts; PCIe falls back to NVML's own 20 ms measurement, once a second."""
        out = []
        fields = [(name, *where) for name, where in _BYTE_FIELDS.items() if self._wanted(name)]
        if not fields:
            return []
        now = time.monotonic()
        answers = self._nvml.nvmlDeviceGetFieldValues(
            self._handle, [(field, scope) for _, field, scope, _ in fields]
        )
        failed = set()
        for (name, _, _, unit), answer in zip(fields, answers, strict=True):
            if answer.nvmlReturn != 0:
                failed.add(name)
                continue
            count = float(answer.value.ullVal) * unit
            before = self._counts.get(name)
            self._counts[name] = (now, count)
            if before and now > before[0] and count >= before[1]:
                out.append(_Value(name, (count - before[1]) / (now - before[0]), "B/s"))
        if now >= self._slow_due:
            self._slow_due = now + 1
            for name, which in (("pcie_tx", 0), ("pcie_rx", 1)):
                if name in failed:
                    rate = self._nvml.nvmlDeviceGetPcieThroughput(self._handle, which)
                    out.append(_Value(name, float(rate) * 1024, "B/s"))
        return out


class _Gpm:
    """GPU performance monitoring: activity of units between two samples, without touching the program."""

    def __init__(self, nvml: ModuleType, handle: object) -> None:
        self._nvml = nvml
        self._handle = handle
        self._samples: list[Any] = []
        self._filled = False
        try:
            self.supported = bool(nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice)
            if self.supported:
                self._samples = [nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()]
        except (AttributeError, nvml.NVMLError):
            self.supported = False

    def read(self) -> list[_Value]:
        """Averages since the last call; empty on the first."""
        nvml = self._nvml
        self._samples.reverse()
        nvml.nvmlGpmSampleGet(self._handle, self._samples[1])
        if not self._filled:
            self._filled = True
            return []
        request = nvml.c_nvmlGpmMetricsGet_t()
        request.version = nvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(_GPM_METRICS)
        request.sample1, request.sample2 = self._samples
        for place, metric in enumerate(_GPM_METRICS):
            request.metrics[place].metricId = metric
        nvml.nvmlGpmMetricsGet(request)
        out = []
        for place, (name, unit, factor) in enumerate(_GPM_METRICS.values()):
            answer = request.metrics[place]
            if answer.nvmlReturn == 0 and answer.value == answer.value:  # not NaN
                out.append(_Value(name, float(answer.value) * factor, unit, source=2))
        return out

    def close(self) -> None:
        """Free the samples."""
        for sample in self._samples:
            self._nvml.nvmlGpmSampleFree(sample)
        self._samples = []
