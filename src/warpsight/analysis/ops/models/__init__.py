"""Models of operators by family, and the table that finds one by an operator's name.

A new operator is one entry in its family's `MODELS`; a new family is a module with such a table, named here.
"""

from __future__ import annotations

from warpsight.analysis.ops.arguments import Call
from warpsight.analysis.ops.models import (
    attention,
    convolution,
    copies,
    elementwise,
    gather,
    gemm,
    norms,
    reductions,
    softmax,
)
from warpsight.analysis.ops.models.estimate import Estimate, Model, judged, unknown

_FAMILIES = (gemm, convolution, attention, norms, elementwise, softmax, reductions, gather, copies)
#: Name of an operator → its family and its model.
REGISTRY: dict[str, tuple[str, Model]] = {
    name: found for family in _FAMILIES for name, found in family.MODELS.items()
}
#: Family of operators without a model.
UNKNOWN = "unknown"


def evaluate(call: Call) -> Estimate:
    """The work of a call, or the reason why it is unknown."""
    found = REGISTRY.get(call.name)
    if found is None:
        return unknown(UNKNOWN, "there is no model of the operator")
    family, model = found
    return judged(model, family, call)
