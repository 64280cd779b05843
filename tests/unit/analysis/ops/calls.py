"""Calls of operators as a profile has them, from shapes, types and values."""

from __future__ import annotations

import json
from typing import Any

from warpsight.analysis.ops import arguments
from warpsight.analysis.ops.models import evaluate
from warpsight.analysis.ops.models.estimate import Estimate

BF16, FP32, FP8, LONG = "c10::BFloat16", "float", "c10::Float8_e4m3fn", "long int"


def attributes(
    shapes: list[Any], dtype: str | list[str] = BF16, values: dict[int, str] | None = None, **more: Any
) -> dict[str, str]:
    """Columns `shapes` and `attributes` of table op. A shape of None is not a tensor; `values` are those of numbers, by place."""
    told = values or {}
    types = [dtype] * len(shapes) if isinstance(dtype, str) else dtype
    kinds = ["Scalar" if i in told else "" if shape is None else types[i] for i, shape in enumerate(shapes)]
    rest = {"Input type": kinds, "Concrete Inputs": [told.get(i, "") for i in range(len(shapes))], **more}
    return {"shapes": json.dumps([shape or [] for shape in shapes]), "attributes": json.dumps(rest)}


def call(
    name: str, *shapes: Any, dtype: str | list[str] = BF16, values: dict[int, str] | None = None, **more: Any
) -> arguments.Call:
    """The call of an operator with arguments of these shapes."""
    columns = attributes(list(shapes), dtype, values, **more)
    return arguments.call(name, columns["shapes"], arguments.of_attributes(columns["attributes"])[0])


def work(name: str, *shapes: Any, **more: Any) -> Estimate:
    """What the model of an operator says of a call."""
    return evaluate(call(name, *shapes, **more))
