"""How the GPUs of a machine are linked, and how fast: NVLink, directly or through switches, else PCIe.

On machines with NVSwitch every link of a GPU ends at a switch, so a pair has as many links as the GPU with fewer. On other
machines, only links that end at the other GPU count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from types import ModuleType
from typing import Any

from warpsight.machine import nvml as by_nvml
from warpsight.machine.pci import numa_node

#: nvmlGpuTopologyLevel_t, with nvidia-smi's words.
_LEVELS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
MEANINGS = {"PIX": "one PCIe switch at most", "PXB": "several PCIe switches", "PHB": "a PCIe host bridge",
            "NODE": "host bridges of one NUMA node", "SYS": "the link between NUMA nodes"}  # fmt: skip
_SWITCH = 2  # nvmlIntNvLinkDeviceType_t
#: Bytes per second of a lane in one direction, by PCIe generation, after encoding.
_LANE = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}


@dataclass(frozen=True)
class GpuLinks:
    """A GPU's links: `nvlink_speed` is for one link in one direction, `pcie_speed` for the slot; both in B/s, None if unknown."""

    index: int
    uuid: str
    name: str
    pci: str | None
    numa_node: int | None
    nvlinks: int
    switched: bool
    nvlink_speed: float | None
    pcie_speed: float | None

    @property
    def speed(self) -> float | None:
        """Its send rate over its fastest kind of link, B/s; None if it has NVLinks of unknown speed."""
        if self.nvlinks:
            return self.nvlinks * self.nvlink_speed if self.nvlink_speed else None
        return self.pcie_speed


@dataclass(frozen=True)
class Pair:
    """The path between two GPUs: `NV18` for 18 NVLinks, else the PCIe path; B/s in one direction, or None."""

    one: int
    other: int
    kind: str
    bytes_per_second: float | None


@dataclass(frozen=True)
class Topology:
    """The GPUs of a machine and the path between each pair."""

    gpus: tuple[GpuLinks, ...]
    pairs: tuple[Pair, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "gpus": [{**asdict(gpu), "speed": gpu.speed} for gpu in self.gpus],
            "pairs": [asdict(pair) for pair in self.pairs],
        }


def discover() -> Topology:
    """The topology of this machine according to NVML; empty without NVML."""
    with by_nvml.session() as nvml:
        return Topology((), ()) if nvml is None else of_nvml(nvml)


def linked_gpus() -> dict[str, Any]:
    """The topology for a trace; empty on a machine with fewer than two GPUs."""
    found = discover()
    return found.to_json() if len(found.gpus) > 1 else {}


def of_nvml(nvml: ModuleType) -> Topology:
    """The topology according to NVML."""
    devices = [one for one in by_nvml.devices(nvml) if not (one.mig or "").startswith("instance")]
    ends = [_ends(nvml, one.handle) for one in devices]
    gpus = tuple(
        GpuLinks(one.index, one.uuid, one.name, one.pci, numa_node(one.pci), len(links),
            any(kind == _SWITCH for kind, _ in links), _nvlink_speed(nvml, one.handle) if links else None,
            _pcie_speed(nvml, one.handle))
        for one, links in zip(devices, ends, strict=True)
    )  # fmt: skip
    pairs = []
    for i in range(len(gpus)):
        for j in range(i + 1, len(gpus)):
            shared = _shared(gpus[i], gpus[j], ends[i], ends[j])
            level = by_nvml.ask(
                nvml, nvml.nvmlDeviceGetTopologyCommonAncestor, devices[i].handle, devices[j].handle
            )
            pairs.append(
                _pair(
                    gpus[i], gpus[j], shared, _LEVELS.get(level or 0, "SYS") if level is not None else "SYS"
                )
            )
    return Topology(gpus, tuple(pairs))


