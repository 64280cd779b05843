"""Normalization: batch, layer, group, instance and RMS norm, forward and backward.

Per element, forward: 3 for mean and variance where they are computed, 2 to apply them; RMS: 2 for the mean square, 1 to apply it,
1 for a weight. Backward: 4 for the sums, 5 for the input's gradient; RMS: 6, and 2 for a weight's gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from warpsight.analysis.ops.arguments import Call, Tensor
from warpsight.analysis.ops.models.estimate import Estimate, Model, estimate

_FAMILY = "norm"


@dataclass(frozen=True)
class _Forward:
    """Where a forward operator has its arguments; the input comes first unless `x` says otherwise.

    `training`: the argument for whether statistics are computed (True: always). `over`: the shape that is normalized.
    """

    weight: int
    bias: int | None = None
    running: tuple[int, ...] = ()
    training: int | bool = True
    x: int = 0


_BATCH = _Forward(1, 2, (3, 4), 5)
_FORWARD = {
    **dict.fromkeys(
        ("aten::batch_norm", "aten::native_batch_norm", "aten::cudnn_batch_norm", "aten::miopen_batch_norm",
         "aten::_batch_norm_impl_index", "aten::_native_batch_norm_legit", "aten::instance_norm"),
        _BATCH,
    ),
    "aten::_native_batch_norm_legit_no_training": _Forward(1, 2, (3, 4), False),
    "aten::_batch_norm_with_update": _Forward(1, 2, (3, 4)),
    **dict.fromkeys(("aten::layer_norm", "aten::native_layer_norm"), _Forward(2, 3)),
    "aten::group_norm": _Forward(2, 3),
    "aten::native_group_norm": _Forward(1, 2),
    "aiter::_groupnorm_run": _Forward(2, 3),
}  # fmt: skip


def _forward(call: Call) -> Estimate:
    places = _FORWARD[call.name]
    x = call.tensor(places.x)
    computed = places.training if isinstance(places.training, bool) else call.flag(places.training)
    weights = [call.optional(i) for i in (places.weight, places.bias) if i is not None]
    running = [call.optional(i) for i in places.running]
    written = [one for one in running if one is not None and computed]  # updated: read above, written here
    flops = x.numel * (5 if computed else 2)
    result = Tensor(x.shape, x.dtype)
    return estimate(_FAMILY, flops, (x, result, *weights, *running, *written), dtype=x.dtype)


#: Backward: places of the result's gradient, the input, the weight, statistics, and the mask of gradients (None: all).
_BACKWARD: dict[str, tuple[int, int, int, tuple[int, ...], int | None]] = {
    "aten::native_batch_norm_backward": (0, 1, 2, (5, 6), 9),
    "aten::batch_norm_backward": (0, 1, 2, (5, 6), 9),
    **dict.fromkeys(("aten::cudnn_batch_norm_backward", "aten::miopen_batch_norm_backward"), (1, 0, 2, (5, 6), None)),
    "aten::native_layer_norm_backward": (0, 1, 5, (3, 4), 7),
    "aten::native_group_norm_backward": (0, 1, 4, (2, 3), 9),
}  # fmt: skip


def _backward(call: Call) -> Estimate:
    gradient_at, x_at, weight_at, statistics, mask_at = _BACKWARD[call.name]
    gradient, x, weight = call.tensor(gradient_at), call.tensor(x_at), call.optional(weight_at)
    mask = (True, True, True) if mask_at is None else call.flags(mask_at) or (True, True, True)
    read = [gradient, x, weight, *(call.optional(i) for i in statistics)]
    written = [Tensor(x.shape, x.dtype)] * mask[0]
    if weight is not None:
        written += [Tensor(weight.shape, weight.dtype)] * (mask[1] + mask[2])
    flops = x.numel * (9 if mask[0] else 4)
    return estimate(_FAMILY, flops, (*read, *written), dtype=x.dtype)


def _rms(x: Tensor, weight: Tensor | None, *more: Tensor | None, extra: int = 0) -> Estimate:
    flops = x.numel * (3 + (weight is not None) + extra)
    return estimate(_FAMILY, flops, (x, weight, Tensor(x.shape, x.dtype), *more), dtype=x.dtype, detail="RMS")


def _rms_norm(call: Call) -> Estimate:
    return _rms(call.tensor(0), call.optional(2))


def _rms_norm_backward(call: Call) -> Estimate:
    gradient, x, weight = call.tensor(0), call.tensor(1), call.optional(4)
    mask = call.flags(5) or (True, True)
    rows = x.numel // max(prod(weight.shape), 1) if weight is not None else 1
    flops = x.numel * (6 * mask[0] + 1 + (weight is not None))
    flops += x.numel * (1 + (rows > 1)) if mask[1] and weight is not None else 0
    written = [Tensor(x.shape, x.dtype)] * mask[0]
    if weight is not None and mask[1]:
        written.append(Tensor(weight.shape, weight.dtype))
    return estimate(
        _FAMILY, flops, (gradient, x, weight, call.optional(3), *written), dtype=x.dtype, detail="RMS"
    )


def _aiter_rms_norm(call: Call) -> Estimate:
    return _rms(call.tensor(0), call.tensor(1))


def _vllm_rms_norm(call: Call) -> Estimate:
    """vLLM's: result, input, weight."""
    return _rms(call.tensor(1), call.tensor(2))


def _vllm_add_rms_norm(call: Call) -> Estimate:
    """vLLM's: input and residual, both updated, and weight; one more addition per element."""
    x, residual = call.tensor(0), call.tensor(1)
    return _rms(x, call.tensor(2), residual, Tensor(x.shape, residual.dtype), extra=1)


MODELS: dict[str, tuple[str, Model]] = {
    **dict.fromkeys(_FORWARD, (_FAMILY, _forward)),
    **dict.fromkeys(_BACKWARD, (_FAMILY, _backward)),
    **dict.fromkeys(("aten::rms_norm", "aten::_fused_rms_norm"), (_FAMILY, _rms_norm)),
    "aten::_fused_rms_norm_backward": (_FAMILY, _rms_norm_backward),
    **dict.fromkeys(("aiter::rms_norm", "vllm::rocm_aiter_rms_norm"), (_FAMILY, _aiter_rms_norm)),
    "_C::rms_norm": (_FAMILY, _vllm_rms_norm),
    "_C::fused_add_rms_norm": (_FAMILY, _vllm_add_rms_norm),
}
