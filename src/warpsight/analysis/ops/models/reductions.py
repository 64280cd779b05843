"""Reductions (sum, mean, maximum, norm, variance, …), scans and pooling: one operation per element read."""

from __future__ import annotations

from math import prod

from warpsight.analysis.ops import dtypes
from warpsight.analysis.ops.arguments import Call, Tensor, Unknown
from warpsight.analysis.ops.models.elementwise import elementwise as larger
from warpsight.analysis.ops.models.estimate import Estimate, Model, estimate

_FAMILY, _SCAN, _POOLING = "reduction", "scan", "pooling"
_OVER_1 = """sum nansum mean prod amax amin all any argmax argmin logsumexp max min median var std count_nonzero aminmax
    var_mean std_mean"""
#: Operator → position of the dimensions. If they are missing, all dimensions.
_DIMENSIONS = {**dict.fromkeys(_OVER_1.split(), 1), "linalg_norm": 2, "linalg_vector_norm": 2, "norm": 2}
#: With two arguments, the second is not a dimension but the result's type, whether a variance is unbiased, or the norm's order.
_WITHOUT = frozenset(["sum", "nansum", "mean", "prod", "var", "std", "var_mean", "std_mean", "norm"])
#: Operations per element if not 1: none for logic; difference, square and sum for a variance; …
_PER_ELEMENT = {"all": 0, "any": 0, "count_nonzero": 0, "var": 3, "std": 3, "var_mean": 3, "std_mean": 3, "norm": 2,
                "linalg_norm": 2, "linalg_vector_norm": 2, "logsumexp": 3}  # fmt: skip
_PLACES_TOO = frozenset(("max", "min", "median"))
#: Operators that take a result type, as the last argument; sums and products of integers are 64 bits wide.
_TYPED, _WIDENED = frozenset(("sum", "nansum", "prod", "mean")), frozenset(("sum", "nansum", "prod"))


def _reduction(call: Call) -> Estimate:
    base = call.name.removeprefix("aten::")
    x = call.tensor(0)
    if (
        base in ("max", "min") and call.optional(1) is not None
    ):  # the larger of two tensors, element by element
        return larger(Call("aten::maximum", call.arguments, call.has_values))
    flops = x.numel * _PER_ELEMENT.get(base, 1)
    try:
        dims = _dimensions(call, base)
    except Unknown as reason:  # the result's size is unknown, but the input's size is known
        return Estimate(_FAMILY, flops, None, x.dtype, reason=str(reason))
    gone = set(range(len(x.shape))) if dims is None else {dim % max(len(x.shape), 1) for dim in dims}
    shape = tuple(size for place, size in enumerate(x.shape) if place not in gone)
    results = [Tensor(shape, _type(base, call, x))]
    if base in ("var_mean", "std_mean", "aminmax"):
        results.append(results[0])
    elif base in _PLACES_TOO and dims is not None:
        results.append(Tensor(shape, "int64"))
    return estimate(_FAMILY, flops, (x, *results), dtype=x.dtype)


def _dimensions(call: Call, base: str) -> tuple[int, ...] | None:
    """The reduced dimensions; None means all."""
    place, count = _DIMENSIONS[base], len(call.arguments)
    if count <= place or (count == 2 and base in _WITHOUT):
        return None
    return call.integers(place)


def _type(base: str, call: Call, x: Tensor) -> str:
    if base in ("all", "any"):
        return "bool"
    if base in ("argmax", "argmin", "count_nonzero"):
        return "int64"
    wanted = ""
    if base in _TYPED and call.has_values and len(call.arguments) > 1:
        wanted = dtypes.numbered(call.integer(1 if len(call.arguments) == 2 else 3))
    return wanted or ("int64" if base in _WIDENED and dtypes.is_integer(x.dtype) else x.dtype)


