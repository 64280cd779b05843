"""Operators that only move data (copies, casts, padding, upsampling), fill memory, or do no device work (views)."""

from __future__ import annotations

from warpsight.analysis.ops import dtypes
from warpsight.analysis.ops.arguments import Call, Tensor, Unknown
from warpsight.analysis.ops.models.estimate import VIEW, Estimate, Model, estimate

_COPY, _FILL = "copy", "fill"


def _copy(call: Call) -> Estimate:
    """The source is broadcast to the destination."""
    destination, source = call.tensor(0), call.tensor(1)
    return estimate(_COPY, 0, (source, destination), dtype=destination.dtype)


def _clone(call: Call) -> Estimate:
    x = call.tensor(0)
    return estimate(_COPY, 0, (x, Tensor(x.shape, x.dtype)), dtype=x.dtype)


def _to_copy(call: Call) -> Estimate:
    """A copy with another type, device or layout."""
    x = call.tensor(0)
    dtype = (dtypes.numbered(call.integer(1)) if call.has_values else "") or x.dtype
    return estimate(_COPY, 0, (x, Tensor(x.shape, dtype)), dtype=dtype)


def _joined(call: Call) -> Estimate:
    """cat, stack: everything is read and written once. Kineto does not record the element types of lists."""
    listed = call.tensor_list()
    dense = [Tensor(one.shape, one.dtype) for one in listed]
    return estimate(_COPY, 0, (*listed, *dense), detail=f"{len(listed)} tensors")


def _repeat(call: Call) -> Estimate:
    x, times = call.tensor(0), call.integers(1)
    if times is None:
        raise Unknown("the number of repetitions is not in the file")
    shape = (1,) * (len(times) - len(x.shape)) + x.shape
    result = Tensor(tuple(n * t for n, t in zip(shape, times, strict=True)), x.dtype)
    return estimate(_COPY, 0, (x, result), dtype=x.dtype)


def _pad(call: Call) -> Estimate:
    """Pairs of widths, starting from the last dimension."""
    x, widths = call.tensor(0), call.integers(1)
    if widths is None:
        raise Unknown("the widths are not in the file")
    shape = list(x.shape)
    for place in range(len(widths) // 2):
        shape[-1 - place] += widths[2 * place] + widths[2 * place + 1]
    return estimate(_COPY, 0, (x, Tensor(tuple(shape), x.dtype)), dtype=x.dtype)


def _upsample(call: Call) -> Estimate:
    """Nearest neighbor: results are copies of inputs."""
    x, sizes = call.tensor(0), call.integers(1)
    if sizes is None:
        raise Unknown("the size of the result is not in the file")
    return estimate(_COPY, 0, (x, Tensor((*x.shape[:2], *sizes), x.dtype)), dtype=x.dtype)


def _fill(call: Call) -> Estimate:
    x = call.tensor(0)
    return estimate(_FILL, 0, (Tensor(x.shape, x.dtype),), dtype=x.dtype)


def _view(call: Call) -> Estimate:
    return Estimate(VIEW, 0.0, 0.0)


_VIEWS = """alias as_strided as_strided_ broadcast_tensors broadcast_to chunk detach detach_ diagonal empty empty_like
    empty_strided expand expand_as flatten lift_fresh movedim narrow new_empty new_empty_strided numpy_T permute
    _reshape_alias resolve_conj resolve_neg result_type select set_ slice split split_with_sizes squeeze squeeze_
    swapaxes t t_ transpose transpose_ unbind unflatten unfold _unsafe_view unsqueeze unsqueeze_ view view_as
    view_as_complex view_as_real resize_ is_pinned record_stream real imag numpy_t adjoint mT mH"""
_CLONES = "clone flip roll _pin_memory contiguous"
_FILLS = "fill_ zero_ uniform_ normal_ random_ bernoulli_ exponential_ full_like ones_like zeros_like rand_like randn_like"
_PADS = "constant_pad_nd replication_pad1d replication_pad2d replication_pad3d reflection_pad1d reflection_pad2d reflection_pad3d"
MODELS: dict[str, tuple[str, Model]] = {
    "aten::copy_": (_COPY, _copy),
    "aten::_to_copy": (_COPY, _to_copy),
    **{f"aten::{name}": (_COPY, _clone) for name in _CLONES.split()},
    **dict.fromkeys(("aten::cat", "aten::concat", "aten::concatenate", "aten::stack"), (_COPY, _joined)),
    "aten::repeat": (_COPY, _repeat),
    **{f"aten::{name}": (_COPY, _pad) for name in _PADS.split()},
    **{f"aten::upsample_nearest{n}d": (_COPY, _upsample) for n in (1, 2, 3)},
    **{f"aten::{name}": (_FILL, _fill) for name in _FILLS.split()},
    **{f"aten::{name}": (VIEW, _view) for name in _VIEWS.split()},
    **dict.fromkeys(("detach", "detach_"), (VIEW, _view)),
}
