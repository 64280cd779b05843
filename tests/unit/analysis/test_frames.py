"""Which frames are the user's own program."""

from __future__ import annotations

import pytest

from warpsight.analysis.base.frames import is_library, user_frames


@pytest.mark.parametrize(
    "frame",
    [
        "step (train.py:7)",
        "<module> (train.py:40)",
        "<lambda> (train.py:3)",
        "run.<locals>.turn (train.py:9)",
        "<module> (<stdin>:1)",
        "step (<string>:3)",
        "<string>(3): step",
        "<module> (<ipython-input-3-0a1b>:2)",
        "/tmp/ipykernel_77/1234.py",
        "operator<(Key const&, Key const&) (sort.cpp:12)",
        "void run<float>(float*) (main.cu:3)",
    ],
)
def test_the_users_own_frames(frame: str) -> None:
    assert not is_library(frame)


@pytest.mark.parametrize(
    "frame",
    [
        "Config.__init__ (<string>:2)",
        "<module> (<string>:1)",
        "enqueue_knl_scale (<generated: 'invoker'>:12)",
        "<generated: 'invoker'>",
        "forward (<eval_with_key>.7:9)",
        "_find_and_load (<frozen importlib._bootstrap>:1176)",
        "<string>(1): <module>",
        "<built-in method run_backward of torch._C._EngineBase object at 0x7f>",
        "call (/usr/lib/python3.12/site-packages/torch/nn/modules/module.py:1)",
    ],
)
def test_frames_of_libraries_and_generated_code(frame: str) -> None:
    assert is_library(frame)


def test_the_line_that_called_generated_code_is_named() -> None:
    stack = ("<module> (decay.py:21)", "decay (decay.py:18)", "enqueue_knl_scale (<generated: 'invoker'>:12)")
    assert user_frames(stack, 1) == "decay (decay.py:18)"


def test_of_library_frames_those_with_a_file_say_more():
    stack = (
        "replay (torch/cuda/graphs.py:139)",
        "<built-in method replay of pybind11_object object at 0x7f60>",
    )
    assert user_frames(stack, 2) == "replay (torch/cuda/graphs.py:139)"
    assert user_frames(stack[1:], 2) == stack[1]


_VECTORS = "std::vector<int, std::allocator<int> >*"


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        ("forward (model.py:36)", "forward (model.py:36)"),
        ("<cell line: 0> (/tmp/ipykernel_1/2.py:18)", "<cell line: 0> (/tmp/ipykernel_1/2.py:18)"),
        ("main", "main"),
        ("int run(std::vector<int> const&, bool) (/home/me/solver)", "run (/home/me/solver)"),
        ("void Solver<double>::run<3>(int) const (/bin/s)", "Solver<double>::run<3> (/bin/s)"),
        (
            f"void std::_Destroy_aux<false>::__destroy<{_VECTORS}>({_VECTORS}, {_VECTORS}) (/bin/clue)",
            "std::_Destroy_aux::__destroy (/bin/clue)",
        ),
        (
            f"std::map<std::string, {_VECTORS}>::insert<{_VECTORS}>({_VECTORS}) (/bin/clue)",
            "std::map::insert (/bin/clue)",
        ),
        ("(anonymous namespace)::work(int) (/bin/a)", "(anonymous namespace)::work (/bin/a)"),
        (
            "std::ostream& std::operator<< <char>(std::ostream&, char) (/bin/a)",
            "std::operator<< <char> (/bin/a)",
        ),
    ],
)
def test_a_sentence_has_a_function_without_its_signature(frame: str, text: str) -> None:
    assert user_frames((frame,), 1) == text
