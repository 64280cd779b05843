"""This machine: its devices, their users, and what can be recorded. Everything is loaded on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warpsight.machine.device import Device
    from warpsight.machine.discovery import detect_platform, devices, not_asked
    from warpsight.machine.processes import Process, gpu_processes

__all__ = ["Device", "Process", "detect_platform", "devices", "gpu_processes", "not_asked"]
_MODULES = {
    "Device": "device",
    "detect_platform": "discovery",
    "devices": "discovery",
    "not_asked": "discovery",
    "Process": "processes",
    "gpu_processes": "processes",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