def _ends(nvml: ModuleType, handle: object) -> list[tuple[int, str]]:
    """For each active NVLink the kind of device at its other end, and that device's PCI address."""
    out = []
    for link in range(getattr(nvml, "NVML_NVLINK_MAX_LINKS", 18)):
        if by_nvml.ask(nvml, nvml.nvmlDeviceGetNvLinkState, handle, link) != 1:
            continue
        kind = by_nvml.ask(nvml, nvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link)
        pci = by_nvml.ask(nvml, nvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
        text = getattr(pci, "busId", "") if pci is not None else ""
        out.append((-1 if kind is None else int(kind),
                    by_nvml.short_pci(text.decode() if isinstance(text, bytes) else str(text))))  # fmt: skip
    return out


def _nvlink_speed(nvml: ModuleType, handle: object) -> float | None:
    """One link's rate in one direction; virtual machines answer only the newer of the two queries."""
    asked = [nvml.NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON, getattr(nvml, "NVML_FI_DEV_NVLINK_GET_SPEED", None)]
    for field in asked:
        found = field and by_nvml.ask(nvml, nvml.nvmlDeviceGetFieldValues, handle, [field])
        if found and found[0].nvmlReturn == 0 and found[0].value.uiVal:
            return float(found[0].value.uiVal) * 1e6
    return None


def _pcie_speed(nvml: ModuleType, handle: object) -> float | None:
    generation = by_nvml.ask(nvml, nvml.nvmlDeviceGetMaxPcieLinkGeneration, handle)
    width = by_nvml.ask(nvml, nvml.nvmlDeviceGetMaxPcieLinkWidth, handle)
    return _LANE[generation] * width if generation in _LANE and width else None


def _shared(
    one: GpuLinks, other: GpuLinks, ends: list[tuple[int, str]], others: list[tuple[int, str]]
) -> int:
    """NVLinks that join two GPUs."""
    if one.switched and other.switched:
        return min(sum(kind == _SWITCH for kind, _ in side) for side in (ends, others))
    return sum(pci == other.pci for _, pci in ends)


def _pair(one: GpuLinks, other: GpuLinks, nvlinks: int, level: str) -> Pair:
    if nvlinks:
        speed = None if one.nvlink_speed is None else nvlinks * one.nvlink_speed
        return Pair(one.index, other.index, f"NV{nvlinks}", speed)
    known = [gpu.pcie_speed for gpu in (one, other) if gpu.pcie_speed]
    return Pair(one.index, other.index, level, min(known) if len(known) == 2 else None)


def best_path(topology: Topology, source: int, target: int) -> tuple[tuple[int, ...], float | None]:
    """The fastest path between two GPUs, ends included, and the B/s of its slowest part, or None.

    A path over another GPU counts at half its speed, because of the copy in between, and is used if it is still faster.
    """
    speed = {frozenset((p.one, p.other)): p.bytes_per_second or 0.0 for p in topology.pairs}
    direct = speed.get(frozenset((source, target)), 0.0)
    best: tuple[tuple[int, ...], float] = (source, target), direct
    for gpu in topology.gpus:
        if gpu.index not in (source, target):
            over = (
                min(
                    speed.get(frozenset((source, gpu.index)), 0.0),
                    speed.get(frozenset((gpu.index, target)), 0.0),
                )
                / 2
            )
            if over > best[1]:
                best = (source, gpu.index, target), over
    return best[0], best[1] or None


def dot(topology: Topology) -> str:
    """The topology as a Graphviz graph."""
    lines = ["graph topology {", "  node [shape=box];"]
    lines += [
        f"  gpu{gpu.index} [label={_quoted(f'GPU {gpu.index}')}, tooltip={_quoted(gpu.name)}];"
        for gpu in topology.gpus
    ]
    switch = any(gpu.switched for gpu in topology.gpus)
    if switch:
        lines.append('  nvswitch [label="NVSwitch", shape=ellipse];')
        lines += [
            f'  gpu{gpu.index} -- nvswitch [label="{gpu.nvlinks} NVLinks"];'
            for gpu in topology.gpus
            if gpu.switched
        ]
    together = {gpu.index for gpu in topology.gpus if gpu.switched}
    lines += [f'  gpu{pair.one} -- gpu{pair.other} [label="{pair.kind}"];' for pair in topology.pairs
              if not {pair.one, pair.other} <= together]  # fmt: skip
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def matrix(topology: Topology, shown: Callable[[Pair], str]) -> Sequence[Sequence[str]]:
    """Rows of a table with a row and a column per GPU, and the result of `shown` for each pair."""
    of = {frozenset((pair.one, pair.other)): shown(pair) for pair in topology.pairs}
    head = ["", *(f"GPU {gpu.index}" for gpu in topology.gpus)]
    rows = [[f"GPU {a.index}", *("X" if a is b else of.get(frozenset((a.index, b.index)), "?") for b in topology.gpus)]
            for a in topology.gpus]  # fmt: skip
    return [head, *rows]
