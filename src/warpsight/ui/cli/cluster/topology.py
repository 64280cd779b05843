"""`warpsight cluster topology`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from warpsight.errors import UsageError
from warpsight.ui.cli import options

if TYPE_CHECKING:
    from warpsight.machine.topology import Pair, Topology


def command(
    as_json: options.PrintJson = False,
    as_dot: Annotated[bool, typer.Option("--dot", help="Print a Graphviz graph.")] = False,
    path: Annotated[
        str, typer.Option("--path", help="Only the fastest path between two GPUs.", metavar="A:B")
    ] = "",
    size: Annotated[
        int, typer.Option("--bytes", help="With --path: the time for this many bytes.", min=0, metavar="N")
    ] = 0,
) -> None:
    """Show how this machine's GPUs are linked (NV18: 18 NVLinks; otherwise the PCIe path), and how fast.

    Exit code 1 when NVML finds no GPU.
    """
    if as_json and as_dot:
        raise UsageError("--json and --dot exclude each other")
    from warpsight.machine import topology

    found = topology.discover()
    if path:
        print(_way(found, path, size))
    elif as_json:
        print(json.dumps(found.to_json(), indent=1))
    elif as_dot:
        print(topology.dot(found), end="")
    else:
        for cells in topology.matrix(found, _shown):
            print("  ".join(cell.ljust(16 if number else 6) for number, cell in enumerate(cells)).rstrip())
        for gpu in found.gpus:
            links = (
                f"{gpu.nvlinks} NVLinks{' to switches' if gpu.switched else ''}"
                if gpu.nvlinks
                else "no NVLink"
            )
            node = "" if gpu.numa_node is None else f", NUMA node {gpu.numa_node}"
            print(f"GPU {gpu.index}: {gpu.name}, {gpu.pci or 'no PCI address'}{node}, {links}")
        kinds = {pair.kind for pair in found.pairs}
        for kind, meaning in topology.MEANINGS.items():
            if kind in kinds:
                print(f"{kind}: {meaning}")
    if not found.gpus:
        typer.echo("NVML finds no GPU here; warpsight devices lists others", err=True)
        raise typer.Exit(1)


def _way(found: Topology, path: str, size: int) -> str:
    """The fastest path between two GPUs, in words."""
    from warpsight.machine import topology
    from warpsight.ui.render import numbers

    ends = [int(end) for end in path.split(":") if end.isdigit()]
    if len(ends) != 2 or not set(ends) <= {gpu.index for gpu in found.gpus} or ends[0] == ends[1]:
        raise UsageError(f"--path takes the numbers of two GPUs of this machine, such as 0:1, not {path!r}")
    gpus, speed = topology.best_path(found, *ends)
    text = " → ".join(f"GPU {gpu}" for gpu in gpus)
    if speed is None:
        return f"{text}, at an unknown speed"
    return f"{text}, {numbers.rate(speed)}" + (f", {numbers.duration(size / speed * 1e9)}" if size else "")


def _shown(pair: Pair) -> str:
    from warpsight.ui.render import numbers

    return (
        pair.kind if pair.bytes_per_second is None else f"{pair.kind} {numbers.rate(pair.bytes_per_second)}"
    )