def _scan(call: Call) -> Estimate:
    x = call.tensor(0)
    wanted = dtypes.numbered(call.integer(2)) if call.has_values else ""
    dtype = wanted or ("int64" if dtypes.is_integer(x.dtype) else x.dtype)
    return estimate(_SCAN, x.numel, (x, Tensor(x.shape, dtype)), dtype=x.dtype)


def _pool(call: Call) -> Estimate:
    """Windows over the last dimensions; with `indices`, the position of each maximum as well."""
    x = call.tensor(0)
    base = call.name.removeprefix("aten::")
    count = int(base[base.index("pool") + 4])
    dilation_at, ceil_at = (4, 5) if base.startswith("max") else (None, 4)
    kernel = _each(call, 1, count, None)
    stride = _each(call, 2, count, kernel)
    padding = _each(call, 3, count, (0,))
    dilation = _each(call, dilation_at, count, (1,)) if dilation_at else (1,) * count
    up = call.flag(ceil_at)
    sizes = []
    for n, k, s, p, d in zip(x.shape[-count:], kernel, stride, padding, dilation, strict=True):
        span = n + 2 * p - d * (k - 1) - 1
        size = -(-span // s) + 1 if up else span // s + 1
        sizes.append(size - (up and (size - 1) * s >= n + p))
    shape = (*x.shape[:-count], *sizes)
    results = [Tensor(shape, x.dtype)] + [Tensor(shape, "int64")] * base.endswith("indices")
    return estimate(_POOLING, prod(shape) * prod(kernel), (x, *results), dtype=x.dtype)


def _each(call: Call, place: int, count: int, default: tuple[int, ...] | None) -> tuple[int, ...]:
    found = call.integers(place) or default
    if found is None:
        raise Unknown("the window is not in the file")
    return found * count if len(found) == 1 else found


def _adaptive(call: Call) -> Estimate:
    """A mean for each position of the result: every element is read once."""
    x = call.tensor(0)
    sizes = call.integers(1)
    if sizes is None:
        raise Unknown("the size of the result is not in the file")
    shape = (*x.shape[: -len(sizes)], *sizes)
    return estimate(_POOLING, x.numel, (x, Tensor(shape, x.dtype)), dtype=x.dtype)


def _pool_backward(call: Call) -> Estimate:
    """One addition per incoming gradient (for an average, per outgoing element)."""
    gradient, x = call.tensor(0), call.tensor(1)
    indices = call.tensors[2:3] if "max" in call.name else []
    flops = gradient.numel if indices else x.numel
    return estimate(_POOLING, flops, (gradient, *indices, Tensor(x.shape, x.dtype)), dtype=x.dtype)


MODELS: dict[str, tuple[str, Model]] = {
    **{f"aten::{name}": (_FAMILY, _reduction) for name in _DIMENSIONS},
    **dict.fromkeys(("aten::cumsum", "aten::cumprod", "aten::logcumsumexp"), (_SCAN, _scan)),
    **dict.fromkeys(
        ("aten::max_pool1d", "aten::max_pool2d", "aten::max_pool3d", "aten::max_pool2d_with_indices",
         "aten::max_pool3d_with_indices", "aten::avg_pool1d", "aten::avg_pool2d", "aten::avg_pool3d"),
        (_POOLING, _pool),
    ),
    **dict.fromkeys(
        ("aten::adaptive_avg_pool1d", "aten::adaptive_avg_pool2d", "aten::_adaptive_avg_pool2d",
         "aten::adaptive_avg_pool3d", "aten::_adaptive_avg_pool3d"),
        (_POOLING, _adaptive),
    ),
    **dict.fromkeys(
        ("aten::max_pool2d_with_indices_backward", "aten::max_pool3d_with_indices_backward", "aten::avg_pool2d_backward",
         "aten::avg_pool3d_backward", "aten::_adaptive_avg_pool2d_backward", "aten::_adaptive_avg_pool3d_backward"),
        (_POOLING, _pool_backward),
    ),
}  # fmt: skip
