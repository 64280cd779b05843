"""Products of matrices: mm, addmm, bmm, baddbmm, linear, matmul, scaled and grouped products.

Arguments are in the order of PyTorch's native_functions.yaml; for vLLM's and bitsandbytes' operators, of their schemas.
"""

from __future__ import annotations

from math import prod

from warpsight.analysis.ops import dtypes
from warpsight.analysis.ops.arguments import Call, Tensor, Unknown
from warpsight.analysis.ops.models.estimate import Estimate, Model, estimate

_FAMILY, _GROUPED = "gemm", "grouped gemm"


def _product(
    a: Tensor, b: Tensor, result: Tensor, inner: int, addend: Tensor | None = None, *more: Tensor | None,
    family: str = _FAMILY, matrix: bool = True,
) -> Estimate:  # fmt: skip
    """A matrix product with `inner` multiplications per result, and an addend for each result."""
    inner *= 2 if a.dtype == "fp4x2" else 1
    parts = 4 if dtypes.is_complex(a.dtype) else 1
    flops = parts * 2 * result.numel * inner + (result.numel if addend is not None else 0)
    read = (a, b, addend, *more)
    return estimate(family, flops, (*read, result), dtype=a.dtype, matrix=matrix)


def _agree(one: int, other: int) -> int:
    if one != other:
        raise Unknown("the shapes do not fit each other")
    return one


def _mm(call: Call) -> Estimate:
    a, b = call.tensor(0), call.tensor(1)
    (m, k), (other, n) = a.shape, b.shape
    dtype = "int32" if call.name == "aten::_int_mm" else a.dtype
    return _product(a, b, Tensor((m, n), dtype), _agree(k, other))


def _addmm(call: Call) -> Estimate:
    a, b = call.tensor(1), call.tensor(2)
    (m, k), (other, n) = a.shape, b.shape
    return _product(a, b, Tensor((m, n), a.dtype), _agree(k, other), _addend(call))


def _addend(call: Call) -> Tensor | None:
    """The addend of the product: None if its factor beta is 0."""
    return None if call.has_values and call.number(3) == 0 else call.tensor(0)


def _bmm(call: Call) -> Estimate:
    return _batched(call.tensor(0), call.tensor(1), None)


def _baddbmm(call: Call) -> Estimate:
    return _batched(call.tensor(1), call.tensor(2), _addend(call))


def _batched(a: Tensor, b: Tensor, addend: Tensor | None) -> Estimate:
    (batch, m, k), (others, other, n) = a.shape, b.shape
    return _product(a, b, Tensor((_agree(batch, others), m, n), a.dtype), _agree(k, other), addend)


def _addbmm(call: Call) -> Estimate:
    a, b = call.tensor(1), call.tensor(2)
    (batch, m, k), (_, other, n) = a.shape, b.shape
    return _product(a, b, Tensor((m, n), a.dtype), batch * _agree(k, other), _addend(call))


def _mv(call: Call) -> Estimate:
    a, b = call.tensor(0), call.tensor(1)
    (m, k), (other,) = a.shape, b.shape
    return _product(a, b, Tensor((m,), a.dtype), _agree(k, other), matrix=False)


def _addmv(call: Call) -> Estimate:
    a, b = call.tensor(1), call.tensor(2)
    (m, k), (other,) = a.shape, b.shape
    return _product(a, b, Tensor((m,), a.dtype), _agree(k, other), _addend(call), matrix=False)


def _dot(call: Call) -> Estimate:
    a, b = call.tensor(0), call.tensor(1)
    (k,), (other,) = a.shape, b.shape
    return _product(a, b, Tensor((), a.dtype), _agree(k, other), matrix=False)


def _linear(call: Call) -> Estimate:
    """X · Wᵀ + bias; a one-dimensional weight gives one result per row."""
    x, weight, bias = call.tensor(0), call.tensor(1), call.optional(2)
    inner = _agree(x.shape[-1], weight.shape[-1])
    dtype = x.dtype if call.name.startswith("aten::") or not dtypes.is_integer(x.dtype) else "int32"
    return _product(x, weight, Tensor((*x.shape[:-1], *weight.shape[:-1]), dtype), inner, bias)


