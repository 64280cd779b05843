"""Reports of NVIDIA's Compute Sanitizer: its XML, record by record, grouped into findings.

The tool writes one record per thread; a single wrong line can give thousands. Records with the same kind, message, device chain
and host stack become one finding with a count and threads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ParseError, iterparse

from warpsight.device_code.debug_info.inline_chain import Frame, source_line
from warpsight.device_code.demangle import demangle

_NUMBER = re.compile(r"0x[0-9a-f]+")
#: Frames of the CUDA runtime and of the C library below main, which are unrelated to the program.
_PLUMBING = re.compile(
    r"^(libcudart_static_|__cudaLaunchKernel|__device_stub__|_start$|__libc_start|cudaLaunchKernel|cuLaunchKernel)"
)
#: Maximum threads named in a finding.
_THREADS = 64
Coordinates = tuple[int, int, int]


@dataclass(frozen=True)
class RaceSide:
    """One side of a race.

    Attributes:
        direction: `read` or `write`.
        chain: the source frames, innermost first; the report itself gives only the innermost.
        offset: offset of the instruction in its kernel's code, None if the report has none.
        hazards: number of hazards it took part in, None for the first side.
    """

    direction: str
    chain: tuple[Frame, ...]
    offset: int | None
    hazards: int | None


@dataclass(frozen=True)
class _HostFrame:
    """One frame of the host stack at the launch or at the error."""

    function: str
    module: str
    offset: str
    file: str = ""
    line: int = 0


@dataclass
class SanitizerFinding:
    """One finding of the tool, without repeats.

    Attributes:
        kind: the tool's own word: `Precise`, `Initcheck`, `Synccheck`, `Analysis` (a race), `Api`, `Leak`, ….
        severity: `error`, `warning` or `info`.
        message: in the tool's words.
        frames: where on the device, innermost first; empty for host errors.
        accesses: the sides of a race, the first is the one the others conflict with.
        count: number of records; threads: (block, thread) of the first of them.
        host: the host stack, innermost first; host_at: the event at which it was saved.
        address, size: address and size of the access, if there is one.
    """

    kind: str
    severity: str
    message: str
    frames: tuple[Frame, ...]
    accesses: tuple[RaceSide, ...]
    host: tuple[_HostFrame, ...]
    host_at: str
    address: int | None = None
    size: int | None = None
    count: int = 0
    threads: list[tuple[Coordinates, Coordinates]] = field(default_factory=list)

    def to_json(self, sources: tuple[str, ...] = ()) -> dict[str, Any]:
        """The finding for JSON, with source lines if the files are on this machine."""
        return {
            "kind": self.kind,
            "severity": self.severity,
            "message": self.message,
            "count": self.count,
            "frames": [_frame_json(frame, sources) for frame in self.frames],
            "accesses": [
                {
                    "direction": access.direction,
                    "frames": [_frame_json(frame, sources) for frame in access.chain],
                    "hazards": access.hazards,
                }
                for access in self.accesses
            ],
            "address": hex(self.address) if self.address is not None else None,
            "size": self.size,
            "threads": [{"block": list(block), "thread": list(thread)} for block, thread in self.threads],
            "host_stack": [
                {"function": f.function, "module": f.module, "offset": f.offset, "file": f.file or None,
                 "line": f.line or None}
                for f in self.host
            ],
            "host_stack_at": self.host_at or None,
        }  # fmt: skip


def _frame_json(frame: Frame, sources: tuple[str, ...]) -> dict[str, Any]:
    text = source_line(frame.file, frame.line, sources)
    return {"function": frame.function, "file": frame.file, "line": frame.line, "text": text}


def findings(paths: Iterable[Path]) -> tuple[list[SanitizerFinding], list[str]]:
    """The findings from all processes' reports, most severe and frequent first, and any damage."""
    found: dict[tuple[object, ...], SanitizerFinding] = {}
    problems: list[str] = []
    for path in paths:
        for record in _records(path, problems):
            finding, thread = _finding(record)
            key = (
                finding.kind, finding.severity, _NUMBER.sub("", finding.message), finding.frames, finding.accesses,
                finding.host,
            )  # fmt: skip
            known = found.setdefault(key, finding)
            known.count += 1
            if thread is not None and len(known.threads) < _THREADS:
                known.threads.append(thread)
    order = {"error": 0, "warning": 1, "info": 2}
    return sorted(found.values(), key=lambda f: (order.get(f.severity, 3), -f.count)), problems


