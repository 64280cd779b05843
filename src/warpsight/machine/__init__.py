"""This machine: its devices, who uses them, and what can be recorded here."""

from __future__ import annotations

from warpsight.machine.device import Device
from warpsight.machine.discovery import detect_platform, devices, not_asked
from warpsight.machine.processes import Process, gpu_processes

__all__ = ["Device", "Process", "detect_platform", "devices", "gpu_processes", "not_asked"]
