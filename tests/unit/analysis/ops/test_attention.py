"""Attention: pairs that masks leave, and the operators that have them."""

import itertools

import numpy as np
import pytest

from tests.unit.analysis.ops.calls import BF16, work
from warpsight.analysis.ops.models.attention_pairs import packed, pairs


def looked_at(queries, keys, causal, from_end, left, right):
    """Pairs, one by one."""
    count = 0
    for i, j in itertools.product(range(queries), range(keys)):
        own = i + (keys - queries if from_end else 0)
        count += not (
            (causal and j > own) or (left >= 0 and j < own - left) or (right >= 0 and j > own + right)
        )
    return count


@pytest.mark.parametrize("seed", range(60))
def test_pairs_are_those_that_the_mask_leaves(seed):
    rng = np.random.default_rng(seed)
    queries, keys, left, right = (int(n) for n in (*rng.integers(1, 9, 2), *rng.integers(-1, 5, 2)))
    causal, from_end = (bool(n) for n in rng.integers(0, 2, 2))
    expected = looked_at(queries, keys, causal, from_end, left, right)
    assert pairs(queries, keys, causal=causal, from_end=from_end, left=left, right=right) == expected


def lengths(sequences, tokens, longest):
    """All lists of lengths with this number, sum and maximum."""
    for found in itertools.product(range(longest + 1), repeat=sequences):
        if sum(found) == tokens and max(found) == longest:
            yield found


@pytest.mark.parametrize(
    ("sequences", "tokens", "longest"),
    [(3, 7, 3), (3, 9, 3), (4, 9, 5), (1, 6, 6), (3, 5, 5), (2, 4, 4), (1, 1, 1)],
)
@pytest.mark.parametrize("causal", [False, True])
def test_bounds_of_packed_sequences_hold_and_are_reached(sequences, tokens, longest, causal):
    counts = [sum(pairs(n, n, causal=causal) for n in found) for found in lengths(sequences, tokens, longest)]
    assert packed(sequences, tokens, longest, causal=causal) == (min(counts), max(counts))


SHAPE = [2, 8, 256, 64]


def test_flash_attention():
    found = work("aten::_scaled_dot_product_flash_attention", SHAPE, SHAPE, SHAPE, *[None] * 4,
                 values={3: "0.", 4: "False", 5: "False", 6: "0.125"})  # fmt: skip
    # 16 heads · 256² pairs · 2 · (64 + 64); four tensors of 2·8·256·64 elements of 2 B
    assert (found.flops, found.bytes) == (268_435_456, 2_097_152)


def test_a_causal_mask_leaves_half_of_the_pairs_and_half_a_diagonal():
    values = {3: "0.", 4: "True", 5: "False", 6: "0.125"}
    found = work("aten::_scaled_dot_product_flash_attention", SHAPE, SHAPE, SHAPE, *[None] * 4, values=values)
    assert found.flops == 16 * (256 * 257 // 2) * 2 * 128
    assert found.detail == "causal"


def test_few_heads_of_keys_save_bytes_and_no_flops():
    few = [2, 2, 256, 64]
    found = work("aten::scaled_dot_product_attention", SHAPE, few, few, None, None, None, None, None,
                 values={4: "0.", 5: "False", 7: "True"})  # fmt: skip
    assert (found.flops, found.bytes) == (268_435_456, 2 * (2 * 262_144 + 2 * 65_536))
    assert found.detail == "8 heads on 2"


def test_backward_is_five_products():
    shape = [2, 256, 8, 64]  # tokens before heads
    found = work("aten::_flash_attention_backward", shape, shape, shape, shape, shape, [2, 8, 256], *[None] * 11,
                 values={8: "256", 9: "256", 10: "0.", 11: "False", 14: "0.125"})  # fmt: skip
    # scores again, gradients of values, probabilities, queries, keys; reads q k v o do, writes dq dk dv
    assert (found.flops, found.bytes) == (5 * 16 * 256 * 256 * 2 * 64, 8 * 262_144 * 2)


def test_one_query_on_many_keys():
    query, keys = [4, 32, 1, 128], [4, 32, 1000, 128]
    values = {3: "0.", 4: "False", 5: "False", 6: ""}
    found = work("aten::_scaled_dot_product_flash_attention", query, keys, keys, *[None] * 4, values=values)
    assert found.flops == 128 * 1000 * 2 * 256


def packed_call(sequences, tokens, longest, keys=None):
    shape = [tokens, 8, 64]
    return work("aten::_flash_attention_forward", shape, shape, shape, [sequences + 1], [sequences + 1], *[None] * 10,
                dtype=[BF16] * 3 + ["int", "int"] + [""] * 10,
                values={5: str(longest), 6: str(longest if keys is None else keys), 7: "0.", 8: "False", 9: "False",
                        10: "0.125"})  # fmt: skip


def test_packed_sequences_of_one_length():
    assert packed_call(3, 300, 100).flops == 8 * 3 * 100 * 100 * 2 * 128


@pytest.mark.parametrize(("longest", "keys"), [("", 100), (100, ""), ("", ""), (0, 100), (100, 0)])
def test_packed_sequences_without_a_maximum_are_not_counted(longest, keys):
    found = packed_call(3, 300, longest, keys)
    assert (found.flops, found.reason) == (None, "lengths of packed sequences are not in the file")
    assert packed_call(1, 300, longest, keys).flops == 8 * 300 * 300 * 2 * 128  # one sequence is all of them


def test_packed_sequences_of_unknown_lengths_have_bounds_instead():
    found = packed_call(3, 190, 100)
    # 100² + 2 · 45² to 100² + 90²
    assert (found.flops, found.detail) == (None, "3 packed sequences, 14,050 to 18,100 pairs")
    assert found.reason == "lengths of packed sequences are not in the file"
    assert found.bytes == 4 * 190 * 8 * 64 * 2


def test_third_parties_have_their_flag_wherever_it_is():
    shape = [1, 768, 24, 128]
    values = {3: "0.", 4: "0.088", 5: "True", 6: "-1", 7: "-1", 8: "True", 9: "False"}
    found = work("aiter::fmha_v3_fwd", shape, shape, shape, *[None] * 7, values=values)
    assert found.flops == 24 * (768 * 769 // 2) * 2 * 256


def test_a_window_before_each_query():
    shape = [1, 100, 4, 64]
    values = {3: "0.", 4: "0.1", 5: "True", 6: "9", 7: "0", 8: "0.", 10: "False"}
    found = work("flash_attn::_flash_attn_forward", shape, shape, shape, *[None] * 8, values=values)
    # the first ten queries see 1 … 10 keys, 90 more see 10
    assert found.flops == 4 * (55 + 900) * 2 * 128


def test_attention_to_a_cache_is_unknown_with_its_reason():
    found = work(
        "vllm::unified_attention_with_output", [888, 8, 64], [888, 1, 64], [888, 1, 64], [888, 8, 64]
    )
    assert (found.family, found.flops) == ("attention", None)
    assert "cached" in found.reason
