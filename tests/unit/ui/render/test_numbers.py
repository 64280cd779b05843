"""Texts that are too long for a terminal."""

import pytest

from warpsight.ui.render.numbers import capitalized, shorten_paths

PLACE = "most kernels are launched by rotary (transformers/models/qwen2/modeling_qwen2.py:62)"
STACK = "step (a/b/train.py:9) ← main (/opt/project/run.py:120) ← <module> (run.py:3)"


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        (PLACE, 100, PLACE),
        (PLACE, 70, "most kernels are launched by rotary (…/modeling_qwen2.py:62)"),
        (PLACE, 40, "most kernels are launched by rotary (…/…"),
        (STACK, 70, "step (a/b/train.py:9) ← main (…/run.py:120) ← <module> (run.py:3)"),
        (STACK, 30, "step (…/train.py:9) ← main (……"),
        ("copied 3 GB/s (a/b) 1/2", 12, "copied 3 GB…"),
    ],
)
def test_paths_are_cut_from_the_left_before_texts_are_from_the_right(text, width, expected):
    assert shorten_paths(text, width) == expected
    assert len(shorten_paths(text, width)) <= width


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("the GPU is idle", "The GPU is idle"),
        ("leak: memory grows", "Leak: memory grows"),
        ("at::native::add<float> takes 24%", "at::native::add<float> takes 24%"),
        ("delta_r2 takes 8%", "delta_r2 takes 8%"),
        ("cudaMemcpy returned error 1", "cudaMemcpy returned error 1"),
        ("83% of the time", "83% of the time"),
        ("", ""),
    ],
)
def test_sentences_begin_with_a_capital_and_symbols_stay_as_they_are(text: str, shown: str) -> None:
    assert capitalized(text) == shown


def test_a_kernel_called_by_a_word_keeps_its_name() -> None:
    assert capitalized("backward takes 7% of the time", "backward") == "backward takes 7% of the time"
    assert capitalized("backward passes take 7%", "step") == "Backward passes take 7%"
