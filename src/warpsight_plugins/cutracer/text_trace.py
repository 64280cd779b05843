"""CUTracer's text form (`.log`): a header line per record, values in indented lines below it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from warpsight.formats.source import Source

_HEADER = re.compile(
    r"CTX (?P<ctx>0x[0-9a-fA-F]+|\w+) - (?:kernel_launch_id (?P<launch>\d+) - )?CTA (?P<cta>\d+,\d+,\d+) - warp (?P<warp>\d+)"
    r"(?: - PC (?P<pc>\d+))? - (?P<sass>.*?)(?P<colon>:?)\s*$"
)
_REGISTER = re.compile(r"^\s*(?:\*\s*)?Reg\d+_T\d+:|^\s*\*\s*UR:")
_ADDRESSES = re.compile(r"^\s*Memory Addresses:|^\s+(?:T\d+: )?0x[0-9a-fA-F]+")


def records(source: Source) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Each record with its line number, or the text of its error."""
    current: dict[str, Any] | None = None
    began = number = 0
    with source.open() as file:
        for raw in file:
            number += 1
            line = raw.decode("utf-8", "replace").rstrip("\n")
            if line.startswith("CTX "):
                if current is not None:
                    yield began, current
                current, began = None, number
                found = _HEADER.match(line)
                if found is None:
                    yield number, f"no record header: {line[:80]!r}"
                    continue
                current = _record(found)
            elif _REGISTER.match(line) and current is not None:
                current["type"] = "reg_trace"
            elif _ADDRESSES.match(line) and current is not None:
                current["type"] = "mem_addr_trace"
            elif line.strip():
                yield number, f"neither a record nor its values: {line[:80]!r}"
    if current is not None:
        yield began, current


def _record(found: re.Match[str]) -> dict[str, Any]:
    return {
        "type": "mem_addr_trace" if found["pc"] is not None and found["colon"] else "opcode_only",
        "ctx": found["ctx"],
        "cta": [int(part) for part in found["cta"].split(",")],
        "warp": int(found["warp"]),
        "sass": found["sass"].strip(),
        **({"pc": hex(int(found["pc"]))} if found["pc"] is not None else {}),
        **({"grid_launch_id": int(found["launch"])} if found["launch"] is not None else {}),
    }
