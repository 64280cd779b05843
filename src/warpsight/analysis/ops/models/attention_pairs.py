"""How many pairs of a query and a key attention looks at, under causal masks, windows and packed sequences."""

from __future__ import annotations

import numpy as np


def pairs(
    queries: int, keys: int, *, causal: bool = False, from_end: bool = False, left: int = -1, right: int = -1
) -> int:
    """Pairs that a mask leaves.

    Query i stands at key i, or (`from_end`) the last query at the last key. It sees keys up to `left` before and `right` after
    its own (-1: all), and with `causal` none after. Example: 3 queries, 5 keys, causal: 1 + 2 + 3 pairs, from the end 3 + 4 + 5.
    """
    if causal:
        right = 0 if right < 0 else min(right, 0)
    if left < 0 and right < 0:
        return queries * keys
    own = np.arange(queries, dtype=np.int64) + (keys - queries if from_end else 0)
    first = np.zeros(queries, np.int64) if left < 0 else np.maximum(own - left, 0)
    last = np.full(queries, keys - 1) if right < 0 else np.minimum(own + right, keys - 1)
    return int(np.maximum(last - first + 1, 0).sum())


def packed(sequences: int, tokens: int, longest: int, *, causal: bool = False) -> tuple[int, int]:
    """The least and the most pairs of sequences that attend to themselves, given their number, sum and greatest length.

    Pairs grow with the square of the lengths: least when all others are equally long, most when as many as possible are as long
    as the longest. The two are equal when the lengths follow from the numbers.
    """
    rest, others = tokens - longest, sequences - 1
    least, extra = divmod(max(rest, 0), others) if others else (0, 0)
    low = longest**2 + (others - extra) * least**2 + extra * (least + 1) ** 2
    full, left = divmod(tokens, longest) if longest else (0, 0)
    high = full * longest**2 + left**2
    if causal:  # of n queries each sees itself and all before: n (n + 1) / 2
        low, high = (low + tokens) // 2, (high + tokens) // 2
    return low, max(low, high)
