"""Convolutions of one to three dimensions, plain and transposed, forward and backward.

Each output of a plain convolution is a sum over the inputs of its group and the points of the kernel; a transposed one spreads
each input over outputs in the same way. Argument orders are those of PyTorch's native_functions.yaml.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from warpsight.analysis.ops import dtypes
from warpsight.analysis.ops.arguments import Call, Tensor, Unknown
from warpsight.analysis.ops.models.estimate import Estimate, Model, estimate

_FAMILY = "convolution"


@dataclass(frozen=True)
class _Places:
    """Positions of an operator's arguments; None if it has no such argument. Input and weight come first."""

    stride: int
    padding: int
    dilation: int | None = None
    groups: int | None = None
    bias: int | None = None
    output_padding: int | None = None
    #: Whether it is transposed, or the argument that says so.
    transposed: bool | int = False
    #: A tensor that is added to the result.
    addend: int | None = None


_CONV = _Places(3, 4, 5, 6, bias=2)
_MIOPEN = _Places(4, 3, 5, 6, bias=2)
_CONVOLUTION = _Places(3, 4, 5, 8, bias=2, output_padding=7, transposed=6)
_WITH_KERNEL = _Places(4, 5, 6, bias=3)
_SLOW = _Places(4, 5, bias=3)
_SLOW_TRANSPOSED = _Places(4, 5, 7, bias=3, output_padding=6, transposed=True)
_PLACES = {
    **dict.fromkeys(("aten::conv1d", "aten::conv2d", "aten::conv3d"), _CONV),
    **dict.fromkeys(
        ("aten::conv_transpose1d", "aten::conv_transpose2d", "aten::conv_transpose3d"),
        _Places(3, 4, 7, 6, bias=2, output_padding=5, transposed=True),
    ),
    **dict.fromkeys(("aten::convolution", "aten::_convolution", "aten::convolution_overrideable"), _CONVOLUTION),
    "aten::cudnn_convolution": _Places(3, 2, 4, 5),
    "aten::cudnn_convolution_transpose": _Places(4, 2, 5, 6, output_padding=3, transposed=True),
    **dict.fromkeys(("aten::miopen_convolution", "aten::miopen_depthwise_convolution"), _MIOPEN),
    "aten::miopen_convolution_transpose": _Places(5, 3, 6, 7, bias=2, output_padding=4, transposed=True),
    **dict.fromkeys(("aten::cudnn_convolution_relu", "aten::miopen_convolution_relu"), _CONV),
    **dict.fromkeys(
        ("aten::cudnn_convolution_add_relu", "aten::miopen_convolution_add_relu"), _Places(5, 6, 7, 8, bias=4, addend=2)
    ),
    **dict.fromkeys(("aten::_conv_depthwise2d", "aten::conv_depthwise3d"), _WITH_KERNEL),
    **dict.fromkeys(("aten::slow_conv_dilated2d", "aten::slow_conv_dilated3d"), _WITH_KERNEL),
    **dict.fromkeys(
        ("aten::_slow_conv2d_forward", "aten::slow_conv3d_forward", "aten::slow_conv3d", "aten::thnn_conv2d"), _SLOW
    ),
    **dict.fromkeys(("aten::slow_conv_transpose2d", "aten::slow_conv_transpose3d"), _SLOW_TRANSPOSED),
}  # fmt: skip
#: Backward: positions of the result's gradient, the input, the weight, the transposed flag, and the mask of gradients (-1: the
#: last argument).
_BACKWARD: dict[str, tuple[int, int, int, int | bool, int]] = {
    "aten::convolution_backward": (0, 1, 2, 7, 10),
    "aten::convolution_backward_overrideable": (0, 1, 2, 6, 9),
    "aten::_slow_conv2d_backward": (0, 1, 2, False, 6),
    # Until torch 1.10:
    **dict.fromkeys(("aten::cudnn_convolution_backward", "aten::miopen_convolution_backward"), (1, 0, 2, False, -1)),
    "aten::cudnn_convolution_transpose_backward": (1, 0, 2, True, -1),
}  # fmt: skip


