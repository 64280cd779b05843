"""Native stacks of another process's threads, without a debugger.

A thread is stopped only while its registers and the top of its stack are copied, well under a millisecond; the copy is
unwound afterwards with the call frame information of the mapped files. Only x86-64 is supported.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
import time
from dataclasses import dataclass
from pathlib import Path

from warpsight.recorder.inspect import cfi
from warpsight.recorder.inspect.modules import ElfImage, Mapping, mappings

_SEIZE, _INTERRUPT, _DETACH, _GETREGS = 0x4206, 0x4207, 17, 12
_WALL = 0x40000000
_STOP_S = 0.3
_STACK_BYTES = 256 * 1024
_MOST_FRAMES = 128
#: DWARF numbers of the registers in user_regs_struct (sys/user.h), in its order; -1: no number.
_ORDER = (15, 14, 13, 12, 6, 3, 11, 10, 9, 8, 0, 2, 1, 4, 5, -1, 16, -1, -1, 7)
_RBP, _RSP, _RIP = 6, 7, 16


@dataclass(frozen=True)
class _NativeFrame:
    """One frame: the file it is in, the function when the file names it, and the address in the file."""

    module: str
    function: str
    address: int


@dataclass(frozen=True)
class _Copied:
    """A thread's registers and the top of its stack."""

    registers: dict[int, int]
    stack_at: int
    stack: bytes


class NotTraceable(Exception):
    """The thread cannot be stopped; the message gives the reason."""


