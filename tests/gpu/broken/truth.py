"""What is known about each broken program: `truth.json`, its markers turned into lines of the sources.

A chain is written innermost first as `function@marker`; `// @marker` or `# @marker` stands on the line in the source, and
`function@a|b` accepts either line. With `inlined_deeper`, library functions may be inlined below the first entry.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from warpsight.device_code.demangle import short

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"


@dataclass(frozen=True)
class TruePlace:
    """Where lanes must be: the kernel, (function, lines) innermost first, and what is known beside that.

    `waits_for`: the places of the same program that its lanes wait for, none for a cause; None when that is not certain.
    `mbarrier`: fields of the mbarrier's state.
    """

    kernel: str
    chain: tuple[tuple[str, frozenset[int]], ...]
    inlined_deeper: bool
    blocks: tuple[tuple[int, ...], ...]
    lanes: int | None
    waits: str | None
    waits_for: tuple[int, ...] | None
    mbarrier: dict[str, int]


@dataclass(frozen=True)
class Truth:
    """One program: how it breaks and where.

    `missing`: how many of a grid's blocks have `ended` or have `not_started`, while the others poll memory; null: not known.
    """

    name: str
    kind: str
    source: str
    exceptions: tuple[int, ...]
    fault_block: tuple[int, ...] | None
    missing: dict[str, int | None]
    places: tuple[TruePlace, ...]


@cache
def truths() -> dict[str, Truth]:
    """Every program by name."""
    table = json.loads((HERE / "truth.json").read_text())
    return {name: _truth(name, entry) for name, entry in table.items()}


def _truth(name: str, entry: dict[str, Any]) -> Truth:
    source = entry.get("cubin") or entry["source"]
    block = entry.get("fault_block")
    return Truth(
        name, entry["kind"], source, tuple(entry.get("exceptions", ())), tuple(block) if block else None,
        entry.get("missing", {}), tuple(_place(place, source) for place in entry["places"]),
    )  # fmt: skip


def _place(place: dict[str, Any], source: str) -> TruePlace:
    marked = markers(source)
    chain = []
    for step in place["chain"]:
        function, _, names = step.partition("@")
        chain.append((function, frozenset(marked[marker] for marker in names.split("|"))))
    return TruePlace(
        place["kernel"], tuple(chain), place.get("inlined_deeper", False),
        tuple(map(tuple, place.get("blocks", ()))), place.get("lanes"), place.get("waits"),
        tuple(place["waits_for"]) if "waits_for" in place else None, place.get("mbarrier", {}),
    )  # fmt: skip


@cache
def markers(source: str) -> dict[str, int]:
    """The line of each marker of a source file."""
    lines = (PROGRAMS / source).read_text().splitlines()
    return {
        m[1]: number for number, line in enumerate(lines, 1) if (m := re.search(r"(?://|#) @(\w+)", line))
    }


def fits(frames: list[dict[str, Any]], place: TruePlace) -> bool:
    """Whether a chain of a summary is the true one."""
    if not place.chain:
        return True
    kept = frames[-len(place.chain) :] if place.inlined_deeper else frames
    return len(kept) == len(place.chain) and all(
        short(frame["function"]).split("::")[-1] == function and frame["line"] in lines
        for frame, (function, lines) in zip(kept, place.chain, strict=True)
    )


def found_at(summary: dict[str, Any], place: TruePlace) -> list[int]:
    """The places of a summary that are a true one, by their indices."""
    return [
        at
        for at, one in enumerate(summary["places"])
        if one["wait"] == place.waits
        and (one["kernel"] or "").startswith(place.kernel)
        and fits(one["at"]["frames"], place)
        and (one["mbarrier"] or {}).items() >= place.mbarrier.items()
    ]


def wrong_about_hang(summary: dict[str, Any], truth: Truth) -> list[str]:
    """What a summary of a hang gets wrong; nothing when it is right."""
    if summary["kind"] != "hang":
        return [f"a {summary['kind']}, not a hang"]
    found = [found_at(summary, place) for place in truth.places]
    wrong = [f"place {n} is not found: {place}" for n, place in enumerate(truth.places) if not found[n]]
    for number, place in enumerate(truth.places):
        if found[number]:
            wrong += [f"place {number} {text}" for text in _wrong_about_place(summary, place, number, found)]
    missing = [{key: one[key] for key in truth.missing} for one in summary["missing_blocks"]]
    if missing != ([truth.missing] if truth.missing else []):
        wrong.append(f"missing blocks are {summary['missing_blocks']}, not {truth.missing}")
    return wrong


def _wrong_about_place(
    summary: dict[str, Any], place: TruePlace, number: int, found: list[list[int]]
) -> Iterator[str]:
    mine = found[number]
    lanes = sum(summary["places"][at]["lanes"] for at in mine)
    if place.lanes not in (None, lanes):
        yield f"has {lanes} lanes, not {place.lanes}"
    if place.waits_for is None:
        return
    waits_for = {
        at: {edge["place"] for edge in part["waits_for"]}
        for part in (*summary["roots"], *summary["chain"])
        if (at := part["place"]) in mine
    }
    for holder in place.waits_for:
        if not any(set(found[holder]) & holders for holders in waits_for.values()):
            yield f"does not wait for place {holder}"
    roots = {root["place"] for root in summary["roots"]}
    if not place.waits_for and not set(mine) <= roots:
        yield "is not among the causes"
    behind = [holder for holder in place.waits_for if found[holder] and min(found[holder]) > min(mine)]
    if behind and not set(mine) <= roots:
        yield f"comes before place {behind[0]}, which it waits for"
