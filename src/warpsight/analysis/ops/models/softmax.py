"""Softmax and its logarithm.

Per element: maximum, difference, exponential, sum, quotient; backward: product, sum, difference, product.
"""

from __future__ import annotations

from warpsight.analysis.ops import dtypes
from warpsight.analysis.ops.arguments import Call, Tensor
from warpsight.analysis.ops.models.estimate import Estimate, Model, estimate

_FAMILY = "softmax"


def _forward(call: Call) -> Estimate:
    x = call.tensor(0)
    wanted = ""
    if call.has_values and call.name in ("aten::_softmax", "aten::_log_softmax"):
        wanted = "fp32" if call.flag(2) else ""  # half in, float out
    elif call.has_values:
        wanted = dtypes.numbered(call.integer(2))
    return estimate(_FAMILY, 5 * x.numel, (x, Tensor(x.shape, wanted or x.dtype)), dtype=x.dtype)


def _masked(call: Call) -> Estimate:
    x, mask = call.tensor(0), call.optional(1)
    return estimate(_FAMILY, 5 * x.numel, (x, mask, Tensor(x.shape, x.dtype)), dtype=x.dtype)


def _backward(call: Call) -> Estimate:
    """The input's gradient has the type of the input, which is the last argument."""
    gradient, result = call.tensor(0), call.tensor(1)
    dtype = (dtypes.numbered(call.integer(3)) if call.has_values else "") or gradient.dtype
    return estimate(
        _FAMILY, 4 * gradient.numel, (gradient, result, Tensor(gradient.shape, dtype)), dtype=gradient.dtype
    )


MODELS: dict[str, tuple[str, Model]] = {
    **dict.fromkeys(
        ("aten::softmax", "aten::log_softmax", "aten::_softmax", "aten::_log_softmax", "aten::_safe_softmax"),
        (_FAMILY, _forward),
    ),
    "aten::_masked_softmax": (_FAMILY, _masked),
    **dict.fromkeys(
        ("aten::_softmax_backward_data", "aten::_log_softmax_backward_data"), (_FAMILY, _backward)
    ),
}
