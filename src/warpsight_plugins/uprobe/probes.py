"""Where uprobes go: the functions of GPU runtimes, in the files that a process maps or a program will map."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warpsight.device_code.elf import Elf

#: Launches, allocations, copies and waits of CUDA's runtime and driver and of HIP.
FUNCTIONS = (
    "cudaLaunchKernel", "cudaLaunchKernel_ptsz", "__cudaLaunchKernel", "__cudaLaunchKernel_ptsz", "cudaLaunchKernelExC",
    "cudaLaunchKernelExC_ptsz", "cudaLaunchCooperativeKernel", "cudaLaunchCooperativeKernel_ptsz", "cudaGraphLaunch",
    "cudaGraphLaunch_ptsz", "cudaMalloc", "cudaMallocAsync", "cudaMallocManaged", "cudaFree", "cudaFreeAsync", "cudaMemcpy",
    "cudaMemcpyAsync", "cudaMemcpyAsync_ptsz", "cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaStreamSynchronize_ptsz",
    "cudaEventSynchronize",
    "cuLaunchKernel", "cuLaunchKernel_ptsz", "cuLaunchKernelEx", "cuLaunchKernelEx_ptsz", "cuLaunchCooperativeKernel",
    "cuGraphLaunch", "cuMemAlloc_v2", "cuMemAllocAsync", "cuMemAllocManaged", "cuMemFree_v2", "cuMemFreeAsync",
    "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuMemcpyDtoD_v2", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync_v2", "cuMemcpyAsync", "cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize",
    "hipLaunchKernel", "hipLaunchCooperativeKernel", "hipModuleLaunchKernel", "hipExtModuleLaunchKernel",
    "hipExtLaunchKernel", "hipGraphLaunch", "hipMalloc", "hipMallocAsync", "hipMallocManaged", "hipFree", "hipFreeAsync",
    "hipMemcpy", "hipMemcpyAsync", "hipMemcpyWithStream", "hipDeviceSynchronize", "hipStreamSynchronize",
    "hipEventSynchronize",
)  # fmt: skip
#: Tracepoints of drivers about GPU work and memory, where the kernel has them.
_TRACEPOINTS = (
    "nvidia_uvm:uvm_fault", "nvidia_uvm:uvm_migrate", "nvidia_uvm:uvm_evict", "nvidia_uvm:uvm_prefetch",
    "amdgpu:amdgpu_cs_ioctl", "amdgpu:amdgpu_vm_bo_map", "amdgpu:amdgpu_vm_bo_unmap", "amdgpu:amdgpu_bo_move",
    "gpu_scheduler:drm_sched_job", "gpu_scheduler:drm_sched_process_job", "dma_fence:dma_fence_emit",
    "dma_fence:dma_fence_signaled",
)  # fmt: skip
_TRACEFS = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")
_LIBRARY = re.compile(r"^lib(cudart|cuda|amdhip64)[\w.-]*\.so")
#: Files larger than this are searched for functions only when their name is a runtime's.
_SEARCHED_BYTES = 64 << 20
_TABLES = ((".dynsym", ".dynstr"), (".symtab", ".strtab"))
_SYMBOL = [
    ("name", "<u4"),
    ("info", "u1"),
    ("other", "u1"),
    ("section", "<u2"),
    ("value", "<u8"),
    ("size", "<u8"),
]


def libraries_of(pid: int) -> list[str]:
    """Mapped files of a process that may contain the functions, by path in its own root."""
    found: dict[str, None] = {}
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        fields = line.split(None, 5)
        if (
            len(fields) == 6
            and "x" in fields[1]
            and fields[5].startswith("/")
            and not fields[5].endswith("(deleted)")
        ):
            found[fields[5]] = None
    root = f"/proc/{pid}/root"
    same = os.path.samefile(root, "/")
    return [path if same else root + path for path in found]


def libraries_for(program: Sequence[str]) -> list[str]:
    """Files that a program will probably map: itself, its libraries, the installed runtimes."""
    path = shutil.which(program[0])
    found = {os.path.realpath(path): None} if path else {}
    for command, pattern in ((["ldd", path or program[0]], r"=> (/\S+)"), (["ldconfig", "-p"], r"=> (/\S+)")):
        try:
            text = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stdout
        except (OSError, subprocess.TimeoutExpired):
            continue
        for name in re.findall(pattern, text):
            if command[0] == "ldd" or _LIBRARY.match(os.path.basename(name)):
                found[os.path.realpath(name)] = None
    return list(found)


def functions_in(path: str) -> dict[str, int]:
    """Which of the functions a file defines, and the file offset of each."""
    from warpsight.device_code.elf import Elf, ElfError

    try:
        size = os.path.getsize(path)
        if not size or (size > _SEARCHED_BYTES and not _LIBRARY.match(os.path.basename(path))):
            return {}
        elf = Elf.open(Path(path))
        found: dict[str, int] = {}
        for name in FUNCTIONS:
            places = [at for table in _TABLES if (at := _offset(elf, name, *table))]
            if places and places[0] not in found.values():  # two names of one function are one probe
                found[name] = places[0]
        return found
    except (OSError, ElfError):
        return {}


def _offset(elf: Elf, name: str, symbols: str, strings: str) -> int:
    """The file offset of a function in a symbol table; 0 if the table does not define it."""
    import numpy as np

    index = elf.by_name.get(symbols)
    texts = elf.bytes_of(strings)
    wanted = name.encode() + b"\0"
    if index is None or wanted not in texts:
        return 0
    offsets, at = [], texts.find(wanted)
    while at >= 0:  # also as the tail of a longer name, which shares its bytes
        offsets.append(at)
        at = texts.find(wanted, at + 1)
    rows = np.frombuffer(elf.contents(index).tobytes(), _SYMBOL)
    for row in rows[np.isin(rows["name"], offsets) & (rows["section"] != 0)]:
        if int(row["section"]) < len(elf.sections):
            section = elf.sections[int(row["section"])]
            return int(row["value"]) - int(section["addr"]) + int(section["offset"])
    return 0


def tracefs() -> str | None:
    """The mount point of a usable tracefs, or None."""
    return next((f for f in _TRACEFS if os.access(f"{f}/uprobe_events", os.W_OK)), None)


def tracepoints() -> tuple[list[str], list[str]]:
    """Tracepoints that can be opened on this machine, and those that cannot."""
    folder = tracefs()
    there = [
        t for t in _TRACEPOINTS if folder and os.access(f"{folder}/events/{t.replace(':', '/')}/id", os.R_OK)
    ]
    return there, [t for t in _TRACEPOINTS if t not in there]


def targets(paths: Iterable[str]) -> dict[str, dict[str, int]]:
    """For each file with probed functions, those functions and their offsets."""
    return {path: found for path in paths if (found := functions_in(path))}
