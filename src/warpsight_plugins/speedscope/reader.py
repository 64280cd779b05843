"""speedscope files into traces: each profile is a thread; evented ones become ranges, sampled ones stacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from warpsight.formats.reading import weighted
from warpsight.formats.registry import Coverage, Options
from warpsight.model.definitions import Frame

if TYPE_CHECKING:
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target

COVERAGE = Coverage(
    kept=(
        "evented profiles as `marker` rows with depth; sampled profiles as samples; profiles without times as"
        " stacks with weights",
        "frames with name, file and line; a thread per profile",
    ),
    lost=("columns of frames; viewer settings",),
    tested=("files of speedscope 0.0.1, 0.1.2 and 0.6.0; every kind of profile and unit",),
)
_UNITS = {"nanoseconds": 1, "microseconds": 1_000, "milliseconds": 1_000_000, "seconds": 1_000_000_000}


def sniff(source: Source) -> bool:
    """Whether the JSON names speedscope's schema, or has its two parts at the top."""
    head = source.head
    if head.lstrip()[:1] != b"{":
        return False
    return b"speedscope.app/file-format-schema" in head or (b'"shared"' in head and b'"profiles"' in head)


def read(source: Source, target: Target, options: Options) -> None:
    """Read a file.

    Raises:
        FormatError: for anything that does not follow the schema, with the place in the document.
    """
    from decimal import Decimal

    import msgspec

    with source.open() as file:
        data = file.read()
    try:
        document = msgspec.json.Decoder(float_hook=Decimal).decode(data)
        frames = [_frame(frame) for frame in document["shared"]["frames"]]
        profiles = list(document["profiles"])
    except msgspec.DecodeError as error:
        raise source.error(f"is not JSON: {error}") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise source.error(f"has no shared.frames or profiles as the schema says: {error}") from None
    process = target.process(0, command=str(document.get("name") or source.path.name))
    target.source.update(tool=str(document.get("exporter") or ""), clock="each profile's own")
    for number, profile in enumerate(profiles):
        try:
            _profile(target, process, number, profile, frames)
        except KeyError as error:
            raise source.error(f"profile {number} has no field {error}") from None
        except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise source.error(f"profile {number} does not match the schema: {error}") from None


def _frame(frame: dict[str, Any]) -> Frame:
    line = frame.get("line")
    file = frame.get("file")
    known = line if type(line) is int and 0 <= line < 1 << 31 else None
    return (str(frame["name"]), None if file is None else str(file), known, None, "native", None)


def _profile(target: Target, process: int, number: int, profile: dict[str, Any], frames: list[Frame]) -> None:
    name = str(profile.get("name") or f"profile {number}")
    thread = target.thread(process, number + 1, name)
    scale = _UNITS.get(profile["unit"], 0)
    if profile["type"] == "evented":
        left = _evented(target, process, thread, profile, frames, scale or 1)
        if left:  # the format asks for a close of every open
            told = f"profile {number}" if name == f"profile {number}" else f"profile {number} ({name})"
            cause = f"frames of {told} are never closed, so the file is incomplete: they stay open until the profile's end"
            target.lost(left, cause, "marker")
    elif profile["type"] != "sampled":
        raise ValueError(f"type {profile['type']!r} is neither evented nor sampled")
    elif scale:
        _sampled(target, process, thread, profile, frames, scale)
    else:
        _weights(target, profile, frames)


def _checked(frame: object, frames: list[Frame]) -> int:
    """A frame number from an event or sample, validated."""
    if isinstance(frame, bool) or not isinstance(frame, int):
        told = repr(frame) if isinstance(frame, str) else frame
        raise ValueError(f"frame {told} is not a number of shared.frames")
    if not 0 <= frame < len(frames):
        raise ValueError(f"frame {frame} is named, but shared.frames has {len(frames)}, numbered from 0")
    return frame


def _ns(value: float, scale: int) -> int:
    """A value in the profile's unit as ns, exact unless it has fractions of ns."""
    found = int(value * scale)
    if not -(1 << 62) < found < 1 << 62:
        raise ValueError(f"a time of {value} is out of range")
    return found


def _evented(
    target: Target, process: int, thread: int, profile: dict[str, Any], frames: list[Frame], scale: int
) -> int:
    """Ranges from opening and closing events; those still open at the end are closed there. Also returns their number."""
    stack: list[tuple[int, int]] = []
    rows: list[tuple[int, int, int, int, bool]] = []
    for event in profile["events"]:
        at, number = _ns(event["at"], scale), _checked(event["frame"], frames)
        if event["type"] == "O":
            stack.append((number, at))
        elif event["type"] == "C":
            if not stack or stack[-1][0] != number:
                raise ValueError(
                    f"frame {number} is closed at {event['at']} and is not the innermost open one"
                )
            begin = stack.pop()[1]
            rows.append((begin, at - begin, number, len(stack), False))
        else:
            raise ValueError(f"event type {event['type']!r}")
    end, left = _ns(profile["endValue"], scale), len(stack)
    while stack:
        number, begin = stack.pop()
        rows.append((begin, max(end - begin, 0), number, len(stack), True))
    if not rows:
        return 0
    start, duration, frame, depth, unclosed = (list(column) for column in zip(*rows, strict=True))
    count = len(rows)
    target.add("marker", {"start": start, "duration": duration, "kind": ["push/pop"] * count, "open": unclosed,
                          "name_id": [target.name(frames[f][0]) for f in frame], "depth": depth, "source": ["framework"] * count,
                          "stack": [target.stack([frames[f]]) for f in frame],
                          "thread": [thread] * count, "process": [process] * count})  # fmt: skip
    return left


def _stacks(target: Target, samples: list[list[int]], frames: list[Frame]) -> list[int | None]:
    known: dict[tuple[int, ...], int | None] = {}
    out = []
    for sample in samples:
        key = tuple(sample)
        if key not in known:
            known[key] = target.stack([frames[_checked(f, frames)] for f in key])
        out.append(known[key])
    return out


def _sampled(
    target: Target, process: int, thread: int, profile: dict[str, Any], frames: list[Frame], scale: int
) -> None:
    samples, weights = profile["samples"], [_ns(w, scale) for w in profile["weights"]]
    if len(samples) != len(weights):
        raise ValueError(f"{len(samples)} samples and {len(weights)} weights")
    if not samples:
        return
    begin = _ns(profile["startValue"], scale)
    ends = begin + np.cumsum(np.array(weights, np.int64))
    count = len(samples)
    stacks = _stacks(target, samples, frames)
    times = ends - np.array(weights, np.int64)
    target.add("sample", {"time": times, "thread": [thread] * count, "stack": stacks, "state": ["R"] * count,
                          "gil": [False] * count, "process": [process] * count})  # fmt: skip
    names = [frames[sample[-1]][0] if sample else "(idle)" for sample in samples]
    target.add("user_event", {"start": times, "duration": weights, "name": names, "kind": [weighted.KIND] * count,
                              "stack": stacks, "thread": [thread] * count, "process": [process] * count})  # fmt: skip


def _weights(target: Target, profile: dict[str, Any], frames: list[Frame]) -> None:
    if len(profile["samples"]) != len(profile["weights"]):
        raise ValueError(f"{len(profile['samples'])} samples and {len(profile['weights'])} weights")
    found = [
        (tuple(frames[_checked(f, frames)] for f in sample), int(weight))
        for sample, weight in zip(profile["samples"], profile["weights"], strict=True) if sample
    ]  # fmt: skip
    if found:
        weighted.place(target, found, str(profile["unit"]))
