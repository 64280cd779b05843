"""The families of rules, and running all of them."""

from __future__ import annotations

import importlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from warpsight.analysis.base.result import Finding, Result, in_order
from warpsight.analysis.base.tables import table
from warpsight.analysis.rules.base import savings
from warpsight.analysis.rules.base.facts import Facts
from warpsight.model.calls import load as load_calls
from warpsight.model.selection import Rows

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

_ALL = Rows()
#: Family → subject of its rules.
FAMILIES = {
    "recording": "what is missing, what failed",
    "shares": "how the devices spent their time, and why they were idle",
    "waits": "waits that keep the host from running ahead",
    "launches": "short kernels launched one by one, full launch queues",
    "copies": "pageable, synchronous, small and repeated copies",
    "streams": "streams that could overlap and do not",
    "loops": "iterations that stand out",
    "leaks": "memory: leaks, churn, invalid frees, a device nearly full",
    "clocks": "clocks below their maximum",
    "communication": "ranks that wait for a slow one",
    "outside": "the program's time before its first device work and after its last",
    "kernels": "kernels that do not fill the device",
}
#: The order in which they begin on two threads: one computes the account, while the other runs what does not need it.
_FIRST = (
    "shares", "loops", "streams", "leaks", "copies", "kernels", "clocks", "communication", "outside", "recording",
)  # fmt: skip
_WITH_THE_ACCOUNT = ("waits", "launches")


def run(facts: Facts) -> tuple[Finding, ...]:
    """All findings about a trace, in reading order: errors, loss, the account, changes that save time, notes."""

    def check(family: str) -> list[Finding]:
        module = importlib.import_module(f"warpsight.analysis.rules.{family}")
        return list(module.check(facts))

    with ThreadPoolExecutor(2) as pool:
        pool.submit(load_calls, facts.trace, api=True)  # while the first family reads the work
        checked = {family: pool.submit(check, family) for family in _FIRST}
        retimed = pool.submit(savings.windows, facts)  # nearly every recording has a finding that needs it
        checked |= {family: pool.submit(check, family) for family in _WITH_THE_ACCOUNT}
        found = [finding for family in FAMILIES for finding in checked[family].result()]
    return in_order(savings.with_savings(facts, found, retimed.result))


def findings(trace: StoredTrace, rows: Rows = _ALL) -> Result:
    """All findings of the rules.

    Tables:
        findings: rule, severity, class, name, share (part of the account, ns), saves (ns), text, advice.
    """
    found = run(Facts(trace, rows))
    listed = [
        {"rule": f.rule, "severity": f.severity, "class": f.class_name, "name": f.name, "share": f.share_ns,
         "saves": f.saves_ns, "text": f.text, "advice": f.advice} for f in found
    ]  # fmt: skip
    columns = "rule:string severity:string class:string name:string share:int64:ns saves:int64:ns text:string advice:string"
    return Result({"findings": table(columns, listed)}, found)
