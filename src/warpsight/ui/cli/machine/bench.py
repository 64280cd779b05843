"""`warpsight bench`: what recording costs on this machine, and how fast its links are."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from warpsight.errors import UsageError, WarpsightError
from warpsight.ui.cli import options


def command(
    launches: Annotated[
        int, typer.Option("--launches", min=0, help="Launch and record this many kernels.")
    ] = 0,
    links: Annotated[bool, typer.Option("--links", help="Measure copies between host and devices.")] = False,
    device: Annotated[str, typer.Option("--device", help="auto, cuda or opencl.")] = "auto",
    as_json: options.PrintJson = False,
) -> None:
    """Measure what recording costs on this machine.

    Launches 50000 real kernels on the best device, bare, recorded without stacks, and recorded with stacks, in short turns,
    five times, and compares lower quartiles. Exit code 1 when a launch lacks its kernel or stack. --links measures bandwidth
    instead and keeps the figures for analyses.
    """
    if device not in ("auto", "cuda", "opencl"):
        raise UsageError(f"--device must be auto, cuda or opencl, not {device}")
    if links:
        _links(device, as_json)
    if launches or not links:
        _launches(launches, device, as_json)


def _launches(count: int, device: str, as_json: bool) -> None:
    from warpsight import machine
    from warpsight.recorder.trial import bench

    platform = machine.detect_platform() if device == "auto" else device
    if platform == "cpu":
        raise WarpsightError("no device to launch on; `warpsight doctor` says what to install")
    found = bench.run(platform, count or bench.LAUNCHES)
    if as_json:
        print(json.dumps(found.to_json(), indent=1))
    else:
        print(f"{found.device} ({found.platform})")
        print(
            f"launches {found.launches}, recorded {found.recorded}, with kernel {found.kernels}, "
            f"with kernel and stack {found.complete}"
        )
        print(
            f"stacks {found.stacks}, {found.frames:.1f} frames each; "
            f"{found.kernels_per_second:,.0f} kernels/s"
        )
        print(
            f"issue of one launch: bare {found.bare_ns:,.0f} ns, recorded {found.without_stacks_ns:,.0f} ns, "
            f"with stacks {found.with_stacks_ns:,.0f} ns"
        )
        print(
            f"cost of a launch {_cost(found.launch_cost_ns, found.launch_uncertainty_ns)}, "
            f"of its stack {_cost(found.stack_cost_ns, found.stack_uncertainty_ns)}"
        )
    if not found.ok:
        typer.echo(
            f"incomplete: {found.launches - found.complete} launches lack their kernel or stack", err=True
        )
        raise typer.Exit(1)


def _cost(nanoseconds: float | None, sure: float) -> str:
    return f"below {sure:,.0f} ns" if nanoseconds is None else f"{nanoseconds:,.0f} ± {sure:,.0f} ns"


def _links(device: str, as_json: bool) -> None:
    from warpsight.machine import links

    found = links.measure(platform=device)
    path = links.keep(found)
    if as_json:
        print(json.dumps({"kept": str(path), "links": [link.to_json() for link in found]}, indent=1))
        return
    for link in found:
        print(f"{link.bytes_per_second / 1e9:8.2f} GB/s  {link.source} → {link.destination}  ({link.memory})")
    print(f"kept in {path}")