def _matmul(call: Call) -> Estimate:
    """Broadcast over all but the last two dimensions; a vector is a row on the left and a column on the right."""
    a, b = call.tensor(0), call.tensor(1)
    left = a.shape if len(a.shape) > 1 else (1, *a.shape)
    right = b.shape if len(b.shape) > 1 else (*b.shape, 1)
    batch = broadcast(left[:-2], right[:-2])
    result = Tensor((*batch, left[-2], right[-1]), a.dtype)
    return _product(a, b, result, _agree(left[-1], right[-2]), matrix=min(len(a.shape), len(b.shape)) > 1)


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common broadcast shape.

    Raises:
        Unknown: when the shapes cannot be broadcast.
    """
    length = max(map(len, shapes), default=0)
    out = [1] * length
    for shape in shapes:
        for place, size in enumerate(shape, length - len(shape)):
            if size != 1 and out[place] not in (1, size):
                raise Unknown("the shapes do not fit each other")
            out[place] = size if size != 1 else out[place]
    return tuple(out)


def _scaled_mm(call: Call) -> Estimate:
    """fp8 or fp4 with scales. Before torch 2.5, bias and result type came before the scales."""
    a, b = call.tensor(0), call.tensor(1)
    scale = call.optional(2)
    is_late = scale is not None and call.optional(3) is not None
    bias, place = (call.optional(4), 6) if is_late else (scale, 3)
    if call.name.endswith("_v2"):
        bias, place = call.optional(8), 9
    dtype = dtypes.numbered(call.integer(place)) or a.dtype
    result = Tensor((a.shape[0], b.shape[1]), dtype)
    scales = [call.optional(i) for i in (2, 3)] if is_late else []
    return _product(a, b, result, _agree(a.shape[1], b.shape[0]), bias, *scales)


def _grouped_mm(call: Call) -> Estimate:
    """Products of groups. A matrix without a group dimension holds the groups one after another, separated by offsets."""
    a, b = call.tensor(0), call.tensor(1)
    scaled = call.name.startswith("aten::_scaled")
    shape: tuple[int, ...]
    offsets, bias, place = (
        (call.optional(4), call.optional(5), 7) if scaled else (call.optional(2), call.optional(3), 4)
    )
    dtype = dtypes.numbered(call.integer(place)) or ("bf16" if scaled else a.dtype)
    if len(a.shape) == 3 and len(b.shape) == 3:
        shape, inner = (a.shape[0], a.shape[1], b.shape[2]), a.shape[2]
    elif len(a.shape) == 2 and len(b.shape) == 3:  # rows belong to groups
        shape, inner = (a.shape[0], b.shape[2]), a.shape[1]
    elif len(a.shape) == 3:  # columns belong to groups
        shape, inner = (a.shape[1], b.shape[1]), a.shape[2]
    else:  # each group has its part of the inner dimension: one result for each, together as many products
        if offsets is None:
            raise Unknown("the number of groups is not in the file")
        shape, inner = (offsets.shape[0], a.shape[0], b.shape[1]), a.shape[1]
        return _jagged_inner(a, b, Tensor(shape, dtype), inner)
    return _product(a, b, Tensor(shape, dtype), inner, bias, family=_GROUPED)


def _jagged_inner(a: Tensor, b: Tensor, result: Tensor, inner: int) -> Estimate:
    flops = 2 * prod(result.shape[1:]) * inner * (2 if a.dtype == "fp4x2" else 1)
    return estimate(_GROUPED, flops, (a, b, result), dtype=a.dtype, matrix=True)


def _cutlass_scaled_mm(call: Call) -> Estimate:
    """vLLM's: the result, both matrices, their scales, bias."""
    result, a, b = (call.tensor(i) for i in range(3))
    return _product(
        a, b, result, _agree(a.shape[1], b.shape[0]), call.optional(5), call.optional(3), call.optional(4)
    )


MODELS: dict[str, tuple[str, Model]] = {
    **dict.fromkeys(("aten::mm", "aten::_int_mm"), (_FAMILY, _mm)),
    **dict.fromkeys(("aten::addmm", "aten::addmm_", "aten::_addmm_activation"), (_FAMILY, _addmm)),
    "aten::bmm": (_FAMILY, _bmm),
    **dict.fromkeys(("aten::baddbmm", "aten::baddbmm_"), (_FAMILY, _baddbmm)),
    **dict.fromkeys(("aten::addbmm", "aten::addbmm_"), (_FAMILY, _addbmm)),
    "aten::mv": (_FAMILY, _mv),
    **dict.fromkeys(("aten::addmv", "aten::addmv_"), (_FAMILY, _addmv)),
    **dict.fromkeys(("aten::dot", "aten::vdot"), (_FAMILY, _dot)),
    **dict.fromkeys(
        ("aten::linear", "aten::_weight_int8pack_mm", "vllm::rocm_unquantized_gemm", "bitsandbytes::int8_linear_matmul"),
        (_FAMILY, _linear),
    ),
    "aten::matmul": (_FAMILY, _matmul),
    **dict.fromkeys(("aten::_scaled_mm", "aten::_scaled_mm_v2"), (_FAMILY, _scaled_mm)),
    **dict.fromkeys(("aten::_grouped_mm", "aten::_scaled_grouped_mm"), (_GROUPED, _grouped_mm)),
    "_C::cutlass_scaled_mm": (_FAMILY, _cutlass_scaled_mm),
}  # fmt: skip
