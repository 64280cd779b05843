"""Elementwise operators: inputs are broadcast, and each result element is computed independently.

The table says how many tensors an operator takes and how many operations it does for each element of its result. An
elementary function counts as one; comparisons, selections and logic count as zero.
"""

from __future__ import annotations

from math import prod

from warpsight.analysis.ops import dtypes
from warpsight.analysis.ops.arguments import Call, Tensor
from warpsight.analysis.ops.models.estimate import Estimate, Model, estimate
from warpsight.analysis.ops.models.gemm import broadcast

_FAMILY = "elementwise"

_UNARY = """abs acos acosh asin asinh atan atanh ceil celu clamp clamp_max clamp_min cos cosh deg2rad digamma elu erf erfc
    erfinv exp exp2 expm1 floor frac gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu lgamma log log10 log1p log2
    log_sigmoid_forward logit mish nan_to_num neg negative pow rad2deg reciprocal relu relu6 round rsqrt selu sgn sigmoid sign
    silu sin sinc sinh softplus softshrink special_erf sqrt square tan tanh threshold trunc"""
_BINARY = """add atan2 div divide elu_backward floor_divide fmax fmin fmod gelu_backward hardshrink_backward hardsigmoid_backward
    hardswish_backward hardtanh_backward hypot leaky_relu_backward maximum minimum mish_backward mul multiply prelu remainder
    rsub sigmoid_backward silu_backward softplus_backward sub subtract tanh_backward threshold_backward true_divide xlogy
    native_dropout_backward masked_scale _masked_scale logit_backward polar"""
_TERNARY = "addcdiv addcmul lerp"
#: Their results are booleans.
_LOGIC = """eq equal ge greater greater_equal gt isfinite isinf isnan isneginf isposinf le less less_equal logical_and
    logical_not logical_or logical_xor lt ne not_equal signbit"""
#: Results have the type of the inputs.
_SELECTION = """bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor masked_fill tril triu
    where"""
_FLOATS = frozenset(("div", "divide", "true_divide", "atan2", "xlogy"))
_ARITY = {
    **dict.fromkeys(_UNARY.split(), (1, 1)), **dict.fromkeys(_BINARY.split(), (2, 1)),
    **dict.fromkeys(_TERNARY.split(), (3, 3)), **dict.fromkeys((*_LOGIC.split(), *_SELECTION.split()), (2, 0)),
}  # fmt: skip
#: The maximum number of tensors besides a result passed in (`out=`).
_MOST = {"where": 3, "masked_fill": 3, "clamp": 3, "clamp_max": 2, "clamp_min": 2, "pow": 2, "leaky_relu_backward": 2,
         "softplus_backward": 2, "elu_backward": 2}  # fmt: skip
#: Number arguments do not affect the result type.
_OWN_TYPE = frozenset(("masked_fill", "native_dropout_backward", "tril", "triu"))
_LOGICAL = frozenset(_LOGIC.split())
#: Unary operators that return integers for integers; all others return floats.
_KEEPING = "abs ceil clamp clamp_max clamp_min floor neg negative pow relu relu6 round sgn sign square threshold trunc"
_EXACT = frozenset(_KEEPING.split())


def _base(name: str) -> str:
    """The operator without its namespace and without the `_` of in-place operators."""
    own = name.rsplit("::", 1)[-1]
    return own.removesuffix("_")


def elementwise(call: Call) -> Estimate:
    """The work of an operator of the table."""
    base = _base(call.name)
    arity, per_element = _ARITY[base]
    found = call.tensors
    inputs = found[: max(arity, _MOST.get(base, arity))]
    if not inputs:
        call.tensor(0)  # raises with the reason
    result = _result(call, base, inputs, found)
    types = [result.dtype, *(one.dtype for one in inputs)]
    dtype = next((one for one in types if one != "bool"), "bool")
    return estimate(_FAMILY, result.numel * per_element, (*inputs, result), dtype=dtype)