def _is_transposed(call: Call, described: bool | int) -> bool:
    return described if isinstance(described, bool) else call.flag(described)


def _forward(call: Call) -> Estimate:
    places = _PLACES[call.name]
    x, weight = call.tensor(0), call.tensor(1)
    count = len(weight.shape) - 2
    shape = x.shape if len(x.shape) == count + 2 else (1, *x.shape)
    transposed = _is_transposed(call, places.transposed)
    stride, padding, dilation, more = (
        _each(call, place, count, default)
        for place, default in (
            (places.stride, 1),
            (places.padding, 0),
            (places.dilation, 1),
            (places.output_padding, 0),
        )
    )
    groups = 1 if places.groups is None else call.integer(places.groups) or 1
    sizes = [
        (n - 1) * s - 2 * p + d * (k - 1) + o + 1 if transposed else (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d, o in zip(shape[2:], weight.shape[2:], stride, padding, dilation, more, strict=True)
    ]
    channels = weight.shape[1] * groups if transposed else weight.shape[0]
    result = Tensor((shape[0], channels, *sizes), x.dtype)
    bias = None if places.bias is None else call.optional(places.bias)
    addend = None if places.addend is None else call.optional(places.addend)
    flops = _products(x, weight, result, transposed)
    flops += result.numel * ((bias is not None) + (addend is not None))
    shown = {
        "stride": (stride, 1),
        "padding": (padding, 0),
        "dilation": (dilation, 1),
        "groups": ((groups,), 1),
    }
    described = [
        f"{name} {'×'.join(map(str, value))}"
        for name, (value, usual) in shown.items()
        if set(value) != {usual}
    ]
    detail = ", ".join(["transposed"] * transposed + described)
    return estimate(
        _FAMILY, flops, (x, weight, bias, addend, result), dtype=x.dtype, matrix=True, detail=detail
    )


def _each(call: Call, place: int | None, count: int, default: int) -> tuple[int, ...]:
    """A value for each dimension; a single value applies to all."""
    if place is None:
        return (default,) * count
    found = call.integers(place)
    if found is None:
        raise Unknown("padding that was given as a word is not in the file")
    return found * count if len(found) == 1 else found


def _products(x: Tensor, weight: Tensor, result: Tensor, transposed: bool) -> int:
    """Operations of the products: two for each point of the kernel and each input (output, if transposed) of a group."""
    points = prod(weight.shape[1:]) * (4 if dtypes.is_complex(x.dtype) else 1)
    return 2 * points * (x.numel if transposed else result.numel)


def _backward(call: Call) -> Estimate:
    """Each gradient that the mask requests is a convolution with as many products as the forward one."""
    gradient_at, x_at, weight_at, transposed, mask_at = _BACKWARD[call.name]
    gradient, x, weight = (call.tensor(i) for i in (gradient_at, x_at, weight_at))
    mask = call.flags(mask_at if mask_at >= 0 else len(call.arguments) - 1)
    if mask is None:
        raise Unknown("which gradients are wanted is not in the file")
    of_input, of_weight, of_bias = (*mask, False)[:3]
    once = _products(x, weight, gradient, _is_transposed(call, transposed))
    flops = once * (of_input + of_weight) + gradient.numel * of_bias
    dense = Tensor(x.shape, x.dtype), Tensor(weight.shape, weight.dtype)
    parts: list[Tensor] = []
    if of_input:
        parts += [gradient, weight, dense[0]]
    if of_weight:
        parts += [gradient, x, dense[1]]
    if of_bias:
        parts += [gradient, Tensor(gradient.shape[1:2], gradient.dtype)]
    names = [name for name, on in (("input", of_input), ("weight", of_weight), ("bias", of_bias)) if on]
    detail = f"gradients of {', '.join(names)}" if names else "no gradients"
    return estimate(_FAMILY, flops, parts, dtype=x.dtype, matrix=True, detail=detail)


MODELS: dict[str, tuple[str, Model]] = {
    **dict.fromkeys(_PLACES, (_FAMILY, _forward)),
    **dict.fromkeys(_BACKWARD, (_FAMILY, _backward)),
}
