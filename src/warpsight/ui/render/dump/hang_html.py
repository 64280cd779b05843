"""The report of a hang or crash as one self-contained HTML page, in the design of the report."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from warpsight.analysis.base import words
from warpsight.device_code.demangle import demangle, short
from warpsight.ui.render import pages
from warpsight.ui.render.dump import summary as core

_MOST_FRAMES, _MOST_THREADS, _MOST_PLACES, _MOST_WORK = 40, 60, 16, 10
_AROUND = 2
#: Layout of the timeline's picture in its own units.
_WIDTH, _LABEL, _LANE, _GAP = 1000, 150, 18, 6


def page(report: dict[str, Any]) -> str:
    """The page of a report made by :func:`warpsight.debug.hang_report.build`."""
    return pages.page(
        "hang.html.j2", css=("theme.css", "report.css", "hang.css"), js=("format.js",), data={}, report=report,
        title=_title(report), dumps=[_dump(dump) for dump in report["dumps"]], timeline=_timeline(report),
        processes=[_process(process) for process in report["processes"]],
        launches=[_launch(launch) for launch in report["launches"]], last=report["last_work"][:_MOST_WORK],
        counted=words.counted,
        errors=[{**error, "frames": _frames(error["frames"])} for error in report["errors"]],
    )  # fmt: skip


def _title(report: dict[str, Any]) -> str:
    names = {"hang": "Hang", "crash": "Crash", "kernel-timeout": "Kernel timeout", "no-data-timeout": "No data",
             "interrupt": "Interrupted", "asked": "As asked"}  # fmt: skip
    program = " ".join(report["program"])
    return f"{names.get(report['kind'], report['kind'])}: {program}" if program else names.get(
        report["kind"], report["kind"])  # fmt: skip


def _frames(frames: list[dict[str, Any]]) -> list[dict[str, str]]:
    shown = [
        {"function": core.plain_name(str(frame.get("function") or "")) or "?", "place": _place(frame)}
        for frame in frames[:_MOST_FRAMES]
    ]
    if len(frames) > _MOST_FRAMES:
        shown.append({"function": f"… {len(frames) - _MOST_FRAMES} frames more", "place": ""})
    return shown


def _place(frame: dict[str, Any]) -> str:
    if not frame.get("file"):
        return ""
    return f"{frame['file']}:{frame['line']}" if frame.get("line") else str(frame["file"])


def _dump(dump: dict[str, Any]) -> dict[str, Any]:
    out = {"pid": dump["pid"], "path": dump.get("path"), "seconds": dump.get("seconds"), "problem": dump.get("problem"),
           "unreadable": dump.get("unreadable"), "joins": [_join(join) for join in dump.get("joins", [])],
           "faults": [], "places": [], "grids": [], "hidden": 0, "notes": [], "waits": [],
           "explanation": [], "missing": []}  # fmt: skip
    if "core" not in dump:
        return out
    summary = dump["core"]["summary"]
    most = max((place["lanes"] for place in summary["places"]), default=1)
    out["faults"] = [
        {**fault, "at": _at(fault["at"]) if fault["at"] else None} for fault in summary["faults"][:4]
    ]
    out["grids"] = summary["grids"]
    out["places"] = [
        {**place, "at": _at(place["at"]), "kernel": core.plain_name(place["kernel"] or ""),
         "share": place["lanes"] / most} for place in summary["places"][:_MOST_PLACES]
    ]  # fmt: skip
    out["hidden"] = max(len(summary["places"]) - _MOST_PLACES, 0) + summary["places_left_out"]
    said = sorted([*summary["roots"], *summary["chain"]], key=lambda part: int(part["place"]))
    out["explanation"] = [
        {"text": part["text"], "root": "why" in part, "number": part["place"] + 1}
        for part in said[:_MOST_PLACES]
    ]
    out["missing"] = [missing["text"] for missing in summary["missing_blocks"]]
    out["waits"] = _waits(summary["places"])
    out["notes"] = [*summary["problems"], *summary["notes"]]
    return out


def _waits(places: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Warps by what they wait for, in order of place."""
    counted: dict[str, list[int]] = {}
    for place in places:
        one = counted.setdefault(place["waits_for"] or "nothing: they run", [0, 0])
        one[0] += place["warps"]
        one[1] += place["lanes"]
    most = max((warps for warps, _ in counted.values()), default=1)
    return [{"what": what, "warps": warps, "lanes": lanes, "share": warps / most}
            for what, (warps, lanes) in counted.items()]  # fmt: skip


def _at(at: dict[str, Any]) -> dict[str, Any]:
    """An address: its chain, with the source around each line if the file is on this machine."""
    chain = [
        {"function": core.plain_name(frame["function"]) or "?", "place": _place(frame),
         "source": list(_source(frame)) if number == 0 else []}
        for number, frame in enumerate(at["frames"])
    ]  # fmt: skip
    return {"chain": chain, "address": at["address"], "function": core.plain_name(at["function"] or ""),
            "offset": at["offset"], "instruction": at["instruction"] or at["operation"], "refined": at["refined"]}  # fmt: skip


