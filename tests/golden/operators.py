"""The work of every operator that has a model, for generated arguments: `python -m tests.golden.operators` writes it anew.

Most of the generated calls make no sense; the stored answer says how many, shows two of those that do, and has a digest of all.
"""

from __future__ import annotations

import json
import random
from typing import Any

from tests.golden.answering import ANSWERS, plain
from warpsight.analysis.ops import arguments
from warpsight.analysis.ops.models import REGISTRY, evaluate

NAME = "operators"
_CALLS = 60
_TYPES = (
    "float",
    "c10::BFloat16",
    "c10::Half",
    "long int",
    "double",
    "c10::Float8_e4m3fn",
    "bool",
    "c10::complex<float>",
)


def _argument(order: random.Random, size: int, rank: int, dtype: str) -> tuple[Any, str, Any, str]:
    """Shape, type, strides and value."""
    drawn = order.random()
    if drawn < 0.55:
        shape = [
            size if order.random() < 0.8 else order.choice((1, 2, 3, 16))
            for _ in range(order.choice((rank, rank, 1, 4)))
        ]
        strides = [0 if order.random() < 0.05 else size for _ in shape] if order.random() < 0.2 else []
        return shape, dtype if order.random() < 0.9 else order.choice(_TYPES), strides, ""
    if drawn < 0.6:
        return [[size, size], [2, size]], "TensorList", [], ""
    if drawn < 0.75:
        return [], "", [], ""
    value = order.choice(("0", "1", "2", "3", "6", "-1", "0.5", "True", "False", "True", "[1, 1]", "[2, 2]", "[0]", "[-1]",
                          "[True, True, True]", "[True, False, True]", "[2, 2, 2]"))  # fmt: skip
    return [], "Scalar" if "[" not in value else "ScalarList", [], value


def _call(name: str, order: random.Random) -> arguments.Call:
    size, rank, dtype = order.choice((2, 4, 5, 8)), order.choice((1, 2, 2, 3, 4, 5)), order.choice(_TYPES)
    made = [_argument(order, size, rank, dtype) for _ in range(order.randrange(1, 17))]
    if order.random() < 0.4:  # as convolutions and pooling have them
        values = ("[1]", "[1, 1]", "[2, 2]", "[0]", "1", "False", "[True, True, True]")
        made = [([], "ScalarList", [], order.choice(values)) for _ in made]
    listed = "_foreach" in name or order.random() < 0.1
    for place in range(min(order.choice((1, 2, 3)), len(made))):  # most operators take their tensors first
        made[place] = (
            ([[size] * rank] * 3, "TensorList", [], "") if listed else ([size] * rank, dtype, [], "")
        )
    shapes, types, strides, values = ([one[part] for one in made] for part in range(4))
    details: dict[str, Any] = {"Input type": types, "Input Strides": strides}
    if order.random() < 0.9:
        details["Concrete Inputs"] = values
    return arguments.call(name, json.dumps(shapes), arguments.of_attributes(json.dumps(details))[0])


def works() -> dict[str, Any]:
    """Operator → family, calls whose work is known, and the work of all."""
    found = {}
    for name in sorted(REGISTRY):
        order = random.Random(name)
        calls = [_call(name, order) for _ in range(_CALLS)]
        work = [(call.arguments, evaluate(call)) for call in calls]
        known = [one for one in work if one[1].flops is not None and one[1].bytes]
        found[name] = plain({"known": len(known), "work": [str(one) for one in (*known, *work)]})
    return found


if __name__ == "__main__":
    text = json.dumps(works(), indent=1, ensure_ascii=False, sort_keys=True)
    (ANSWERS / f"{NAME}.json").write_text(text + "\n", encoding="utf-8")
