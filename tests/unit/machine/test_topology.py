"""How GPUs are linked, from what NVML says, on stand-ins for the module."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from warpsight.machine import topology


class FakeNvml:
    """GPUs with links: `ends[gpu]` has for each of its links the kind of device and the PCI bus at the other end."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_NVLINK_MAX_LINKS, NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON = 1, 2, 18, 90

    class NVMLError(Exception):
        """NVML's error."""

    def __init__(self, ends: list[list[tuple[int, int]]], level: int = 50) -> None:
        self.ends, self.level = ends, level

    def nvmlDeviceGetCount(self) -> int:
        return len(self.ends)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetPciInfo(self, handle: int) -> Any:
        return SimpleNamespace(busId=f"00000000:{handle + 16:02X}:00.0".encode())

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return f"GPU-{handle}"

    def nvmlDeviceGetNvLinkState(self, handle: int, link: int) -> int:
        if link >= len(self.ends[handle]):
            raise self.NVMLError("Not Supported")
        return 1

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: int, link: int) -> int:
        return self.ends[handle][link][0]

    def nvmlDeviceGetNvLinkRemotePciInfo(self, handle: int, link: int) -> Any:
        return SimpleNamespace(busId=f"00000000:{self.ends[handle][link][1] + 16:02X}:00.0".encode())

    def nvmlDeviceGetFieldValues(self, handle: int, fields: list[int]) -> Any:
        return [SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(uiVal=26562))]

    def nvmlDeviceGetTopologyCommonAncestor(self, one: int, other: int) -> int:
        return self.level

    def nvmlDeviceGetMaxPcieLinkGeneration(self, handle: int) -> int:
        return 5

    def nvmlDeviceGetMaxPcieLinkWidth(self, handle: int) -> int:
        return 16

    def __getattr__(self, name: str) -> Any:
        def refused(*arguments: Any) -> Any:
            raise self.NVMLError("Not Supported")

        return refused


def test_every_pair_behind_switches_has_all_links() -> None:
    found = topology.of_nvml(FakeNvml([[(2, 200 + n % 4) for n in range(18)] for _ in range(8)]))
    assert len(found.pairs) == 28 and {pair.kind for pair in found.pairs} == {"NV18"}
    assert found.pairs[0].bytes_per_second == pytest.approx(18 * 26.562e9)
    assert found.gpus[0].speed == pytest.approx(478e9, rel=0.01)
    drawn = topology.dot(found)
    assert drawn.count("-- nvswitch") == 8 and "gpu0 -- gpu1" not in drawn


def test_links_between_gpus_are_counted_pair_by_pair() -> None:
    found = topology.of_nvml(FakeNvml([[(0, 1), (0, 1), (0, 2)], [(0, 0), (0, 0)], [(0, 0)]], level=40))
    kinds = {(pair.one, pair.other): pair.kind for pair in found.pairs}
    assert kinds == {(0, 1): "NV2", (0, 2): "NV1", (1, 2): "NODE"}
    assert topology.matrix(found, lambda pair: pair.kind)[2] == ["GPU 1", "NV2", "X", "NODE"]
    assert 'gpu1 -- gpu2 [label="NODE"]' in topology.dot(found)


def test_without_nvlink_the_slot_limits() -> None:
    found = topology.of_nvml(FakeNvml([[], []], level=30))
    assert (found.pairs[0].kind, found.pairs[0].bytes_per_second) == ("PHB", pytest.approx(63e9, rel=0.01))
    assert found.gpus[0].speed == found.gpus[0].pcie_speed


def test_nvlinks_of_unknown_speed_do_not_carry_what_the_slot_does() -> None:
    """As in a virtual machine, whose NVML names the links and not their speed."""
    known = FakeNvml([[(2, 200)] * 18, [(2, 200)] * 18])
    known.nvmlDeviceGetFieldValues = known.refused
    found = topology.of_nvml(known)
    assert (
        found.gpus[0].pcie_speed and found.gpus[0].speed is None and found.pairs[0].bytes_per_second is None
    )


def test_the_speed_of_nvlinks_is_asked_for_link_by_link_where_there_is_no_common_one() -> None:
    known = FakeNvml([[(2, 200)] * 18, [(2, 200)] * 18])
    known.NVML_FI_DEV_NVLINK_GET_SPEED = 164
    answers = {90: SimpleNamespace(nvmlReturn=3, value=SimpleNamespace(uiVal=0)),
               164: SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(uiVal=26562))}  # fmt: skip
    known.nvmlDeviceGetFieldValues = lambda handle, fields: [answers[field] for field in fields]
    assert topology.of_nvml(known).gpus[0].speed == pytest.approx(18 * 26.562e9)


def test_the_best_path_goes_over_a_gpu_where_that_is_faster() -> None:
    links = [[(0, 1)] * 8, [(0, 0)] * 8 + [(0, 2)] * 8, [(0, 1)] * 8]
    path, speed = topology.best_path(topology.of_nvml(FakeNvml(links)), 0, 2)
    assert path == (0, 1, 2) and speed == pytest.approx(8 * 26.562e9 / 2)
    assert topology.best_path(topology.of_nvml(FakeNvml(links)), 0, 1)[0] == (0, 1)
