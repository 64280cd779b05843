"""Python functions of torch.profiler are both stacks and ranges; a flame graph shows them once."""

import pytest

import warpsight as ws
from tests.unit.formats import kineto_file


@pytest.fixture
def trace(tmp_path):
    """A step and an operator inside a function; the function, the operator and the step are around the launch."""
    functions = [
        kineto_file.event("python_function", name, at, length, 100, 100, **{"Python id": i, "Python parent id": parent})
        for i, (name, at, length, parent) in enumerate(
            [("train.py(1): main", 0, 100, None), ("train.py(9): step", 10, 50, 0)]
        )
    ]  # fmt: skip
    events = [
        *functions,
        kineto_file.event("user_annotation", "ProfilerStep#3", 5, 80, 100, 100),
        kineto_file.event("cpu_op", "aten::mm", 20, 10, 100, 100, **{"External id": 1}),
        kineto_file.launch(22, 7),
        kineto_file.kernel(40, name="gemm", correlation=7),
    ]
    with ws.open(kineto_file.write(tmp_path / "t.json", events)) as opened:
        yield opened


def folded(trace, folder, **options):
    trace.flame(to="folded", out=folder / "out.folded", force=True, **options)
    return (folder / "out.folded").read_text().splitlines()


def test_stacks_are_drawn_once(trace, tmp_path):
    assert folded(trace, tmp_path) == [
        "main (train.py:1);step (train.py:9);ProfilerStep#*;aten::mm;gemm 5000"
    ]


def test_without_stacks_the_functions_are_ranges(trace, tmp_path):
    (line,) = folded(trace, tmp_path, level=("range", "op"))
    assert line == "train.py(1): main;ProfilerStep#*;train.py(9): step;aten::mm;gemm 5000"
