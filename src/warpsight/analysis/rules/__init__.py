"""Rules: what commonly goes wrong, one module per family, each with `check(facts)` that yields findings.

Adding a rule is a function in its family's module; adding a family is a module and its line in :data:`FAMILIES`.
"""

from __future__ import annotations

from warpsight.analysis.rules.families import FAMILIES, findings

__all__ = ["FAMILIES", "findings"]
