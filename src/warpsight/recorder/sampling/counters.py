"""GPU counters during a recording: a thread of the launcher queries NVML, 10 times a second by default."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from difflib import get_close_matches
from fnmatch import fnmatch
from types import ModuleType
from typing import Any

from warpsight.capture.segments import layout
from warpsight.errors import UsageError
from warpsight.recorder.drain.arena import LOSS_NOTE, OwnRows
from warpsight.recorder.sampling.nvml import NAMES, GpuReaders

_DEFAULT_HZ = 10.0
_MOST_HZ = 1000.0


def parse(text: str) -> tuple[float, tuple[str, ...]]:
    """Read `--counters`: "off", samples per second, or patterns of names → (Hz, patterns); 0 Hz is off.

    Raises:
        UsageError: for a rate out of range, or a pattern that matches no counter.
    """
    if text.strip().lower() in ("off", "0", ""):
        return 0.0, ()
    try:
        rate = float(text)
    except ValueError:
        patterns = tuple(part.strip() for part in text.split(",") if part.strip())
        for pattern in patterns:
            _check_known(pattern)
        return _DEFAULT_HZ, patterns
    if not 0 < rate <= _MOST_HZ:
        raise UsageError(
            f"--counters takes off, a rate up to {_MOST_HZ:g} Hz, or names of counters, not {text!r}"
        )
    return rate, ()


def _check_known(pattern: str) -> None:
    if any(fnmatch(name, pattern) for name in NAMES):
        return
    near = get_close_matches(pattern.strip("*?"), NAMES, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"counters: {', '.join(NAMES)}"
    raise UsageError(f"--counters {pattern!r} matches no counter; {hint}")


class CounterSampler:
    """Samples every GPU that the program may use. Without NVML it notes that and does nothing."""

    def __init__(
        self,
        rows: OwnRows,
        setting: str,
        *,
        nvml: ModuleType | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """`nvml` replaces the module pynvml in tests."""
        self._rows = rows
        self.hz, self._patterns = parse(setting)
        self._nvml: Any = nvml
        self._environment = environment
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._gpus: list[GpuReaders] = []
        self.cpu_ns = 0

    def start(self) -> None:
        """Start in a thread, because loading NVML may take a while and must not delay the program."""
        if self.hz:
            self._thread = threading.Thread(target=self._run, name="counters", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread; returns once it has written its last row."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def _run(self) -> None:
        if not self.open():
            return
        period = 1 / self.hz
        due = time.monotonic()
        while not self._stopping.is_set():
            self.sample()
            self.cpu_ns = time.thread_time_ns()
            due = max(
                due + period, time.monotonic()
            )  # a slow driver makes samples rarer, not a queue of them
            self._stopping.wait(due - time.monotonic())
        self.close()

    def open(self) -> bool:
        """Load NVML and describe the devices; without NVML, add a note to table `loss` and return False."""
        try:
            if self._nvml is None:
                import pynvml

                self._nvml = pynvml
            self._nvml.nvmlInit()
            indices = self._visible(int(self._nvml.nvmlDeviceGetCount()))
        except Exception as error:  # no module, no driver, no permission: recording goes on without counters
            self._rows.loss(
                "counters", f"no GPU counters: {error or type(error).__name__}", severity=LOSS_NOTE
            )
            return False
        for index in indices:
            handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
            self._describe(index, handle)
            self._gpus.append(GpuReaders(self._nvml, index, handle, self._is_chosen))
        return bool(self._gpus)

    def sample(self) -> None:
        """Write one round of counter rows."""
        for gpu in self._gpus:
            refused = set(gpu.refused)
            for value in gpu.read():
                self._rows.write("Counter", time=time.monotonic_ns(), value=value.value, name=self._rows.intern(value.name),
                                 unit=self._rows.intern(value.unit), device=gpu.index, source=value.source)  # fmt: skip
            for name in set(gpu.refused) - refused:
                self._rows.loss(
                    "counters",
                    f"GPU {gpu.index} does not report {name}: {gpu.refused[name]}",
                    severity=LOSS_NOTE,
                )

    def close(self) -> None:
        """Shut NVML down."""
        for gpu in self._gpus:
            gpu.close()
        self._nvml.nvmlShutdown()

    def _is_chosen(self, name: str) -> bool:
        """Whether a counter (or, for a name ending in `_`, any of that family) was requested."""
        if not self._patterns:
            return True
        if name.endswith("_"):
            return any(p.startswith(name) or fnmatch(name, p) for p in self._patterns)
        return any(fnmatch(name, pattern) for pattern in self._patterns)

    def _visible(self, count: int) -> list[int]:
        """NVML indices of the devices in CUDA_VISIBLE_DEVICES, all if it names none of them."""
        listed = self._environment.get("CUDA_VISIBLE_DEVICES")
        if listed is None:
            return list(range(count))
        uuids = {
            i: _text(self._nvml.nvmlDeviceGetUUID(self._nvml.nvmlDeviceGetHandleByIndex(i)))
            for i in range(count)
        }
        chosen = []
        for part in (p.strip() for p in listed.split(",")):
            found = [i for i in uuids if part == str(i) or (len(part) > 4 and uuids[i].startswith(part))]
            if not found:
                break  # CUDA ignores everything after the first entry it does not know
            chosen += found
        return chosen

    def _describe(self, index: int, handle: object) -> None:
        """Write the Device row that gives counter rows their device."""
        nvml, intern = self._nvml, self._rows.intern

        def ask(function: str, *arguments: object) -> Any:
            try:
                return getattr(nvml, function)(*arguments)
            except (AttributeError, nvml.NVMLError):
                return None

        memory = ask("nvmlDeviceGetMemoryInfo", handle)
        major, minor = ask("nvmlDeviceGetCudaComputeCapability", handle) or (0, 0)
        pci = ask("nvmlDeviceGetPciInfo", handle)
        self._rows.write(
            "Device", device=index, name=intern(_text(ask("nvmlDeviceGetName", handle))),
            uuid=intern(_text(ask("nvmlDeviceGetUUID", handle))), vendor=intern("NVIDIA"),
            pci=intern(_pci(pci)), platform=layout.BACKEND_CUDA, memory_bytes=int(memory.total) if memory else 0,
            compute_major=major, compute_minor=minor, clock_khz=1000 * (ask("nvmlDeviceGetMaxClockInfo", handle, 1) or 0),
            memory_clock_khz=1000 * (ask("nvmlDeviceGetMaxClockInfo", handle, 2) or 0),
            driver=intern(_text(ask("nvmlSystemGetDriverVersion"))),
        )  # fmt: skip


def _pci(info: Any) -> str:
    """The PCI address as the CUDA recorder writes it: domain:bus:device.function."""
    return f"{info.domain:04x}:{info.bus:02x}:{info.device:02x}.0" if info is not None else ""


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value or "")
