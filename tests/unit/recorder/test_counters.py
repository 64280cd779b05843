"""GPU counters from a scripted NVML."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from warpsight.errors import UsageError
from warpsight.recorder.sampling.counters import CounterSampler, parse


class NvmlError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"NVML error {value}")
        self.value = value


class FakeNvml:
    """Two GPUs; the second tells no power."""

    NVMLError = NvmlError
    NVML_GPM_METRICS_GET_VERSION = 1

    def __init__(self, *, gpm: bool = False) -> None:
        self.gpm = gpm
        self.sent = 0
        self.freed = 0

    def nvmlInit(self) -> None: ...
    def nvmlShutdown(self) -> None: ...
    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return f"GPU-{handle}{handle}{handle}{handle}-aaaa"

    def nvmlDeviceGetName(self, handle: int) -> bytes:
        return b"NVIDIA H200"

    def nvmlSystemGetDriverVersion(self) -> str:
        return "580.1"

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:
        return SimpleNamespace(gpu=90, memory=40)

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        return SimpleNamespace(used=1 << 30, total=140 << 30)

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        if handle == 1:
            raise NvmlError(3)
        return 512_000

    def nvmlDeviceGetClockInfo(self, handle: int, which: int) -> int:
        return {1: 1980, 2: 2619}[which]

    def nvmlDeviceGetTemperature(self, handle: int, which: int) -> int:
        return 61

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: int) -> int:
        return 0x4 | 0x20

    def nvmlDeviceGetFieldValues(self, handle: int, fields: list[tuple[int, int]]) -> list[Any]:
        self.sent += 1_000_000
        return [SimpleNamespace(nvmlReturn=0 if field in (138, 139) else 3, value=SimpleNamespace(ullVal=self.sent))
                for field, _ in fields]  # fmt: skip

    def nvmlDeviceGetPcieThroughput(self, handle: int, which: int) -> int:
        return 100 + which

    def nvmlGpmQueryDeviceSupport(self, handle: int) -> Any:
        return SimpleNamespace(isSupportedDevice=self.gpm)

    def nvmlGpmSampleAlloc(self) -> object:
        return object()

    def nvmlGpmSampleFree(self, sample: object) -> None:
        self.freed += 1

    def nvmlGpmSampleGet(self, handle: int, sample: object) -> None: ...
    def c_nvmlGpmMetricsGet_t(self) -> Any:
        return SimpleNamespace(metrics=[SimpleNamespace(nvmlReturn=0, value=0.0) for _ in range(64)])

    def nvmlGpmMetricsGet(self, request: Any) -> None:
        for metric in request.metrics[: request.numMetrics]:
            metric.value = float(metric.metricId)


class Rows:
    """Collects what would go to the arena."""

    def __init__(self) -> None:
        self.texts = [""]
        self.rows: list[tuple[str, dict[str, Any]]] = []
        self.notes: list[str] = []

    def intern(self, text: str) -> int:
        self.texts.append(text)
        return len(self.texts) - 1

    def write(self, kind: str, **values: Any) -> bool:
        self.rows.append((kind, values))
        return True

    def loss(self, source: str, cause: str, **_: Any) -> None:
        self.notes.append(cause)

    def values(self, device: int) -> dict[str, float]:
        return {
            self.texts[row["name"]]: row["value"]
            for kind, row in self.rows
            if kind == "Counter" and row["device"] == device
        }


def sampler(nvml: Any, setting: str = "10", **environment: str) -> tuple[CounterSampler, Rows]:
    rows = Rows()
    return CounterSampler(rows, setting, nvml=nvml, environment=environment), rows  # type: ignore[arg-type]


def test_every_value_comes_with_its_device() -> None:
    counters, rows = sampler(FakeNvml())
    assert counters.open()
    counters.sample()
    first = rows.values(0)
    assert first["gpu_utilization"] == 90
    assert first["power"] == 512
    assert first["memory_used"] == 1 << 30
    assert (first["sm_clock"], first["memory_clock"]) == (1980, 2619)
    assert first["throttle_reasons"] == 0x24
    assert (first["throttle_software_power_cap"], first["throttle_hardware_slowdown"]) == (1, 0)
    devices = [rows.texts[row["uuid"]] for kind, row in rows.rows if kind == "Device"]
    assert devices == ["GPU-0000-aaaa", "GPU-1111-aaaa"]


def test_a_counter_a_gpu_does_not_have_is_noted_once() -> None:
    counters, rows = sampler(FakeNvml())
    counters.open()
    counters.sample()
    counters.sample()
    assert "power" not in rows.values(1)
    assert [note for note in rows.notes if "power" in note] == ["GPU 1 does not report power: NVML error 3"]


def test_byte_counts_become_rates_and_pcie_falls_back() -> None:
    counters, rows = sampler(FakeNvml(), "nvlink_*,pcie_tx")
    counters.open()
    counters.sample()
    assert "nvlink_tx" not in rows.values(0)  # a rate needs two readings
    assert rows.values(0)["pcie_tx"] == 100 * 1024
    counters.sample()
    assert rows.values(0)["nvlink_tx"] > 0


def test_gpm_gives_activity_between_two_samples() -> None:
    nvml = FakeNvml(gpm=True)
    counters, rows = sampler(nvml, "gpm_*")
    counters.open()
    counters.sample()
    assert not rows.values(0)
    counters.sample()
    assert rows.values(0)["gpm_tensor_activity"] == 5
    assert {row["source"] for kind, row in rows.rows if kind == "Counter"} == {2}
    counters.close()
    assert nvml.freed == 4


def test_only_devices_the_program_may_use_are_sampled() -> None:
    for visible, expected in (("1", {1}), ("GPU-1111", {1}), ("0,1", {0, 1}), ("0,9,1", {0}), ("", set())):
        counters, rows = sampler(FakeNvml(), CUDA_VISIBLE_DEVICES=visible)
        counters.open()
        counters.sample()
        assert {row["device"] for kind, row in rows.rows if kind == "Counter"} == expected, visible


def test_without_nvml_recording_goes_on_with_a_note() -> None:
    class Absent(FakeNvml):
        def nvmlInit(self) -> None:
            raise NvmlError(12)

    counters, rows = sampler(Absent())
    assert not counters.open()
    assert rows.notes == ["no GPU counters: NVML error 12"]


@pytest.mark.parametrize(
    ("text", "rate", "patterns"), [("off", 0, ()), ("25", 25, ()), ("power, gpm_*", 10, ("power", "gpm_*"))]
)
def test_the_option_takes_off_a_rate_or_names(text: str, rate: float, patterns: tuple[str, ...]) -> None:
    assert parse(text) == (rate, patterns)


@pytest.mark.parametrize("text", ["-1", "1e9", "nan"])
def test_a_rate_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--counters"):
        parse(text)
