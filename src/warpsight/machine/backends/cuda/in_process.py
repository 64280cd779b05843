"""Getting the recorder into programs that use CUDA: the driver and NVTX load the library that a variable names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from warpsight.errors import UsageError
from warpsight.machine.backends.backend import Requirement, Sign

INJECTION = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH")


def variables(library: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that load `library`.

    Raises:
        UsageError: when they load another tool already.
    """
    out: dict[str, str] = {}
    for name in INJECTION:
        present = environment.get(name)
        if present and os.path.realpath(present) != str(library):
            raise UsageError(
                f"{name} is already set ({present}): another tool records this program. "
                "Unset it, or record without CUDA: --backend opencl"
            )
        out[name] = str(library)
    return out


def requirement() -> Requirement | None:
    """None, because the driver loads the recorder, which finds CUPTI in the program."""
    return None


def sign() -> Sign | None:
    """An open unified-memory device: `cuInit` opens it, NVML does not."""
    return Sign("CUDA", "/dev/nvidia-uvm", loader="the driver", variable=INJECTION[0])
