"""How many (query, key) pairs attention evaluates, under causal masks, windows and packed sequences."""

from __future__ import annotations


def pairs(
    queries: int, keys: int, *, causal: bool = False, from_end: bool = False, left: int = -1, right: int = -1
) -> int:
    """The number of pairs that a mask leaves.

    Query i is aligned with key i, or (`from_end`) the last query with the last key. It sees keys up to `left` before and `right`
    after its own (-1: all), and with `causal` none after. Example: 3 queries, 5 keys, causal: 1 + 2 + 3 pairs, from the end 3 + 4
    + 5.
    """
    if causal:
        right = 0
    if left < 0 and right < 0:
        return queries * keys
    own = keys - queries if from_end else 0  # the place of the first query
    ends = queries * keys if right < 0 else _clipped(queries, own + right + 1, keys)
    return ends - (0 if left < 0 else _clipped(queries, own - left, keys))


def _clipped(count: int, first: int, top: int) -> int:
    """The sum of first, first + 1, … (`count` numbers), each clipped to between 0 and `top`."""
    rising = max(min(top - first, count), 0)  # from here on all are `top`
    begin = min(max(-first, 0), rising)  # before it all are 0
    return (begin + rising - 1 + 2 * first) * (rising - begin) // 2 + top * (count - rising)


def packed(sequences: int, tokens: int, longest: int, *, causal: bool = False) -> tuple[int, int]:
    """The least and the most pairs of sequences that attend to themselves, given their number, sum and greatest length.

    The number of pairs grows with the square of the lengths. It is smallest when all other sequences are equally long, and
    largest when as many as possible are as long as the longest. The two are equal when the given numbers determine the lengths.
    """
    rest, others = tokens - longest, sequences - 1
    least, extra = divmod(max(rest, 0), others) if others else (0, 0)
    low = longest**2 + (others - extra) * least**2 + extra * (least + 1) ** 2
    full, left = divmod(tokens, longest) if longest else (0, 0)
    high = full * longest**2 + left**2
    if causal:  # of n queries each sees itself and all before: n (n + 1) / 2
        low, high = (low + tokens) // 2, (high + tokens) // 2
    return low, max(low, high)
