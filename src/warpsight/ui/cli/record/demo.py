"""`warpsight demo`: shows a recording without a program of your own."""

from __future__ import annotations

import importlib.util
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from warpsight.errors import UsageError, WarpsightError
from warpsight.recorder.child import python_command
from warpsight.recorder.options.settings import Settings
from warpsight.ui.cli.record.record import record
from warpsight.ui.render import terminal

PROGRAMS = {"cuda": "warpsight.recorder.demo.heat_cuda", "opencl": "warpsight.recorder.demo.heat_opencl"}


def command(
    path: Annotated[Path, typer.Option("-o", "--output", help="Folder to write.")] = Path("demo.warp"),
    device: Annotated[str, typer.Option(help="cuda, opencl or auto.")] = "auto",
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep an earlier demo: fail instead of replacing it.")
    ] = False,
) -> None:
    """Record a small program on the best available device and show the result.

    The program simulates heat: with PyTorch or CuPy on an NVIDIA GPU, otherwise with OpenCL, which also runs on a CPU.
    """
    if device not in (*PROGRAMS, "auto"):
        raise UsageError(f"--device must be cuda, opencl or auto, not {device!r}")
    chosen = _best() if device == "auto" else device
    program = python_command(PROGRAMS[chosen], site=True)
    terminal.note(f"$ warpsight record -o {shlex.quote(str(path))} -- python -m {PROGRAMS[chosen]}")
    code = record(path, program, Settings(backend=chosen), force=not keep)
    from warpsight.recorder.launch import check_uninterrupted  # which needs POSIX, as a recording does

    check_uninterrupted(code)
    if code:
        raise WarpsightError(
            f"the demo program failed with code {code}; `warpsight doctor` shows what is missing"
        )
    raise typer.Exit(0)


def _best() -> str:
    """CUDA if there is a GPU with a framework for it. Checked in a separate process, so that CUDA stays unloaded here."""
    framework = next((name for name in ("torch", "cupy") if importlib.util.find_spec(name)), None)
    if framework is None:
        return "opencl"
    try:
        import pynvml

        pynvml.nvmlInit()
        present = int(pynvml.nvmlDeviceGetCount())
        pynvml.nvmlShutdown()
    except Exception:  # no module or no driver
        return "opencl"
    check = {"torch": "import torch; assert torch.cuda.is_available()", "cupy": "import cupy; cupy.zeros(1)"}[
        framework
    ]
    usable = (
        present
        and subprocess.run([sys.executable, "-c", check], capture_output=True, check=False).returncode == 0
    )
    return "cuda" if usable else "opencl"
