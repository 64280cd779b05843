"""Instruction traces: the actions of single instructions of a kernel, warp by warp, and questions about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warpsight.sass.events.tracing import TraceSelection
    from warpsight.sass.probes.definition import Probe
    from warpsight.sass.probes.results import Results


def probe(
    probes: Probe | Sequence[Probe] | str | Path,
    target: Sequence[str] | Path,
    *,
    output: Path | str | None = None,
    selection: TraceSelection | None = None,
    constants: Mapping[str, str] | None = None,
    map_mib: int = 1024,
) -> Results:
    """Run probes in a program's kernels, or on a recorded event trace.

    Args:
        probes: functions with `@ws.probe`, a file of them, or the name of built-in ones.
        target: a command, or the path of an event trace.
        output: new file for results; PROGRAM.probes by default.
        selection: launches, blocks, warps and addresses to probe.
        constants: values for constants of a file of probes.
        map_mib: device memory for maps of pending launches.

    Raises:
        UsageError: for unsupported code in a probe, with its file and line.
        StartError: when the program does not exist or cannot be run.
        WarpsightError: when a requirement of probes is missing, or the output exists already.
        FormatError: when the target is not an event trace.
    """
    from warpsight.errors import WarpsightError
    from warpsight.sass.probes.definition import Probe
    from warpsight.sass.probes.files import ProbeFile, find

    if isinstance(probes, (str, Path)):
        opened = ProbeFile.open(find(str(probes)), constants)
    else:
        opened = ProbeFile(Path(), (probes,) if isinstance(probes, Probe) else tuple(probes), None)
    if isinstance(target, (str, Path)):
        return opened.of_trace(Path(target))
    out = Path(output) if output is not None else Path(f"{Path(target[0]).stem}.probes")
    if out.exists():
        raise WarpsightError(f"{out} exists already")
    return opened.of_program(target, out, selection, map_mib)
