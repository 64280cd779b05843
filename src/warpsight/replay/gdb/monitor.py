"""The answers to `monitor COMMAND`: operations, memory, arguments, recent changes, breakpoints by kernel."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from warpsight.device_code.demangle import demangle, short
from warpsight.replay.capsule import manifest as m
from warpsight.replay.gdb.stepping import Stepping
from warpsight.replay.outcome import title
from warpsight.replay.schedules.sequence import OperationSequence

_HELP = """operations              all of them, and where the replay stands
memory                  allocations and their addresses
arguments               parameters of the next kernel, and the memory they point to
changed                 memory that the last operation changed
break KERNEL [N]        stop before a kernel, or its Nth launch (from 1); break NUMBER: before an operation; break end
delete                  no breakpoints by kernel any more
restart                 back to the beginning
"""
_CHANGES_SHOWN = 20
#: Maximum bytes of all allocations saved before a step, to find out what it changed.
_MOST_KEPT = 4 << 30


class Monitor:
    """Commands of a debugger's user; `breaks`: steps to stop before."""

    def __init__(self, manifest: m.Manifest, steps: OperationSequence, stepping: Stepping) -> None:
        self.manifest = manifest
        self.steps = steps.steps
        self.stepping = stepping
        self.breaks: set[int] = set()
        self.before: list[bytes] | None = None

    def run(self, text: str) -> str:
        """The answer to a command line."""
        word, *rest = text.split() or ["help"]
        if word == "operations":
            return "".join(self._operations())
        if word == "memory":
            return "".join(f"a{i}  {a.address:#x}  {a.size} bytes  {a.kind}  {a.reached}\n"
                           for i, a in enumerate(self.manifest.allocations))  # fmt: skip
        if word == "arguments":
            return "".join(self._arguments())
        if word == "changed":
            return "".join(self._changed())
        if word == "break" and rest:
            return self._break(rest[0], rest[1] if len(rest) > 1 else None)
        if word == "delete":
            self.breaks.clear()
            return "no breakpoints\n"
        if word == "restart":
            self.stepping.restart()
            return "at the beginning; `flushregs` makes gdb ask where\n"
        return _HELP

    def name(self, step: int) -> str:
        """The description of a step."""
        return title(self.manifest, self.steps[step].work) if step < len(self.steps) else "end"

    def step(self) -> None:
        """Run the next step, and keep the memory's previous contents."""
        held = self.manifest.allocations
        small = sum(a.size for a in held) <= _MOST_KEPT
        self.before = [self.stepping.read(a.address, a.size) for a in held] if small else None
        self.stepping.step()

    def _operations(self) -> Iterator[str]:
        for i, step in enumerate(self.steps):
            mark = "=>" if i == self.stepping.position else "  "
            number = "-" if step.operation is None else str(step.operation)
            yield f"{mark} {i}  operation {number}  stream {step.work.stream}  {self.name(i)}\n"
        if self.stepping.position == len(self.steps):
            yield "=> end\n"

    def _arguments(self) -> Iterator[str]:
        work = self.steps[self.stepping.position].work if self.stepping.position < len(self.steps) else None
        if not isinstance(work, m.Launch):
            yield "the next operation is not a kernel\n"
            return
        function = self.manifest.functions[work.function]
        yield f"{demangle(function.name)}  grid {work.grid}  block {work.block}\n"
        for parameter in function.parameters:
            data = work.parameters[parameter.offset : parameter.offset + parameter.size]
            yield f"  at {parameter.offset}: {self._value(data)}\n"

    def _value(self, data: bytes) -> str:
        if len(data) == 8:
            (word,) = struct.unpack("<Q", data)
            for i, a in enumerate(self.manifest.allocations):
                if a.address <= word < a.address + a.size:
                    return f"{word:#x}  a{i} + {word - a.address} of {a.size} bytes"
            return f"{word:#x}"
        if len(data) == 4:
            return f"{struct.unpack('<i', data)[0]}  as float {struct.unpack('<f', data)[0]:g}"
        return data[:64].hex(" ", 4) + ("…" if len(data) > 64 else "")

    def _changed(self) -> Iterator[str]:
        if self.before is None or not self.stepping.position:
            yield "no operation has run yet in a step (use stepi), or the memory is too large to compare\n"
            return
        yield f"{self.name(self.stepping.position - 1)} changed\n"
        for i, (allocation, old) in enumerate(zip(self.manifest.allocations, self.before, strict=True)):
            new = np.frombuffer(self.stepping.read(allocation.address, allocation.size), np.uint8)
            places = np.flatnonzero(new != np.frombuffer(old, np.uint8))
            if len(places):
                start, end = int(places[0]), int(places[-1]) + 1
                yield f"  a{i}  {allocation.address + start:#x} to {allocation.address + end:#x}, {len(places)} bytes\n"

    def _break(self, what: str, count: str | None) -> str:
        if what == "end":
            found = [len(self.steps)]
        elif what.isdecimal():
            found = [i for i, step in enumerate(self.steps) if step.operation == int(what)]
        else:
            found = [i for i, step in enumerate(self.steps) if self._is_kernel(step.work, what)]
            if count is not None and count.isdecimal():
                found = found[int(count) - 1 : int(count)] if int(count) else []
        self.breaks |= set(found)
        places = ", ".join(str(i) for i in found[:_CHANGES_SHOWN])
        return (
            f"breaks before {places}\n"
            if found
            else f"nothing is called {what}; `monitor operations` lists them\n"
        )

    def _is_kernel(self, work: object, name: str) -> bool:
        if not isinstance(work, m.Launch):
            return False
        mangled = self.manifest.functions[work.function].name
        return name in (mangled, short(demangle(mangled)))
