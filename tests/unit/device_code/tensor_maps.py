"""Tensor maps for tests."""

from __future__ import annotations

from typing import Any

from warpsight.device_code.tma.tensor_map import TensorMap

SIZES = {"UINT8": 1, "FLOAT16": 2, "FLOAT32": 4, "INT64": 8}


def made(*, strides: tuple[int, ...] = (64,), data_type: str = "FLOAT32", **fields: Any) -> TensorMap:
    """A tensor map of two dimensions with some fields changed; strides are those of the outer dimensions."""
    plain: dict[str, Any] = {
        "address": 1 << 33, "dimensions": (10, 20), "box": (4, 1), "interleave": "NONE", "swizzle": "NONE",
        "l2_promotion": "NONE", "oob_fill": "NONE",
    }  # fmt: skip
    plain |= fields
    size = SIZES[data_type]
    steps = (1,) * len(plain["dimensions"])
    return TensorMap(
        **{
            "element_strides": steps,
            **plain,
            "data_type": data_type,
            "element_bytes": size,
            "strides": (size, *strides),
        }
    )
