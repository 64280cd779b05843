"""Judges an answer, as `warpsight analyze --json` prints it, by the truth of the program it is about.

Read of the answer: `account` (rows of class, name, ns), `findings` (class, name, text, share_ns), `iterations` (count,
median_ns), `headline` and `summary`; all of them at the top or under `verdict`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.truth.truth import TOLERANCE, Cause, Truth
from tests.truth.words import base

Answer = dict[str, Any]
#: Classes of findings that make no claim about time.
SILENT = ("loss", "note")
#: How far a median may be off.
MEDIAN_TOLERANCE = 0.1


@dataclass(frozen=True)
class Judgement:
    """What is wrong with an answer; `first` and `iterations` are None where there is nothing to judge or nothing wrong."""

    seed: int
    account: tuple[str, ...]
    false: tuple[str, ...]
    first: str | None
    count: str | None
    median: str | None


def judge(truth: Truth, answer: Answer) -> Judgement:
    """Compare an answer with the truth."""
    account = _part(answer, "account") or []
    problems = [*_sums(truth, account), *_classes(truth, account), *_named(truth, account)]
    count, median = _iterations(truth, _part(answer, "iterations"))
    return Judgement(
        truth.seed, tuple(problems), tuple(_false(truth, answer)), _first(truth, answer), count, median
    )


def says(name: str, told: str) -> bool:
    """Whether what an answer says is a name, perhaps shortened as kernels' names are, or with more around it."""
    told = told.strip()
    if told.endswith("…"):
        return len(told) > 8 and name.startswith(told[:-1])
    words = {name, base(name), name.removesuffix("_v2")}
    # After a range's name without its number there may be the number.
    if any(re.search(rf"(?<!\w){re.escape(word)}(?![^\W\d])", told) for word in words):
        return True
    kernel = base(name)
    return kernel != name and kernel in told


def _part(answer: Answer, key: str) -> Any:
    verdict = answer.get("verdict")
    inside = verdict.get(key) if isinstance(verdict, dict) else None
    return answer[key] if answer.get(key) is not None else inside


def _findings(answer: Answer) -> list[Answer]:
    found = _part(answer, "findings") or []
    return [f for f in found if isinstance(f, dict) and f.get("class") not in SILENT]


def _sums(truth: Truth, account: list[Answer]) -> Iterable[str]:
    total = sum(row["ns"] for row in account)
    if abs(total - truth.span_ns) > len(truth.spans):
        yield f"the account sums to {total:,} ns; the devices' spans are {truth.span_ns:,} ns"


def _classes(truth: Truth, account: list[Answer]) -> Iterable[str]:
    tolerance = TOLERANCE * truth.span_ns
    for cls, cause in truth.classes.items():
        found = sum(row["ns"] for row in account if row["class"] == cls)
        if not cause.low_ns - tolerance <= found <= cause.high_ns + tolerance:
            yield f"{cls} is {found / truth.span_ns:.1%} of the time, not {_range(cause, truth)}"
    unknown = {row["class"] for row in account} - truth.classes.keys()
    if unknown:
        yield f"no such class: {', '.join(sorted(unknown))}"


def _named(truth: Truth, account: list[Answer]) -> Iterable[str]:
    """Kernels and blocking calls, each by name; what is named as a whole is judged as a class."""
    tolerance = TOLERANCE * truth.span_ns
    for cause in truth.causes:
        if cause.cls not in ("compute", "blocked_call") or cause.low_ns < tolerance:
            continue
        rows = [
            row for row in account if row["class"] == cause.cls and _named_right(cause, row["name"] or "")
        ]
        found = sum(row["ns"] for row in rows)
        if not cause.low_ns - tolerance <= found <= cause.high_ns + tolerance:
            name = ", ".join(sorted(cause.names or ()))
            yield f"{cause.cls} {name} is {found / truth.span_ns:.1%} of the time, not {_range(cause, truth)}"


def _named_right(cause: Cause, told: str) -> bool:
    if cause.names is not None:
        return any(says(name, told) for name in cause.names)
    return not any(says(name, told) for name in cause.never)


def _range(cause: Cause, truth: Truth) -> str:
    low, high = (f"{ns / truth.span_ns:.1%}" for ns in (cause.low_ns, cause.high_ns))
    return low if low == high else f"{low} to {high}"


def _first(truth: Truth, answer: Answer) -> str | None:
    """What is wrong with the first finding that makes a claim about time."""
    findings = _findings(answer)
    right = "; ".join(_described(cause, truth) for cause in truth.firsts)
    if not findings:
        return f"nothing is found; right: {right}"
    first, tolerance = findings[0], TOLERANCE * truth.span_ns
    share = first.get("share_ns")
    for cause in truth.firsts:
        same = first.get("class") == cause.cls and _named_right(cause, first.get("name") or "")
        if same and share is not None and cause.low_ns - tolerance <= share <= cause.high_ns + tolerance:
            return None
    said = f"{first.get('class')} {first.get('name')!r} {(share or 0) / truth.span_ns:.1%}"
    return f"first is {said}; right: {right}"


def _described(cause: Cause, truth: Truth) -> str:
    if cause.names is not None:
        names = " or ".join(repr(name) for name in sorted(cause.names))
    else:
        names = f"anything but {sorted(cause.never)}" if cause.never else "anything"
    return f"{cause.cls} {names} {_range(cause, truth)}"


def _iterations(truth: Truth, told: Any) -> tuple[str | None, str | None]:
    """What is wrong with the number of iterations, and with their median."""
    right = truth.iterations
    if right is None:
        return None, None
    if not isinstance(told, dict) or told.get("count") is None:
        return f"no iterations; there are {right.count}", "no iterations"
    count = None
    if abs(told["count"] - right.count) > 1:
        count = f"{told['count']} iterations; there are {right.count}"
    medians = (right.median_ns, *right.other_ns)
    if any(abs((told.get("median_ns") or 0) - ns) <= MEDIAN_TOLERANCE * ns for ns in medians):
        return count, None
    return count, f"the median is {told.get('median_ns')} ns; right: {' or '.join(map(str, medians))}"


def _false(truth: Truth, answer: Answer) -> Iterable[str]:
    findings = _findings(answer)
    texts = [_part(answer, key) or "" for key in ("headline", "summary")]
    texts += [finding.get("text") or "" for finding in findings]
    for pattern, why in truth.false:
        yield from (f"{why}, but: {text}" for text in texts if re.search(pattern, text, re.IGNORECASE))
    for finding in findings:
        cause = truth.classes.get(finding.get("class") or "")
        share = finding.get("share_ns") or 0
        if cause is not None and share > cause.high_ns + TOLERANCE * truth.span_ns:
            yield f"{cause.cls} is only {_range(cause, truth)} of the time, but: {finding.get('text')}"
