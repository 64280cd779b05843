"""A core dump on the terminal: the verdict first, then where every lane is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import IO, Any

from warpsight.device_code.demangle import short
from warpsight.device_code.operations import meaning
from warpsight.ui.render.terminal import colored

_INTERNAL = re.compile(r"_INTERNAL_[0-9a-f]+_\d+_\w+?_[0-9a-f]{8}::|\(anonymous namespace\)::")
_LONGEST_KERNEL = 160
#: States of threads, by /proc's letters.
STATES = {"R": "running", "S": "sleeping", "D": "in the kernel, not interruptible", "T": "stopped", "t": "held by a debugger",
          "Z": "ended"}  # fmt: skip
_BOLD, _RED, _DIM, _RESET = "\033[1m", "\033[1;31m", "\033[2m", "\033[0m"


class _Style:
    def __init__(self, on: bool) -> None:
        self.on = on

    def __call__(self, code: str, text: str) -> str:
        return f"{code}{text}{_RESET}" if self.on else text


def show(summary: dict[str, Any], stream: IO[str], top: int = 12) -> None:
    """Print a summary (:func:`warpsight.debug.gpucore.summary.summarise`); `top` places at most."""
    style = _Style(colored(stream))
    for line in lines(summary, style, top):
        stream.write(line.rstrip() + "\n")


def lines(summary: dict[str, Any], style: _Style | None = None, top: int = 12) -> Iterator[str]:
    """The lines of :func:`show`, without their line ends."""
    paint = style or _Style(False)
    yield _headline(summary)
    for problem in summary["problems"]:
        yield paint(_RED, f"damaged: {problem}")
    yield ""
    yield from _verdict(summary, paint, top)
    yield ""
    yield from _grids(summary)
    if summary["places"]:
        yield ""
        yield from _places(summary, paint, top)
    for note in summary["notes"]:
        yield ""
        yield f"note: {note}"


def _headline(summary: dict[str, Any]) -> str:
    facts = [f"{summary['sections']:,} sections"]
    if summary["driver"]:
        facts.insert(0, f"driver {summary['driver']}, CUDA {summary['cuda']}")
    if summary["time"]:
        facts.append(summary["time"].replace("T", " ").replace("+00:00", " UTC"))
    devices = ", ".join(f"{d['name'] or 'device'} ({d['architecture']})" for d in summary["devices"])
    return f"{summary['file']}: GPU core dump of {devices}; {', '.join(facts)}"


def _verdict(summary: dict[str, Any], paint: _Style, top: int) -> Iterator[str]:
    if summary["kind"] == "idle":
        yield paint(_BOLD, "IDLE: no kernel was running, and there was no exception.")
        return
    if summary["kind"] == "hang":
        kernels = list(dict.fromkeys(grid["kernel"] for grid in summary["grids"] if grid["warps_resident"]))
        names = ", ".join(clipped(name) for name in kernels)
        verb = "was" if len(kernels) == 1 else "were"
        yield paint(_RED, f"NO EXCEPTION: {names} {verb} running when the dump was taken.")
        yield from _explanation(summary, top)
        return
    fault = summary["faults"][0]
    where = f" at {fault['pc']}" if fault["pc"] else ""
    yield paint(_RED, f"EXCEPTION: {fault['exception']}{where}")
    if fault["message"]:
        yield f"  {fault['message']}"
    yield f"  kernel {clipped(fault['kernel'] or 'unknown')}"
    yield f"  {_coordinates(fault)}"
    if fault["cluster_target"]:
        yield f"  the access went to block {triple(fault['cluster_target'])} of the cluster"
    if fault["at"]:
        yield from frame_lines(fault["at"], paint, "  ")
    yield from _access_lines(fault)
    yield from _call_lines(fault["calls"], paint)
    others = summary["faults"][1:]
    if others:
        kinds = ", ".join(dict.fromkeys(other["exception"] for other in others))
        yield f"  and {len(others)} more warps with exceptions ({kinds}); --json lists them"


def _explanation(summary: dict[str, Any], top: int) -> Iterator[str]:
    """What waits for what: the sentences of the summary, numbered like its places."""
    waiting = sum(
        place["lanes"] for place in summary["places"] if place["wait"] not in (None, "memory", "sleep")
    )
    lanes = sum(place["lanes"] for place in summary["places"])
    yield f"{waiting:,} of {lanes:,} lanes wait for others. Causes first:"
    for missing in summary["missing_blocks"]:
        several = f"{clipped(missing['kernel'])}: " if len(summary["missing_blocks"]) > 1 else ""
        yield f"  {several}{missing['text']}"
    said = sorted([*summary["roots"], *summary["chain"]], key=lambda part: int(part["place"]))
    for part in said[:top]:
        yield f"  ({part['place'] + 1}) {part['text']}"
    if len(said) > top:
        yield f"  and {len(said) - top:,} more; --top 0 shows all"


def _access_lines(fault: dict[str, Any]) -> Iterator[str]:
    found = fault["accesses"]
    if found is None:
        return
    suspects = found["suspects"]
    if suspects and len(suspects) < len(fault["lanes"]):
        named = ", ".join(f"thread {triple(s['thread'])} at {s['address']}" for s in suspects[:4])
        more = f" and {len(suspects) - 4} more" if len(suspects) > 4 else ""
        yield f"  by its registers it was {named}{more}; the warp accesses {found['lowest']} to {found['highest']}"
    else:
        yield f"  by its registers the warp accesses {found['lowest']} to {found['highest']}, {found['size']} bytes each"


def _call_lines(calls: list[dict[str, Any]], paint: _Style) -> Iterator[str]:
    repeated = 0
    previous = None
    for call in [*calls, None]:
        if call is not None and previous is not None and call["address"] == previous["address"]:
            repeated += 1
            continue
        if repeated:
            yield f"    … {repeated} more calls from the same place"
        repeated, previous = 0, call
        if call is not None:
            yield "  called from"
            yield from frame_lines(call, paint, "  ")


def _coordinates(fault: dict[str, Any]) -> str:
    text = f"device {fault['device']}, SM {fault['sm']}"
    where = fault["where"]
    if where is None:
        return text + ", its warp had already left"
    lanes = len(fault["lanes"])
    span = (
        f"{lanes} lanes, the first thread {triple(where['thread'])}"
        if lanes > 1
        else f"thread {triple(where['thread'])}"
    )
    grid = "" if where["grid"] is None else f"grid {where['grid']}, "
    block = "" if where["block"] is None else f"block {triple(where['block'])}, "
    return f"{grid}{block}{span}; {text}, warp {where['warp']}"


def frame_lines(at: dict[str, Any], paint: _Style | None = None, indent: str = "") -> Iterator[str]:
    """An address with its chain, innermost first, and its instruction."""
    style = paint or _Style(False)
    if not at["frames"]:
        place = f"{clipped(at['function'])} + {at['offset']:#x}" if at["function"] else "no code of the dump"
        yield f"{indent}at {at['address']} in {place}"
    for number, frame in enumerate(at["frames"]):
        name = plain_name(frame["function"]) or "?"
        word = "in" if number == 0 else "inlined into"
        column = f":{frame['column']}" if frame["column"] else ""
        yield f"{indent}{word} {style(_BOLD, name)} at {frame['file']}:{frame['line']}{column}"
        if frame["text"]:
            yield style(_DIM, f"{indent}    {frame['text']}")
    if at["refined"]:
        yield style(
            _DIM, f"{indent}(call sites from the PTX in the module; the line table alone says otherwise)"
        )
    what = at["instruction"] or _operation_text(at["operation"])
    if what:
        yield f"{indent}instruction {what}" + (f" at + {at['offset']:#x}" if at["frames"] else "")


def _operation_text(operation: str | None) -> str:
    if not operation:
        return ""
    words = meaning(operation)
    return f"{operation} ({words})" if words else operation


def _grids(summary: dict[str, Any]) -> Iterator[str]:
    for grid in summary["grids"]:
        known = grid["blocks"] is not None
        shape = f"<<<{triple(grid['grid']) if known else '?'}, {triple(grid['block'])}>>>"
        of = f" of {grid['blocks']:,}" if known else ""
        cluster = f", clusters of {triple(grid['cluster'])}" if grid["cluster"] else ""
        yield f"grid {grid['id']}: {clipped(grid['kernel'])} {shape}{cluster}, {grid['status']}"
        yield (
            f"  on the device: {grid['blocks_resident']:,}{of} blocks, {grid['warps_resident']:,} warps; "
            f"lanes: {grid['lanes_active']:,} active, {grid['lanes_diverged']:,} diverged, "
            f"{grid['lanes_exited']:,} exited; {grid['registers']} registers, launched by thread {grid['host_thread']}"
        )


def _places(summary: dict[str, Any], paint: _Style, top: int) -> Iterator[str]:
    yield "Where the lanes are"
    several = len({place["kernel"] for place in summary["places"]}) > 1
    for number, place in enumerate(summary["places"][:top], 1):
        state = "" if place["active"] else ", diverged"
        lanes = "lane" if place["lanes"] == 1 else "lanes"
        warps = "warp" if place["warps"] == 1 else "warps"
        blocks = "block" if place["blocks"] == 1 else "blocks"
        waits = f", waiting for {place['waits_for']}" if place["waits_for"] else ""
        kernel = f" of {plain_name(place['kernel'])}" if several and place["kernel"] else ""
        mark = f"({number})" if summary["kind"] == "hang" else ""
        yield (
            f"{mark:<5}{place['lanes']:>7,} {lanes}{kernel} ({place['warps']:,} {warps}, {place['blocks']:,} {blocks})"
            f"{state}{waits}"
        )
        yield from frame_lines(place["at"], paint, " " * 13)
        example = place["example"]
        if example["block"] is not None:
            yield paint(
                _DIM,
                f"             e.g. block {triple(example['block'])} thread {triple(example['thread'])}, "
                f"SM {example['sm']} warp {example['warp']}",
            )
    hidden = len(summary["places"]) - top + summary["places_left_out"]
    if hidden > 0:
        yield f"  and {hidden:,} more places; --top 0 shows all"


def triple(values: Sequence[int]) -> str:
    """A position in a block or a grid, as `(1,2,3)`."""
    return f"({','.join(map(str, values))})"


def plain_name(name: str) -> str:
    """A function's short name, without the names nvcc invents for files."""
    return short(_INTERNAL.sub("", name)) if name else ""


def clipped(name: str) -> str:
    """A kernel's name, shortened to fit a terminal."""
    text = _INTERNAL.sub("", name)
    return text if len(text) <= _LONGEST_KERNEL else short(text)[:_LONGEST_KERNEL]
