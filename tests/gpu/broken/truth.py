"""What is known about each broken program: `truth.json`, its markers turned into lines of the sources.

A chain is written innermost first as `function@marker`; `// @marker` or `# @marker` stands on the line in the source, and
`function@a|b` accepts either line. With `inlined_deeper`, library functions may be inlined below the first entry.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"


@dataclass(frozen=True)
class TruePlace:
    """Where lanes must be: the kernel, (function, lines) innermost first, and what is known beside that.

    `waits_for`: the places of the same program that its lanes wait for; None when nobody has said.
    """

    kernel: str
    chain: tuple[tuple[str, frozenset[int]], ...]
    inlined_deeper: bool
    blocks: tuple[tuple[int, ...], ...]
    lanes: int | None
    waits: str | None
    waits_for: tuple[int, ...] | None


@dataclass(frozen=True)
class Truth:
    """One program: how it breaks and where."""

    name: str
    kind: str
    source: str
    exceptions: tuple[int, ...]
    fault_block: tuple[int, ...] | None
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
        tuple(_place(place, source) for place in entry["places"]),
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
        tuple(place["waits_for"]) if "waits_for" in place else None,
    )  # fmt: skip


@cache
def markers(source: str) -> dict[str, int]:
    """The line of each marker of a source file."""
    lines = (PROGRAMS / source).read_text().splitlines()
    return {
        m[1]: number for number, line in enumerate(lines, 1) if (m := re.search(r"(?://|#) @(\w+)", line))
    }