class Unwinder:
    """Stacks of one process's threads. Use it from one thread of a dedicated process, because ptrace requires that."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._mappings = mappings(pid)
        self._modules: dict[str, ElfImage | None] = {}

    def stack(self, thread: int) -> list[_NativeFrame]:
        """Frames of a thread, innermost first.

        Raises:
            NotTraceable: when it may not be stopped or does not stop.
        """
        if platform.machine() != "x86_64":
            raise NotTraceable(f"native stacks of other processes are not read on {platform.machine()}")
        copied = _copy_thread(self._pid, thread)
        return [self._describe(pc, number) for number, pc in enumerate(self._walk(copied))]

    def _walk(self, copied: _Copied) -> list[int]:
        registers, signal = dict(copied.registers), False
        found: list[int] = []

        def memory(address: int, size: int) -> bytes | None:
            at = address - copied.stack_at
            if 0 <= at <= len(copied.stack) - size:
                return copied.stack[at : at + size]
            return _read_memory(self._pid, address, size)

        while len(found) < _MOST_FRAMES:
            pc = registers[_RIP]
            found.append(pc)
            try:
                caller, signal = self._caller(
                    registers, pc - (1 if len(found) > 1 and not signal else 0), memory
                )
            except (cfi.CfiError, LookupError, TypeError, ValueError, struct.error):
                caller, signal = _by_frame_pointer(registers, copied, memory), False
            if caller is None or caller[_RSP] <= registers[_RSP] or not self._mapping(caller[_RIP]):
                break
            registers = caller
        return found

    def _caller(
        self, registers: dict[int, int], pc: int, memory: cfi.Memory
    ) -> tuple[dict[int, int] | None, bool]:
        mapping = self._mapping(pc)
        module = self._module(mapping) if mapping else None
        if mapping is None or module is None:
            raise cfi.CfiError("code of no file")
        row = module.row_at(module.address_of(pc - mapping.start + mapping.offset))
        frame = cfi.frame_address(row.cfa, registers, memory)
        caller = {**registers, _RSP: frame}
        for register, rule in row.rules.items():
            value = rule.arg
            if rule.type == rule.UNDEFINED and register == row.return_register:
                return None, False  # where the thread began
            if isinstance(value, int):
                if rule.type == rule.OFFSET:
                    caller[register] = cfi.word(memory, frame + value)
                else:
                    caller[register] = registers[value] if rule.type == rule.REGISTER else frame + value
            elif value is not None:
                at = cfi.evaluate(value, registers, memory, [frame])
                caller[register] = cfi.word(memory, at) if rule.type == rule.EXPRESSION else at
        if row.return_register not in row.rules:
            raise cfi.CfiError("no return address")
        caller[_RIP] = caller[row.return_register]
        return caller, row.signal

    def _mapping(self, pc: int) -> Mapping | None:
        return next((m for m in self._mappings if m.executable and m.start <= pc < m.end), None)

    def _module(self, mapping: Mapping) -> ElfImage | None:
        if mapping.path not in self._modules:
            self._modules[mapping.path] = self._open(mapping)
        return self._modules[mapping.path]

    def _open(self, mapping: Mapping) -> ElfImage | None:
        with contextlib.suppress(OSError, ValueError, struct.error):
            if mapping.path == "[vdso]":
                return ElfImage(_read_memory(self._pid, mapping.start, mapping.end - mapping.start) or b"")
            inside = Path(f"/proc/{self._pid}/root{mapping.path}")  # its own view, where it is in a container
            return (
                ElfImage(inside if inside.exists() else Path(mapping.path))
                if mapping.path.startswith("/")
                else None
            )
        return None

    def _describe(self, pc: int, number: int) -> _NativeFrame:
        mapping = self._mapping(pc)
        if mapping is None:
            return _NativeFrame("", "", pc)
        module = self._module(mapping)
        if module is None:
            return _NativeFrame(mapping.path, "", pc - mapping.start + mapping.offset)
        address = module.address_of(pc - mapping.start + mapping.offset)
        return _NativeFrame(mapping.path, module.function_at(address - (1 if number else 0)), address)


def _by_frame_pointer(
    registers: dict[int, int], copied: _Copied, memory: cfi.Memory
) -> dict[int, int] | None:
    """The caller according to the chain of frame pointers, for code without frame information."""
    base = registers[_RBP]
    if not copied.stack_at <= base < copied.stack_at + len(copied.stack) - 16 or base < registers[_RSP]:
        return None
    try:
        return {**registers, _RBP: cfi.word(memory, base), _RIP: cfi.word(memory, base + 8), _RSP: base + 16}
    except cfi.CfiError:
        return None


def _copy_thread(pid: int, thread: int) -> _Copied:
    """Stop a thread, copy its registers and the top of its stack, and resume it.

    Raises:
        NotTraceable: when that is not possible.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    if libc.ptrace(_SEIZE, thread, None, None):
        raise NotTraceable(f"it may not be traced: {os.strerror(ctypes.get_errno()).lower()}")
    try:
        if libc.ptrace(_INTERRUPT, thread, None, None):
            raise NotTraceable(os.strerror(ctypes.get_errno()).lower())
        _await_stop(thread)
        raw = (ctypes.c_uint64 * 27)()
        if libc.ptrace(_GETREGS, thread, None, raw):
            raise NotTraceable(os.strerror(ctypes.get_errno()).lower())
        registers = {number: int(raw[at]) for at, number in enumerate(_ORDER) if number >= 0}
        stack = _read_memory(pid, registers[_RSP], _STACK_BYTES, partly=True) or b""
        return _Copied(registers, registers[_RSP], stack)
    finally:
        libc.ptrace(_DETACH, thread, None, None)


def _await_stop(thread: int) -> None:
    until = time.monotonic() + _STOP_S
    while time.monotonic() < until:
        with contextlib.suppress(ChildProcessError):
            seen, status = os.waitpid(thread, _WALL | os.WNOHANG)
            if seen == thread:
                if os.WIFSTOPPED(status):
                    return
                raise NotTraceable("it has ended")
        time.sleep(0.0005)
    raise NotTraceable("it does not stop: it is inside the kernel (the driver) and does not come out")


def _read_memory(pid: int, address: int, size: int, *, partly: bool = False) -> bytes | None:
    """Memory of a process, or None. `partly`: up to its end."""
    try:
        file = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    except OSError:
        return None
    try:
        data = os.pread(file, size, address)
        while partly and len(data) < size:
            more = os.pread(file, size - len(data), address + len(data))
            if not more:
                break
            data += more
    except OSError:
        data = data if partly and "data" in locals() else b""
    finally:
        os.close(file)
    return data if len(data) == size or (partly and data) else None