def _records(path: Path, problems: list[str]) -> Iterator[Element]:
    """The complete records of one report; a truncated report ends with a problem."""
    try:
        for _, element in iterparse(path, events=("end",)):
            if element.tag == "record":
                yield element
                element.clear()
    except ParseError as error:
        problems.append(f"{path}: the report ends early or is damaged ({error}); whole records were used")
    except OSError as error:
        problems.append(f"{path}: {error.strerror or error}")


def _text(element: Element | None, path: str) -> str:
    found = element.find(path) if element is not None else None
    return (found.text or "").strip() if found is not None else ""


def _integer(text: str) -> int | None:
    try:
        return int(text, 0)
    except ValueError:
        return None


def _finding(record: Element) -> tuple[SanitizerFinding, tuple[Coordinates, Coordinates] | None]:
    what, where = record.find("what"), record.find("where")
    frames = [_frame(where)] if where is not None else []
    frames += [_frame(frame) for frame in record.findall("deviceStack/frame")]
    accesses = [_access(side) for side in (what.findall("source") if what is not None else [])]
    accesses += [_access(side) for side in (what.findall("destination") if what is not None else [])]
    level = _text(record, "level").lower()
    finding = SanitizerFinding(
        kind=_text(record, "kind") or "unknown",
        severity=level if level in ("error", "warning", "info") else "error",
        message=_message(record, what),
        frames=tuple(frame for frame in frames if frame is not None),
        accesses=tuple(accesses),
        host=tuple(_host_frame(frame) for frame in record.findall("hostStack/frame")),
        host_at=_text(record, "hostStack/saveLocation"),
        address=_integer(_text(what, "address")),
        size=_integer(_text(what, "size")),
    )
    thread, block = _coordinates(record.find("who/threadIdx")), _coordinates(record.find("who/blockIdx"))
    return finding, (block, thread) if thread is not None and block is not None else None


def _message(record: Element, what: Element | None) -> str:
    text, detail = _text(what, "text"), _text(what, "type")
    words = f"{text}: {detail}" if detail and detail not in text else text
    return words or _text(record, "kind") or "the tool gave no message"


def _frame(element: Element | None) -> Frame | None:
    if element is None:
        return None
    return Frame(
        demangle(_text(element, "func")), _text(element, "path"), _integer(_text(element, "line")) or 0
    )


def _access(element: Element) -> RaceSide:
    direction = _text(element, "direction").lower()
    frame = _frame(element.find("where"))
    offset = _integer(_text(element, "where/pc"))
    return RaceSide(direction, (frame,) if frame else (), offset, _integer(_text(element, "count")))


def _host_frame(element: Element) -> _HostFrame:
    return _HostFrame(
        demangle(_text(element, "func")), _text(element, "module"), _text(element, "pc"), _text(element, "path"),
        _integer(_text(element, "line")) or 0,
    )  # fmt: skip


def _coordinates(element: Element | None) -> Coordinates | None:
    if element is None:
        return None
    values = [_integer(_text(element, axis)) for axis in ("x", "y", "z")]
    x, y, z = (value or 0 for value in values)
    return x, y, z


def interesting(host: Iterable[_HostFrame]) -> list[_HostFrame]:
    """The frames of a host stack that belong to the program."""
    return [
        frame
        for frame in host
        if frame.function and not _PLUMBING.match(frame.function) and "libcuda.so" not in frame.module
    ]
