"""`ws.core("core.gpu")`: the answer of `warpsight core` on a GPU core dump, from Python."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpsight._display import HtmlShown


@dataclass(frozen=True)
class CoreReport(HtmlShown):
    """What a GPU core dump says. Prints as `warpsight core` does; `document` is the output of `warpsight core --json`."""

    document: dict[str, Any]

    def __str__(self) -> str:
        """The fault or hang, and where every lane is, as text."""
        from warpsight.ui.render.dump import summary

        stream = io.StringIO()
        summary.show(self.document, stream, len(self.document["places"]))
        return stream.getvalue().rstrip()

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return self.document


def core(
    file: str | os.PathLike[str],
    *,
    top: int = 12,
    sources: Sequence[str | os.PathLike[str]] = (),
    ptx: Sequence[str | os.PathLike[str]] = (),
    sass: bool = False,
) -> CoreReport:
    """Explain a GPU core dump, possibly gzipped. Needs no GPU, CUDA or debugger.

    Args:
        file: The dump.
        top: Places at most; 0: all.
        sources: Folders with the kernels' source.
        ptx: PTX files or folders with Triton's call sites; by default Triton's cache.
        sass: Show instructions, with nvdisasm.

    Raises:
        WarpsightError: when the file is not a GPU core dump, or nvdisasm is requested but not installed.
    """
    from warpsight.debug.gpucore import GpuCore
    from warpsight.debug.gpucore.summary import SummaryOptions, View
    from warpsight.device_code.disassembly import find_tool
    from warpsight.errors import WarpsightError
    from warpsight.formats.errors import decoding

    if sass and find_tool("nvdisasm") is None:
        raise WarpsightError(
            "sass needs nvdisasm: pip install nvidia-cuda-nvdisasm, or install the CUDA toolkit"
        )
    chosen = SummaryOptions(
        sass, tuple(os.fspath(one) for one in sources), tuple(Path(one) for one in ptx), top or None
    )
    with decoding(os.fspath(file)):
        return CoreReport(View(GpuCore.open(Path(file)), chosen).document())
