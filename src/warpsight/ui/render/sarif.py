"""Findings as SARIF 2.1.0, which editors and code scanning show at their lines.

Format: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from warpsight._version import __version__
from warpsight.analysis.base.frames import is_library
from warpsight.analysis.base.words import moment
from warpsight.ui.render import numbers
from warpsight.ui.render.findings import evidence_text

if TYPE_CHECKING:
    from warpsight.analysis.base.result import Finding
    from warpsight.analysis.rules.verdict import Verdict

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
#: `file:line` of a place in the program, as frames are written.
_PLACE = re.compile(r"\(([^()\n]+):(\d+)\)")
_LEVELS = {"error": "error", "warning": "warning", "loss": "warning"}
_ROOT = "%SRCROOT%"
#: Other places of a finding.
_RELATED = 5


def log(
    verdict: Verdict, root: Path, text: Callable[[str], str], origin: int, *, outside: bool
) -> dict[str, Any]:
    """The findings that have a line as results, the others as notes about the run.

    Args:
        verdict: What was found.
        root: Folder of the sources, to which files below it are relative.
        text: Redaction of messages.
        origin: Zero point of the times that people see.
        outside: Also name lines of files that are not below `root`, by their full path.
    """
    results, notes = [], []
    rules: dict[str, dict[str, Any]] = {}
    for finding in verdict.findings:
        rule = finding.rule or finding.class_name
        rules.setdefault(rule, _rule(rule, finding))
        message = {"text": text(numbers.near(_message(finding), str(root)))}
        places = [found for place in _places(finding) if (found := _location(place, root, outside))]
        if places:
            results.append(_result(finding, rule, message, places, verdict, origin))
        else:
            level = _LEVELS.get(finding.severity, "note")
            notes.append({"level": level, "message": message, "associatedRule": {"id": rule}})
    tool = {"driver": {"name": "warpsight", "version": __version__, "rules": list(rules.values())}}
    run = {
        "tool": tool,
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": notes}],
        "results": results,
        "columnKind": "unicodeCodePoints",
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: str, finding: Finding) -> dict[str, Any]:
    words = rule.replace("/", ": ").replace("-", " ").replace("_", " ")
    out: dict[str, Any] = {"id": rule, "shortDescription": {"text": words}}
    return out | ({"help": {"text": finding.advice}} if finding.advice else {})


def _message(finding: Finding) -> str:
    parts = [
        numbers.capitalized(finding.text, finding.name) + ".",
        *(f"· {evidence_text(one)}" for one in finding.evidence),
    ]
    return "\n".join([*parts, *([f"→ {finding.advice}"] if finding.advice else [])])


def _places(finding: Finding) -> list[tuple[str, int]]:
    """Files and lines that a finding names, the program's own before those of libraries."""
    text = "\n".join([finding.text, *map(evidence_text, finding.evidence)])
    found = list(dict.fromkeys((file, int(line)) for file, line in _PLACE.findall(text)))
    own = [place for place in found if not is_library(place[0])]
    return (own + [place for place in found if place not in own])[: _RELATED + 1]


def _location(place: tuple[str, int], root: Path, outside: bool) -> dict[str, Any] | None:
    file, line = Path(place[0]), place[1]
    if file.is_absolute() and file.is_relative_to(root):
        file = file.relative_to(root)
    if file.is_absolute():
        artifact = {"uri": file.as_uri()} if outside else None
    else:
        artifact = {"uri": quote(file.as_posix()), "uriBaseId": _ROOT} if "…" not in file.parts else None
    if artifact is None or line < 1:
        return None
    return {"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": line}}}


def _result(
    finding: Finding,
    rule: str,
    message: dict[str, str],
    places: list[dict[str, Any]],
    verdict: Verdict,
    origin: int,
) -> dict[str, Any]:
    uri = places[0]["physicalLocation"]["artifactLocation"]["uri"]
    known = hashlib.sha256(f"{rule}\0{finding.name}\0{uri}".encode()).hexdigest()[:32]
    related = [{**place, "id": i} for i, place in enumerate(places[1:], 1)]
    properties: dict[str, Any] = {"share_ns": finding.share_ns, "saves_ns": finding.saves_ns}
    if finding.at is not None:
        properties |= {"from": moment(finding.at[0] - origin, 9), "until": moment(finding.at[1] - origin, 9)}
    weight = max(finding.share_ns or 0, finding.saves_ns or 0)
    return {
        "ruleId": rule,
        "level": _LEVELS.get(finding.severity, "note"),
        "message": message,
        "locations": places[:1],
        "relatedLocations": related,
        "partialFingerprints": {"finding/v1": known},
        "rank": round(min(100 * weight / max(verdict.length, 1), 100.0), 1),
        "properties": {key: value for key, value in properties.items() if value is not None},
    }