def _result(call: Call, base: str, inputs: list[Tensor], found: list[Tensor]) -> Tensor:
    """The result: the first input of an in-place operator, a tensor passed in for it, otherwise the broadcast shape."""
    if call.name.endswith("_") and isinstance(call.arguments[0], Tensor):
        return Tensor(inputs[0].shape, inputs[0].dtype)
    if len(found) > len(inputs):
        return Tensor(found[-1].shape, found[-1].dtype)
    shape = broadcast(*(one.shape for one in inputs))
    if base in _LOGICAL:
        return Tensor(shape, "bool")
    # The selection mask does not affect the result type.
    values = inputs[1:] if base == "where" else inputs[:1] if base == "masked_fill" else inputs
    weak = [one.dtype for one in values if not one.shape]
    if base not in _OWN_TYPE:
        weak += [dtype for text in call.arguments if isinstance(text, str) and (dtype := _type_of(text))]
    dtype = dtypes.promoted([one.dtype for one in values if one.shape], weak)
    takes_floats = base in _FLOATS or (_ARITY[base] == (1, 1) and base not in _EXACT)
    return Tensor(shape, "fp32" if takes_floats and dtypes.is_integer(dtype) else dtype)


def _type_of(text: str) -> str:
    """The type of a Python number, "" for other strings."""
    if text in ("True", "False"):
        return ""  # options, such as `inplace`
    try:
        int(text)
    except ValueError:
        try:
            float(text)
        except ValueError:
            return ""
        return "fp64"
    return "int64"


def _dropout(call: Call) -> Estimate:
    """The result and a mask."""
    x = call.tensor(0)
    return estimate(_FAMILY, x.numel, (x, Tensor(x.shape, x.dtype), Tensor(x.shape, "bool")), dtype=x.dtype)


def _glu(call: Call) -> Estimate:
    """One half of the input gates the other: a sigmoid and a product per result."""
    x = call.tensor(0)
    return _gated(x, Tensor((*x.shape[:-1], x.shape[-1] // 2), x.dtype))


def _silu_and_mul(call: Call) -> Estimate:
    """vLLM's: result, then an input of twice its size."""
    return _gated(call.tensor(1), call.tensor(0))


def _gated(x: Tensor, result: Tensor) -> Estimate:
    return estimate(_FAMILY, 2 * result.numel, (x, result), dtype=x.dtype)


def _mse_loss(call: Call) -> Estimate:
    """Difference and square; plus one addition if there is a single result."""
    x, target = call.tensor(0), call.tensor(1)
    shape = broadcast(x.shape, target.shape)
    summed = call.integer(2) != 0
    result = Tensor(() if summed else shape, x.dtype)
    return estimate(_FAMILY, prod(shape) * (2 + summed), (x, target, result), dtype=x.dtype)


def _mse_loss_backward(call: Call) -> Estimate:
    gradient, x, target = (call.tensor(i) for i in range(3))
    result = Tensor(broadcast(x.shape, target.shape), x.dtype)
    return estimate(_FAMILY, 3 * result.numel, (gradient, x, target, result), dtype=x.dtype)


def _foreach(call: Call) -> Estimate:
    """One operator over a list of tensors. Kineto does not record the element types of lists, so bytes are unknown."""
    base = _base(call.name).removeprefix("_foreach_")
    listed = call.tensor_list()
    count = sum(one.numel for one in listed)
    per_element = _ARITY.get(base, (1, 0 if base in ("copy", "zero") else 1))[1]
    lists = [one for one in call.arguments if isinstance(one, tuple)]
    return estimate(
        _FAMILY, count * per_element, [one for each in lists for one in each], detail=f"{len(listed)} tensors"
    )


_FOREACH = """abs add addcdiv addcmul clamp_max clamp_min copy div exp lerp log maximum minimum mul neg pow reciprocal rsqrt
    sigmoid sign sqrt sub tanh zero"""
MODELS: dict[str, tuple[str, Model]] = {
    **{f"aten::{name}{end}": (_FAMILY, elementwise) for name in _ARITY for end in ("", "_")},
    **{f"aten::_foreach_{name}{end}": (_FAMILY, _foreach) for name in _FOREACH.split() for end in ("", "_")},
    "aten::native_dropout": (_FAMILY, _dropout),
    "aten::glu": (_FAMILY, _glu),
    "_C::silu_and_mul": (_FAMILY, _silu_and_mul),
    "aten::mse_loss": (_FAMILY, _mse_loss),
    "aten::mse_loss_backward": (_FAMILY, _mse_loss_backward),
}
