"""The text of kernel log lines; everything that many launches share is formatted once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from warpsight.device_code import demangle
from warpsight.model.definitions import Definitions, Frame
from warpsight.model.sharing.secrets import secretless

if TYPE_CHECKING:
    from warpsight.capture.arena import Arena

#: FNV-1a, 64 bits; http://www.isthe.com/chongo/tech/comp/fnv/
_FNV_START, _FNV_PRIME, _FNV_MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1
_SEPARATOR = b"\xff"
#: The source of a stack's frames, in CUTracer's words for the same kind of stack.
_SOURCES = {"frame chain": "cpython", "with GIL": "cpython_gil", "unwinder": "backtrace"}
#: Number of tails kept from one segment to the next.
_MOST_TAILS = 100_000
_EMPTY_SHAPE = (0,) * 15
Key = tuple[int, int, int, int, int]


class LogTexts:
    """Texts of one log: tails of lines by their content, and stacks by id. `stacks` is dedup, full or none."""

    def __init__(self, definitions: Definitions, stacks: str) -> None:
        self._definitions = definitions
        self._stacks = stacks
        #: Ids of stacks whose definition has been written.
        self.defined: set[str] = set()
        self._tails: dict[tuple[str, Key], str] = {}
        self._names = [""]
        self._shapes: list[Any] = [_EMPTY_SHAPE]
        self._frames: list[str] = [""]
        self._tree: list[tuple[int, int, str, bool]] = [(0, 0, "", False)]
        self._hashes = [_FNV_START]

    def tails(self, arena: Arena, keys: list[list[int]]) -> tuple[list[str], list[str]]:
        """For each (name, shape, stream, stack, module): its line from after the launch's id up to its correlation id.

        Also the definition lines of stacks that no line has used yet.
        """
        self._learn()
        if len(self._tails) > _MOST_TAILS:
            self._tails.clear()
        tails, definitions = [], []
        checksums = arena.checksums()
        for name, shape, stream, stack, module in keys:
            key = (arena.name, (name, shape, stream, stack, module))
            tail = self._tails.get(key)
            if tail is None:
                tail = self._tails[key] = self._tail(arena.pid, key[1], checksums.get(module, 0))
            tails.append(tail)
            if self._stacks == "dedup" and stack and (text := self._definition(stack)):
                definitions.append(text)
        return tails, definitions

    def _learn(self) -> None:
        """Add names, shapes, frames and stacks that are new in the trace."""
        listed = self._definitions.listed
        self._names += map(secretless, demangle.demangle_all(listed("name", len(self._names) - 1)))
        self._shapes += listed("shape", len(self._shapes) - 1)
        self._frames += map(secretless, map(_frame, listed("frame", len(self._frames) - 1)))
        for stack in listed("stack", len(self._tree) - 1):
            parent, frame, _, _ = stack
            self._tree.append(stack)
            self._hashes.append(_fnv(self._hashes[parent], self._frames[frame].encode() + _SEPARATOR))

    def _tail(self, pid: int, key: Key, checksum: int) -> str:
        name, shape, stream, stack, _ = key
        numbers = self._shapes[shape]
        content: dict[str, Any] = {
            "kernel_name": self._names[name],
            "kernel_checksum": f"{checksum:016x}" if checksum else "",
            "grid": list(numbers[0:3]),
            "block": list(numbers[3:6]),
            "nregs": numbers[9],
            "shmem": numbers[10] + numbers[11],
            "stream_id": stream,
        }
        if self._stacks == "dedup":
            content["callstack_id"] = self._id(stack) if stack else None
        elif self._stacks == "full":
            content["cpu_callstack"] = self._lines(stack)
            content["cpu_callstack_source"] = self._source(stack)
        content["pid"] = pid
        return "," + _dump(content)[1:-1] + ',"correlation_id":'

    def _definition(self, stack: int) -> str:
        """The line that defines a stack; empty if it was already written."""
        number = self._id(stack)
        if number in self.defined:
            return ""
        self.defined.add(number)
        content = {
            "type": "callstack_def",
            "callstack_id": number,
            "frames": self._lines(stack),
            "source": self._source(stack),
        }
        return _dump(content) + "\n"

    def _id(self, stack: int) -> str:
        return f"{self._hashes[stack]:016x}"

    def _lines(self, stack: int) -> list[str]:
        """Frames, outermost first, so that the last one is the caller of the launch."""
        frames = []
        while stack:
            stack, frame, _, _ = self._tree[stack]
            frames.append(self._frames[frame])
        return frames[::-1]

    def _source(self, stack: int) -> str:
        method = self._tree[stack][2]
        return _SOURCES.get(method, method)


def _frame(frame: Frame) -> str:
    """`file:line in function`; for native code, `function+0xoffset (module)`."""
    function, file, line, address, kind, _ = frame
    if kind == "native":
        readable = demangle.demangle_all([function])[0]
        return f"{readable}+0x{address or 0:x}" + (f" ({file})" if file else "")
    return f"{file or '?'}:{line or 0} in {function}"


def _fnv(state: int, data: bytes) -> int:
    for byte in data:
        state = ((state ^ byte) * _FNV_PRIME) & _FNV_MASK
    return state


def _dump(content: dict[str, Any]) -> str:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False)
