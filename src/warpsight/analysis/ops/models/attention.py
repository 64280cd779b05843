"""Scaled dot-product attention: PyTorch's operators and those of flash_attn and aiter, forward and backward.

Argument orders: PyTorch's native_functions.yaml; flash_attn/flash_attn_interface.py; aiter/ops/mha.py. Third parties insert
arguments from version to version; their causal flag is found as the first boolean (aiter's packed sequences: the second), and the
window as the two numbers after it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from warpsight.analysis.ops.arguments import Call, Tensor, Unknown
from warpsight.analysis.ops.models.attention_pairs import packed, pairs
from warpsight.analysis.ops.models.estimate import Estimate, Model, estimate, unknown

_FAMILY = "attention"


@dataclass(frozen=True)
class _Places:
    """Where an operator has its arguments: queries at `query`, keys and values behind.

    Attributes:
        heads_first: Shapes are (batch, heads, tokens, size), else (batch, tokens, heads, size).
        causal: The causal flag; with `flag` the number of the truth value that is it.
        mask_type: A number that is 1 (causal from the first key) or 2 (from the last) instead of a flag.
        from_end: A causal mask ends at the last key.
        window: Keys before and after; `flag`: behind the causal flag.
        lengths: Offsets of packed sequences of queries; those of keys behind.
        longest: Greatest lengths of queries; of keys behind.
        mask: A mask or bias.
        output: The forward's result: this is backward, its gradient is the first argument.
        hidden: Tensors that make lengths something the file does not hold.
    """

    query: int = 0
    heads_first: bool = True
    causal: int | None = None
    flag: int | None = None
    mask_type: int | None = None
    from_end: bool = False
    window: int | None = None
    lengths: int | None = None
    longest: int | None = None
    mask: int | None = None
    output: int | None = None
    hidden: tuple[int, ...] = ()


_DENSE = _Places(heads_first=False, flag=0, from_end=True)
_PACKED = _Places(heads_first=False, flag=0, from_end=True, lengths=3, longest=5)
_DENSE_BACK = _Places(1, heads_first=False, flag=0, from_end=True, output=4)
_FLASH = ("flash_attn", "flashattn")
_PLACES = {
    "aten::scaled_dot_product_attention": _Places(causal=5, mask=3),
    "aten::_scaled_dot_product_attention_math": _Places(causal=5, mask=3),
    "aten::_scaled_dot_product_flash_attention": _Places(causal=4),
    "aten::_scaled_dot_product_efficient_attention": _Places(causal=6, mask=3),
    "aten::_scaled_dot_product_cudnn_attention": _Places(causal=6, mask=3),
    "aten::_scaled_dot_product_fused_attention_overrideable": _Places(causal=5, mask=3),
    "aten::_flash_attention_forward": _Places(
        heads_first=False, causal=8, from_end=True, window=11, lengths=3, longest=5, hidden=(13,)
    ),
    "aten::_efficient_attention_forward": _Places(
        heads_first=False, mask_type=9, lengths=4, longest=6, mask=3, hidden=(12,)
    ),
    "aten::_cudnn_attention_forward": _Places(causal=10, lengths=4, longest=6, mask=3),
    "aten::_scaled_dot_product_flash_attention_backward": _Places(1, causal=11, lengths=6, longest=8, output=4),
    "aten::_flash_attention_backward": _Places(
        1, heads_first=False, causal=11, from_end=True, window=15, lengths=6, longest=8, output=4
    ),
    "aten::_scaled_dot_product_efficient_attention_backward": _Places(1, causal=11, mask=4, output=5),
    "aten::_efficient_attention_backward": _Places(
        1, heads_first=False, mask_type=14, lengths=6, longest=8, mask=4, output=5
    ),
    **dict.fromkeys(
        ("aten::_scaled_dot_product_cudnn_attention_backward", "aten::_cudnn_attention_backward"),
        _Places(1, causal=14, lengths=9, longest=11, mask=8, output=4),
    ),
    "aten::_scaled_dot_product_fused_attention_overrideable_backward": _Places(
        1, causal=13, lengths=8, longest=10, mask=4, output=6
    ),
    **{f"{space}::_flash_attn_forward": _DENSE for space in (*_FLASH, "aiter")},
    **{f"{space}::_flash_attn_varlen_forward": _PACKED for space in _FLASH},
    **{f"{space}::_flash_attn_backward": _DENSE_BACK for space in (*_FLASH, "aiter")},
    **{f"{space}::_flash_attn_varlen_backward": replace(_DENSE_BACK, lengths=9, longest=11) for space in _FLASH},
    **dict.fromkeys(("FlashAttnFunc", "aiter::mha_fwd", "aiter::fmha_v3_fwd", "aiter::wrapper_fmha_v3_fwd"), _DENSE),
    **dict.fromkeys(("aiter::mha_bwd", "aiter::fmha_v3_bwd", "aiter::wrapper_fmha_v3_bwd"), _DENSE_BACK),
    "aiter::mha_varlen_fwd": replace(_PACKED, flag=1),
    "aiter::mha_varlen_bwd": replace(_DENSE_BACK, flag=1, lengths=6, longest=8),
    "flash_attn_3::fwd": _Places(
        heads_first=False, causal=24, from_end=True, window=25, lengths=7, longest=12, hidden=(10, 11, 14)
    ),
}  # fmt: skip
_CACHED = (
    "vllm::unified_attention",
    "vllm::unified_attention_with_output",
    "sglang::unified_attention_with_output",
)


def _model(call: Call) -> Estimate:
    places = _PLACES[call.name]
    q, k, v = (call.tensor(places.query + i) for i in range(3))
    extra = [None if places.mask is None else call.optional(places.mask)]
    result = Tensor((*q.shape[:-1], v.shape[-1]), q.dtype)
    if places.output is None:
        tensors, queries, values = [q, k, v, *extra, result], 1, 1
    else:  # scores again, then the gradients of values, of probabilities, of queries and of keys
        tensors = [q, k, v, *extra, call.optional(places.output), call.tensor(0)]
        tensors += [Tensor(one.shape, one.dtype) for one in (q, k, v)]
        queries, values = 3, 2
    heads, count, detail, reason = _pairs(call, places, q, k)
    flops = None if count is None else 2 * heads * count * (queries * q.shape[-1] + values * v.shape[-1])
    found = estimate(_FAMILY, flops, tensors, dtype=q.dtype, matrix=True, detail=detail)
    return replace(found, reason=reason or found.reason)


def _pairs(call: Call, places: _Places, q: Tensor, k: Tensor) -> tuple[int, int | None, str, str]:
    """Heads of all batches, pairs of each (None: unknown), a description of them, and why they are unknown."""
    causal, from_end, left, right = _mask(call, places)
    words = ["causal"] * causal + [f"window {left}, {right}"] * (left >= 0 or right >= 0)
    offsets = None if places.lengths is None else call.optional(places.lengths)
    hidden = any(call.optional(place) is not None for place in places.hidden)
    if offsets is None:
        tokens, heads = (-2, -3) if places.heads_first else (-3, -2)
        rows = prod(q.shape[:-1]) // max(q.shape[tokens], 1)
        if len(q.shape) > 2 and len(k.shape) > 2 and q.shape[heads] != k.shape[heads]:
            words.append(f"{q.shape[heads]} heads on {k.shape[heads]}")
        found = pairs(
            q.shape[tokens], k.shape[tokens], causal=causal, from_end=from_end, left=left, right=right
        )
        reason = "lengths of the sequences are not in the file" if hidden else ""
        return rows, None if hidden else found, ", ".join(words), reason
    # Packed: (tokens, heads, size), of some operators with a batch of 1 in front.
    heads, (tokens, keys) = q.shape[-2], (one.shape[-3] for one in (q, k))
    sequences = offsets.shape[0] - 1
    words.append(f"{sequences} packed sequences")
    found_pairs, reason = _packed(
        call, places, (sequences, tokens, keys), (causal, from_end, left, right), words
    )
    return heads, None if hidden else found_pairs, ", ".join(words), reason


def _mask(call: Call, places: _Places) -> tuple[bool, bool, int, int]:
    """Whether attention is causal, whether the mask ends at the last key, and its window."""
    from_end, at = places.from_end, places.causal
    if places.mask_type is not None:
        kind = call.integer(places.mask_type) or 0
        return kind in (1, 2), kind == 2, -1, -1
    window = places.window
    if places.flag is not None:
        call.text(0)  # Unknown if the file has no values
        flags = [i for i, one in enumerate(call.arguments) if one in ("True", "False")]
        if len(flags) <= places.flag:
            raise Unknown("whether attention is causal is not in the file")
        at = flags[places.flag]
        window = at + 1
    causal = at is not None and call.flag(at)
    left, right = (-1, -1) if window is None else (call.integer(window), call.integer(window + 1))
    return causal, from_end, -1 if left is None else left, -1 if right is None else right


def _packed(
    call: Call,
    places: _Places,
    sizes: tuple[int, int, int],
    mask: tuple[bool, bool, int, int],
    words: list[str],
) -> tuple[int | None, str]:
    """Pairs of packed sequences, if their lengths follow from their number, their sum and the maximum."""
    sequences, tokens, keys = sizes
    causal, from_end, left, right = mask
    longest = places.longest or 0
    most, most_keys = call.integer(longest), call.integer(longest + 1)
    if sequences == 1:
        most, most_keys = tokens, keys
    if not most or not most_keys:
        return None, "lengths of packed sequences are not in the file"
    if sequences * most == tokens and sequences * most_keys == keys:
        one = pairs(most, most_keys, causal=causal, from_end=from_end, left=left, right=right)
        return sequences * one, ""
    if tokens == keys and most == most_keys and left < 0 and right < 0:
        low, high = packed(sequences, tokens, most, causal=causal)
        if low == high:
            return low, ""
        words.append(f"{low:,} to {high:,} pairs")
    return None, "lengths of packed sequences are not in the file"


def _cached(call: Call) -> Estimate:
    return unknown(_FAMILY, "lengths of the cached sequences are not in the file")


MODELS: dict[str, tuple[str, Model]] = {
    **dict.fromkeys(_PLACES, (_FAMILY, _model)),
    **dict.fromkeys(_CACHED, (_FAMILY, _cached)),
}
