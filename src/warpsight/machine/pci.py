"""PCI devices from Linux's sysfs: the hardware present, whatever tools are installed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SYS_PCI = Path("/sys/bus/pci/devices")
#: Classes of display controllers (03) and processing accelerators (12).
DISPLAY, ACCELERATOR = 0x03, 0x12


@dataclass(frozen=True)
class PciDevice:
    """One device; `driver` is the kernel module bound to it, None without one."""

    address: str
    vendor: int
    device: int
    #: Upper byte of the class code.
    kind: int
    driver: str | None
    folder: Path

    def number(self, name: str) -> int | None:
        """A number from one of the device's files (decimal or 0x…); None if there is none."""
        text = self.text(name)
        try:
            return int(text, 0) if text else None
        except ValueError:
            return None

    def text(self, name: str) -> str | None:
        """The text of one of the device's files; None if it is missing or empty."""
        try:
            return (self.folder / name).read_text(errors="replace").strip() or None
        except OSError:
            return None


def readable(root: Path = _SYS_PCI) -> bool:
    """Whether this system shows its PCI devices at all."""
    return root.is_dir()


def devices(
    vendor: int, kinds: tuple[int, ...] = (DISPLAY, ACCELERATOR), root: Path = _SYS_PCI
) -> Iterator[PciDevice]:
    """Graphics cards and accelerators of a vendor, by address; virtual functions count as separate devices."""
    if not root.is_dir():
        return
    for folder in sorted(root.iterdir()):
        found = PciDevice(folder.name, 0, 0, 0, None, folder)
        if found.number("vendor") != vendor:
            continue
        kind = (found.number("class") or 0) >> 16
        if kind in kinds:
            driver = folder / "driver"
            yield PciDevice(
                folder.name, vendor, found.number("device") or 0, kind,
                driver.resolve().name if driver.exists() else None, folder,
            )  # fmt: skip


def numa_node(pci: str | None, root: Path = _SYS_PCI) -> int | None:
    """The NUMA node of a PCI device; None if the kernel does not know it."""
    if not pci:
        return None
    try:
        node = int((root / pci / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None
