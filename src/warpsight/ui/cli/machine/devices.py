"""`warpsight devices`: the devices of this machine and who uses them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from warpsight.model.sharing import secrets
from warpsight.ui.cli import options

if TYPE_CHECKING:
    from warpsight.machine import Device, Process


def command(
    processes: Annotated[
        bool, typer.Option("--processes", help="Also list the processes on the GPUs.")
    ] = False,
    as_json: options.PrintJson = False,
) -> None:
    """List the devices of this machine.

    CUDA devices come from NVML and the driver, other vendors' from the kernel and their tools, the rest from OpenCL. Exit code
    1 without a device.
    """
    from warpsight import machine

    found = machine.devices()
    users = [_without_secrets(user) for user in machine.gpu_processes()] if processes else None
    if as_json:
        document: dict[str, Any] = {
            "platform": machine.detect_platform(),
            "devices": [d.to_json() for d in found],
            "not_asked": machine.not_asked(found),
        }
        if users is not None:
            document["processes"] = [p.to_json() for p in users]
        print(json.dumps(document, indent=1))
    else:
        for device in found:
            print("\n".join(_device_lines(device)))
        for reason in machine.not_asked(found):
            typer.echo(reason, err=True)
        if users is not None:
            _print_processes(users)
    if not found:
        typer.echo(
            "no device: neither CUDA, OpenCL nor the PCI bus has one; `warpsight doctor` says what to install",
            err=True,
        )
        raise typer.Exit(1)


def _without_secrets(process: Process) -> Process:
    words = secrets.arguments(secrets.secretless(process.command or "").split(" "))
    return replace(process, command=" ".join(words) or None)


def _device_lines(device: Device) -> list[str]:
    shared = "shared memory per SM" if device.platform == "cuda" else "local memory"
    facts = [
        ("uuid", device.uuid),
        ("pci", device.pci),
        ("NUMA node", device.numa_node),
        ("compute capability", device.compute_capability),
        ("memory", _size(device.memory_bytes)),
        ("memory bandwidth", _bandwidth(device.memory_bandwidth)),
        ("SMs" if device.platform == "cuda" else "compute units", device.multiprocessors),
        ("clock", _clock(device.clock_khz)),
        ("memory clock", _clock(device.memory_clock_khz)),
        ("warp size", device.warp_size),
        ("registers per SM", device.registers_per_multiprocessor),
        (shared, _size(device.shared_per_multiprocessor)),
        ("threads per SM", device.threads_per_multiprocessor),
        ("MIG", device.mig),
        ("driver", device.driver),
        ("runtime", device.runtime),
    ]
    lines = [f"{device.index}  {device.name}  ({device.vendor}, {device.platform} {device.kind})"]
    return lines + [f"   {key:<21}{value}" for key, value in facts if value is not None]


def _print_processes(users: list[Process]) -> None:
    if not users:
        print("no process is on a GPU, or NVML is missing")
    for p in users:
        start = datetime.fromtimestamp(p.start).strftime("%Y-%m-%d %H:%M:%S") if p.start else "?"
        use = f"{p.utilisation}%" if p.utilisation is not None else "?"
        print(
            f"pid {p.pid}  user {p.user or '?'}  start {start}  cpu {'?' if p.cpu is None else p.cpu}%  "
            f"memory {_size(p.memory_bytes) or '?'}  sm {use}  {p.device}"
        )
        print(f"   {p.command or '?'}")
        print(f"   attachable: {'yes' if p.attachable else 'no'} ({p.reason})")


def _size(count: int | None) -> str | None:
    if count is None:
        return None
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**10:.0f} KiB"


def _bandwidth(rate: int | None) -> str | None:
    return f"{rate / 1e9:.0f} GB/s" if rate else None


def _clock(khz: int | None) -> str | None:
    return f"{khz / 1000:.0f} MHz" if khz else None
