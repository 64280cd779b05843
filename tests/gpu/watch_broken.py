"""Runs `watch --on-hang dump` over the broken programs beside this file and holds its reports against their truth table.

usage: watch_broken.py --out FOLDER [--only NAME,…] [--hang-after 5] [--jobs 3]

A program passes when the report names its kernel, its place (file, line and inlined calls, by the markers in its source)
and, for a hang, is complete within ten seconds after the threshold. Facts are in FOLDER/watch_broken.json; the exit code is
the number of programs that did not pass.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent / "broken"
PROGRAMS = HERE / "programs"
TRUTH: dict[str, dict[str, Any]] = json.loads((HERE / "truth.json").read_text())
LIMIT_S = 90.0


def markers(source: str) -> dict[str, int]:
    """Marker → line of a source file."""
    found = {}
    for number, line in enumerate((PROGRAMS / source).read_text().splitlines(), 1):
        for name in re.findall(r"(?://|#) @(\w+)", line):
            found[name] = number
    return found


def build(out: Path, name: str) -> list[str]:
    """Compile a program where it needs it; its command line."""
    truth = TRUTH[name]
    source = truth.get("cubin") or truth["source"]
    target = out / "bin" / (f"{name}.cubin" if "cubin" in truth else name)
    if source.endswith(".cu"):
        command = ["nvcc", "-std=c++17", "-arch=sm_90", "-lineinfo", *(["-cubin"] if "cubin" in truth else []), "-o", str(target),
                   source]  # fmt: skip
        subprocess.run(command, cwd=PROGRAMS, check=True, timeout=180)
    if truth["source"].endswith(".py"):
        return [sys.executable, str(PROGRAMS / truth["source"]), *([str(target)] if "cubin" in truth else [])]
    return [str(target)]


def matches(frames: list[dict[str, Any]], place: dict[str, Any], lines: dict[str, int]) -> bool:
    """Whether a chain of a report is the one expected; `inlined_deeper`: it may go on inside."""
    wanted = []
    for link in place["chain"]:
        function, _, names = link.partition("@")
        allowed = {lines[n] for n in names.split("|") if n in lines}
        if (
            not wanted
        ):  # the innermost place may be inside a statement of several lines, or at its function's head
            allowed = {line + near for line in allowed for near in range(-2, 7)}
        wanted.append((function, allowed))
    starts = range(len(frames) - len(wanted) + 1) if place.get("inlined_deeper") else range(1)
    for start in starts:
        part = frames[start : start + len(wanted)]
        if len(part) == len(wanted) and all(
            frame["line"] in allowed and (not frame["function"] or function in frame["function"])
            for frame, (function, allowed) in zip(part, wanted, strict=True)
        ):
            return True
    return not wanted


def judge(name: str, report: dict[str, Any]) -> list[str]:
    """What is wrong with a report; nothing when it is right."""
    truth, wrong = TRUTH[name], []
    cores = [dump["core"] for dump in report["dumps"] if "core" in dump]
    if not cores:
        return [
            "no dump was read: "
            + "; ".join(str(d.get("problem") or d.get("unreadable")) for d in report["dumps"])
        ]
    summary = cores[0]["summary"]
    lines = markers(truth["source"] if "cubin" not in truth else truth["cubin"])
    seen = list(summary["faults"] if truth["kind"] == "exception" else summary["places"])
    for place in truth["places"]:
        mine = [one for one in seen if place["kernel"] in (one["kernel"] or "")]
        if not mine:
            wrong.append(f"kernel {place['kernel']} is not in the report")
        elif not any(matches((one["at"] or {}).get("frames") or [], place, lines) for one in mine):
            got = [
                [(f["function"], f["line"]) for f in (one["at"] or {}).get("frames") or []]
                for one in mine[:3]
            ]
            wrong.append(f"chain {place['chain']} is not in the report: {got}")
    if truth["kind"] == "exception" and truth.get("exceptions"):
        codes = {fault["code"] for fault in summary["faults"]}
        if not codes & set(truth["exceptions"]):
            wrong.append(f"exception {truth['exceptions']} expected, {sorted(codes)} seen")
    joined = [join for dump in report["dumps"] for join in dump.get("joins", [])]
    if not any(join["launch"] for join in joined):
        wrong.append("no grid was joined with a launch: " + "; ".join(join["by"] for join in joined))
    elif not any(join["launch"] and join["launch"]["frames"] for join in joined) and truth["source"].endswith(
        ".py"
    ):
        wrong.append("the launch has no host stack")
    return wrong


def run(out: Path, name: str, hang_after: float) -> dict[str, Any]:
    fact: dict[str, Any] = {"program": name, "kind": TRUTH[name]["kind"]}
    folder = out / f"{name}.watch"
    try:
        command = build(out, name)
    except (subprocess.SubprocessError, OSError) as error:
        return {**fact, "wrong": [f"it does not build: {error}"]}
    watch = [sys.executable, "-m", "warpsight.ui.cli", "watch", "--on-hang", "dump"]
    watch += ["--hang-after", f"{hang_after:g}", "-o", str(folder), "--", *command]
    began = time.monotonic()
    with (out / f"{name}.log").open("wb") as log:
        try:
            fact["code"] = subprocess.run(
                watch, stdout=log, stderr=subprocess.STDOUT, timeout=LIMIT_S, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            return {**fact, "wrong": [f"still running after {LIMIT_S:g} s"]}
    fact["seconds"] = round(time.monotonic() - began, 2)
    if not (folder / "report.json").is_file():
        return {**fact, "wrong": ["no report"]}
    report = json.loads((folder / "report.json").read_text())
    joins = [join for dump in report["dumps"] for join in dump.get("joins", [])]
    fact |= {name: report[name] for name in ("verdict", "gathered_s", "evidence")}
    fact["joins"] = [(j["kernel"], j["unique"], j["candidates"], j["by"]) for j in joins]
    fact["wrong"] = judge(name, report)
    if report["suspects"]:
        late = max(s["quiet_s"] for s in report["suspects"]) - hang_after + report["gathered_s"]
        fact["after_threshold_s"] = round(late, 2)
        if late > 10:
            fact["wrong"].append(f"complete {late:.1f} s after the threshold")
    return fact


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--hang-after", type=float, default=5)
    parser.add_argument("--jobs", type=int, default=3)
    options = parser.parse_args()
    out = options.out.absolute()
    (out / "bin").mkdir(parents=True, exist_ok=True)
    names = [n for n in options.only.split(",") if n] or [
        n for n, t in TRUTH.items() if t["kind"] in ("hang", "exception")
    ]
    with ThreadPoolExecutor(options.jobs) as pool:
        facts = list(pool.map(lambda name: run(out, name, options.hang_after), names))
    for fact in facts:
        print(fact["program"], "ok" if not fact["wrong"] else "WRONG", json.dumps(fact), flush=True)
    (out / "watch_broken.json").write_text(json.dumps(facts, indent=1))
    bad = sum(bool(fact["wrong"]) for fact in facts)
    print(f"{len(facts) - bad} of {len(facts)} right")
    return bad


if __name__ == "__main__":
    sys.exit(main())
