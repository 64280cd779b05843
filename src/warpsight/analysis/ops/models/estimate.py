"""A model's estimate for a call: arithmetic and bytes, or why they are unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from warpsight.analysis.ops import dtypes
from warpsight.analysis.ops.arguments import Call, Tensor, Unknown

#: Families of operators. Matrix families run on the matrix units; of those inside each other the innermost counts.
MATRIX = ("gemm", "grouped gemm", "convolution", "attention")
#: Families that only move data.
MOVING = ("copy", "fill")
VIEW = "view"


@dataclass(frozen=True)
class Estimate:
    """The work of one call.

    Attributes:
        family: What kind of operator it is.
        flops: Floating-point (or integer) operations, None: not known.
        bytes: Bytes read and written, None: not known.
        dtype: Our name for the element type of the arithmetic, "" if unknown.
        matrix: Done by the matrix units, where a device has them for the type.
        detail: Arguments that matter, in words.
        reason: Why something is not known.
    """

    family: str
    flops: float | None
    bytes: float | None
    dtype: str = ""
    matrix: bool = False
    detail: str = ""
    reason: str = ""

    @property
    def known(self) -> bool:
        """Whether anything is known."""
        return self.flops is not None or self.bytes is not None


#: Estimates the work of a call; raises Unknown when it cannot.
Model = Callable[[Call], Estimate]


def moved(*tensors: Tensor | None) -> tuple[float | None, str]:
    """Total bytes of some tensors (ignoring None), and the reason if they are unknown."""
    try:
        return float(sum(tensor.bytes for tensor in tensors if tensor is not None)), ""
    except Unknown as reason:
        return None, str(reason)


def estimate(
    family: str, flops: float | None, tensors: Iterable[Tensor | None], *,
    dtype: str = "", matrix: bool = False, detail: str = "",
) -> Estimate:  # fmt: skip
    """An estimate that moves each of these tensors once."""
    count, reason = moved(*tensors)
    return Estimate(family, flops, count, dtype, matrix, detail, reason)


def unknown(family: str, reason: str) -> Estimate:
    """An estimate that only gives the reason why nothing is known."""
    return Estimate(family, None, None, reason=reason)


def judged(model: Model, family: str, call: Call) -> Estimate:
    """A model's estimate of a call, or the reason for having none; contradictory arguments count as unknown."""
    try:
        found = model(call)
        found = replace(found, flops=None if found.flops is None else float(found.flops))
    except Unknown as reason:
        return unknown(family, str(reason))
    except (
        ValueError,
        IndexError,
        ArithmeticError,
    ):  # too few or too many dimensions, strides of 0, numbers beyond all bounds
        return unknown(family, "the arguments do not fit the operator")
    if dtypes.is_complex(found.dtype) and found.flops is not None and not found.matrix:
        return replace(found, flops=None, reason="arithmetic of complex numbers is not modelled")
    return found
