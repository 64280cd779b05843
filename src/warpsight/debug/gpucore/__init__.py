"""GPU core dumps, read without a debugger, a GPU or CUDA."""

from __future__ import annotations

from warpsight.debug.gpucore.reader import CoreError, GpuCore

__all__ = ["CoreError", "GpuCore"]
