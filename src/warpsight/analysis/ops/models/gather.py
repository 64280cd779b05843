"""Reading and writing by index: embeddings, embedding bags, index_select, gather, scatter."""

from __future__ import annotations

from math import prod

from warpsight.analysis.ops.arguments import Call, Tensor, Unknown
from warpsight.analysis.ops.models.estimate import Estimate, Model, estimate

_FAMILY = "gather"


def _rows(weight: Tensor, indices: Tensor) -> Estimate:
    """A table row read and written for each index; repeated indices cannot be seen, so each index counts."""
    result = Tensor((*indices.shape, *weight.shape[1:]), weight.dtype)
    return estimate(_FAMILY, 0, (indices, result, result), dtype=weight.dtype)


def _embedding(call: Call) -> Estimate:
    return _rows(call.tensor(0), call.tensor(1))


def _index_select(call: Call) -> Estimate:
    x, index = call.tensor(0), call.tensor(2)
    dim = call.integer(1)
    if dim is None:
        raise Unknown("values of arguments are not in the file")
    place = dim % max(len(x.shape), 1)
    shape = tuple(index.numel if i == place else n for i, n in enumerate(x.shape))
    result = Tensor(shape, x.dtype)
    return estimate(_FAMILY, 0, (index, result, result), dtype=x.dtype)


def _embedding_backward(call: Call) -> Estimate:
    """Gradients are added to the rows of a table of zeros."""
    gradient, indices = call.tensor(0), call.tensor(1)
    rows = call.integer(2)
    if rows is None:
        raise Unknown("the size of the table is not in the file")
    table = Tensor((rows, gradient.shape[-1]), gradient.dtype)
    return estimate(_FAMILY, gradient.numel, (gradient, indices, table), dtype=gradient.dtype)


def _bag(call: Call) -> Estimate:
    """Rows of the table are summed, one result per bag; the last offset may be the end of the last bag."""
    weight, indices, offsets = (call.tensor(i) for i in range(3))
    read = Tensor((indices.numel, weight.shape[1]), weight.dtype)
    bags = offsets.numel - (1 if call.has_values and call.flag(7) else 0)
    result = Tensor((bags, weight.shape[1]), weight.dtype)
    weights = call.optional(6)
    flops = read.numel * (1 + (weights is not None))
    return estimate(_FAMILY, flops, (indices, offsets, weights, read, result), dtype=weight.dtype)


def _by_index(call: Call) -> Estimate:
    """gather, take: one element per index."""
    x, index = call.tensor(0), call.tensor(2 if call.name == "aten::gather" else 1)
    result = Tensor(index.shape, x.dtype)
    return estimate(_FAMILY, 0, (index, result, result), dtype=x.dtype)


def _scatter(call: Call) -> Estimate:
    """One element of the source (or a number) per index goes into `self`, which is copied unless the operator works in place."""
    x, index, source = call.tensor(0), call.tensor(2), call.optional(3)
    adds = "add" in call.name or "reduce" in call.name
    written = Tensor(index.shape, x.dtype)
    copied = [] if call.name.endswith("_") else [x, Tensor(x.shape, x.dtype)]
    read = [Tensor(index.shape, source.dtype) if source is not None else None] + [written] * adds
    return estimate(_FAMILY, index.numel * adds, (index, *read, written, *copied), dtype=x.dtype)


def _index_rows(call: Call) -> Estimate:
    """index_add, index_copy: slices of the source go to positions in one dimension."""
    x, index, source = call.tensor(0), call.tensor(2), call.tensor(3)
    adds = "add" in call.name
    copied = [] if call.name.endswith("_") else [x, Tensor(x.shape, x.dtype)]
    written = Tensor(source.shape, x.dtype)
    return estimate(
        _FAMILY,
        prod(source.shape) * adds,
        (index, source, *[written] * adds, written, *copied),
        dtype=x.dtype,
    )


def _nll_loss(call: Call) -> Estimate:
    """One element of each row, summed unless every row has a result (`reduction` 0)."""
    x, target, weight = call.tensor(0), call.tensor(1), call.optional(2)
    result = Tensor(target.shape if call.integer(3) == 0 else (), x.dtype)
    return estimate(
        _FAMILY, target.numel, (target, weight, Tensor(target.shape, x.dtype), result), dtype=x.dtype
    )


def _nll_loss_backward(call: Call) -> Estimate:
    """Zeros, and one element of each row."""
    gradient, x, target, weight = call.tensor(0), call.tensor(1), call.tensor(2), call.optional(3)
    written = Tensor(x.shape, x.dtype), Tensor(target.shape, x.dtype)
    return estimate(_FAMILY, 0, (gradient, target, weight, *written), dtype=x.dtype)


MODELS: dict[str, tuple[str, Model]] = {
    "aten::embedding": (_FAMILY, _embedding),
    "aten::index_select": (_FAMILY, _index_select),
    **dict.fromkeys(("aten::embedding_dense_backward", "aten::embedding_backward"), (_FAMILY, _embedding_backward)),
    **dict.fromkeys(
        ("aten::embedding_bag", "aten::_embedding_bag", "aten::_embedding_bag_forward_only"), (_FAMILY, _bag)
    ),
    **dict.fromkeys(("aten::nll_loss_forward", "aten::nll_loss2d_forward"), (_FAMILY, _nll_loss)),
    **dict.fromkeys(("aten::nll_loss_backward", "aten::nll_loss2d_backward"), (_FAMILY, _nll_loss_backward)),
    **dict.fromkeys(("aten::gather", "aten::take", "aten::take_along_dim"), (_FAMILY, _by_index)),
    **{f"aten::{name}{end}": (_FAMILY, _scatter) for name in ("scatter", "scatter_add", "scatter_reduce") for end in ("", "_")},
    **{f"aten::{name}{end}": (_FAMILY, _index_rows) for name in ("index_add", "index_copy") for end in ("", "_")},
}  # fmt: skip
