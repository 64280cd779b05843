"""A core dump for the report of a hang or crash: summary, one sentence, and the running kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

#: Maximum places described: the page shows the first few, the JSON report this many.
_PLACES = 32
#: Maximum number of places that wait for nobody named in the sentence.
_CAUSES = 2


def decode(path: Path) -> dict[str, Any]:
    """The summary of a dump, with `verdict` (a sentence) and `kernels` (those on the device, for joining with launches).

    Raises:
        CoreError: when the file is not a GPU core dump.
    """
    from warpsight.debug.gpucore import GpuCore
    from warpsight.debug.gpucore.summary import SummaryOptions, summarise

    summary = summarise(GpuCore.open(path), SummaryOptions(limit=_PLACES))
    faulting = {fault["kernel"] for fault in summary["faults"]}
    running = [grid for grid in summary["grids"] if grid["warps_resident"] or grid["kernel"] in faulting]
    kernels = [{"kernel": grid["mangled"] or grid["kernel"], "demangled": grid["kernel"], "grid_id": grid["id"],
                "grid": None if grid["blocks"] is None else grid["grid"], "block": grid["block"],
                "host_thread": grid["host_thread"]} for grid in running]  # fmt: skip
    return {"verdict": sentence(summary), "summary": summary, "kernels": kernels}


def sentence(summary: dict[str, Any]) -> str:
    """The kernel, its fault or state, and the source line."""
    if summary["faults"]:
        fault = summary["faults"][0]
        kernel = fault["kernel"] or "a kernel"
        return f"{fault['exception']} in {kernel}{_line(fault['at'])}{_of_block(fault['where'])}"
    if summary["places"]:
        kernels = dict.fromkeys(grid["kernel"] for grid in summary["grids"] if grid["warps_resident"])
        verb = "were" if len(kernels) > 1 else "was"
        return f"{', '.join(map(str, kernels)) or 'a kernel'} {verb} running: {_causes(summary)}"
    return "no kernel was on the device"


def _causes(summary: dict[str, Any]) -> str:
    """Grids with missing blocks; places that wait for nobody, and the first place waiting for each."""
    roots, chain = summary["roots"], summary["chain"]
    said = [*roots[:_CAUSES], *chain[: 1 if len(roots) <= 1 else 0]]
    texts = [part["text"] if len(said) == 1 else f"({part['place'] + 1}) {part['text']}" for part in said]
    if len(roots) > _CAUSES:
        texts.append(f"and {len(roots) - _CAUSES} more places that wait for nobody")
    return "; ".join([*(missing["text"].rstrip(".") for missing in summary["missing_blocks"]), *texts])


def _line(at: dict[str, Any] | None) -> str:
    frames = (at or {}).get("frames") or []
    return f" at {frames[0]['file']}:{frames[0]['line']}" if frames else ""


def _of_block(where: dict[str, Any] | None) -> str:
    if not where or not where.get("block"):
        return ""
    return f", block ({','.join(map(str, where['block']))}) thread ({','.join(map(str, where['thread']))})"