def _source(frame: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The line with the lines around it; only the line itself if the dump's reader kept no more."""
    line = int(frame["line"] or 0)
    if not frame.get("text"):
        return
    lines = {line: str(frame["text"])}
    try:
        whole = Path(frame["file"]).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        whole = []
    if 0 < line <= len(whole) and whole[line - 1].strip() == str(frame["text"]).strip():
        lines = {n: whole[n - 1] for n in range(max(line - _AROUND, 1), min(line + _AROUND, len(whole)) + 1)}
    for number, text in lines.items():
        yield {"number": number, "text": text.replace("\t", "    "), "hit": number == line}


def _join(join: dict[str, Any]) -> dict[str, Any]:
    name = core.plain_name(join.get("demangled") or join.get("kernel") or "") or "a kernel"
    launch = join["launch"]
    if launch is None:
        return {"text": f"{name}: the launch is not known: {join['by']}", "frames": []}
    sure = "" if join["unique"] else f", not certain: {join['candidates']} outstanding launches fit"
    who = f"thread {launch['thread']} of process {launch['pid']}"
    return {
        "text": f"{name} was launched by {who} (by {join['by']}{sure})",
        "frames": _frames(launch["frames"]),
    }


def _launch(launch: dict[str, Any]) -> dict[str, Any]:
    name = launch["demangled"] or launch["kernel"] or launch["call"]
    size = f"grid {tuple(launch['grid'])} block {tuple(launch['block'])}" if launch["grid"] else ""
    return {**launch, "name": core.clipped(name), "size": size, "frames": _frames(launch["frames"])}


def _recorder(thread: dict[str, Any]) -> bool:
    """Whether a thread belongs to the recorder, so that its stack says nothing about the program."""
    return str(thread["name"]).startswith("warpsight")


def _process(process: dict[str, Any]) -> dict[str, Any]:
    threads = sorted(process["threads"], key=lambda one: (_recorder(one), not one["python"], one["thread"]))
    shown = [
        {**thread, "said": core.STATES.get(thread["state"], thread["state"]), "recorder": _recorder(thread),
         "python": _frames(thread["python"]),
         "native": [{"function": short(demangle(frame["function"])) or hex(frame["address"]),
                     "place": os.path.basename(frame["module"]) or "?"} for frame in thread["native"][:_MOST_FRAMES]]}
        for thread in threads[:_MOST_THREADS]
    ]  # fmt: skip
    return {**process, "threads": shown, "hidden": max(len(threads) - _MOST_THREADS, 0)}


def _timeline(report: dict[str, Any]) -> dict[str, Any] | None:
    """Rectangles of the picture; None if nothing is known about the last seconds."""
    known = report.get("timeline") or {"seconds": 0, "lanes": []}
    seconds = max([known["seconds"], *(launch["before_s"] for launch in report["launches"])], default=0)
    if not seconds:
        return None
    lanes = [(_lane_name(lane), lane["bars"]) for lane in known["lanes"]]
    lanes += [(f"{launch['demangled'] or launch['kernel'] or launch['call']}", [
        {"start_s": -launch["before_s"], "duration_s": launch["before_s"], "kind": "stuck", "share": 1.0,
         "what": "launched, and not completed"}]) for launch in report["launches"][:5]]  # fmt: skip
    scale = (_WIDTH - _LABEL) / seconds
    drawn = []
    for row, (name, bars) in enumerate(lanes):
        top = row * (_LANE + _GAP)
        drawn.append({"name": name, "y": top, "bars": [
            {"x": round(_LABEL + (seconds + bar["start_s"]) * scale, 2), "width": round(max(bar["duration_s"] * scale, .6), 2),
             "kind": bar["kind"], "opacity": round(0.25 + 0.75 * bar["share"], 2),
             "what": f"{bar['what']} ({-bar['start_s']:.3f} s before, for {bar['duration_s'] * 1e3:.3f} ms)"}
            for bar in bars]})  # fmt: skip
    height = len(lanes) * (_LANE + _GAP)
    step = (_WIDTH - _LABEL) / 4
    ticks = [
        {"x": round(_LABEL + part * step, 1), "text": f"-{seconds * (1 - part / 4):.3g} s"}
        for part in range(4)
    ]
    ticks.append({"x": _WIDTH, "text": "0 s"})
    return {"lanes": drawn, "height": height, "width": _WIDTH, "lane": _LANE, "label": _LABEL, "ticks": ticks,
            "hidden": known.get("lanes_left_out", 0)}  # fmt: skip


def _lane_name(lane: dict[str, Any]) -> str:
    if lane["kind"] == "launches":
        return f"{lane['pid']}: launches"
    device = "" if lane["device"] is None else f"GPU {lane['device']}, "
    return f"{lane['pid']}: {device}stream {lane['stream']}"
