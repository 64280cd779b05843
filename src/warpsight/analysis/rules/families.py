"""The families of rules, and running all of them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from warpsight.analysis.base.result import Finding, Result, most_costly_first
from warpsight.analysis.base.tables import table
from warpsight.analysis.rules.facts import Facts
from warpsight.model.selection import Rows

if TYPE_CHECKING:
    from warpsight.model import Trace

_ALL = Rows()
#: Family → what its rules are about.
FAMILIES = {
    "recording": "what is missing, what failed, what recording cost",
    "idle": "idle GPUs: waits, launches, calls, the host's own code, data loading",
    "copies": "pageable, synchronous and small copies and fills",
    "streams": "streams that could overlap and do not",
    "loops": "iterations that stand out",
    "leaks": "memory: leaks, churn, invalid frees, a device nearly full",
    "clocks": "clocks below their maximum",
    "communication": "communication that nothing hides",
    "outside": "the program's time before its first device work and after its last",
    "kernels": "kernels that take most of the time or do not fill the device",
}


def run(facts: Facts) -> tuple[Finding, ...]:
    """All findings about a trace: what breaks the program first, then the most costly."""
    found: list[Finding] = []
    for family in FAMILIES:
        module = importlib.import_module(f"warpsight.analysis.rules.{family}")
        found += module.check(facts)
    return most_costly_first(found)


def findings(trace: Trace, rows: Rows = _ALL) -> Result:
    """Everything the rules have to say.

    Tables:
        findings: rule, severity, cost (wall-clock time saved at most, ns), share of the judged time, text, advice.
    """
    facts = Facts(trace, rows)
    found = run(facts)
    listed = [
        {"rule": f.rule, "severity": f.severity, "cost": f.cost_ns, "text": f.text, "advice": f.advice,
         "share": None if f.cost_ns is None else f.cost_ns / facts.length * 100} for f in found
    ]  # fmt: skip
    columns = "rule:string severity:string cost:int64:ns share:float64:% text:string advice:string"
    return Result({"findings": table(columns, listed)}, found)
