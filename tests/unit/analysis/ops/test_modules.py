"""`stats modules`: the tree, backward in it, and the three sources of modules."""

import pytest

from tests.unit.analysis.conftest import EPOCH
from tests.unit.analysis.ops.programs import LINEAR_FLOPS, Program, linear
from tests.unit.analysis.ops.test_backward import ENGINE, EVALUATE, node
from warpsight.analysis.ops.module_ranges import module_paths
from warpsight.analysis.ops.modules import largest, modules
from warpsight.errors import UsageError
from warpsight.model.selection import Rows


@pytest.fixture
def program():
    return Program()


def rows(trace, by="name", chosen=None):
    return modules(trace, chosen or Rows(), by).tables["modules"].to_pylist()


def by_path(trace, **options):
    return {row["path"]: row for row in rows(trace, **options)}


def model(program, start=0):
    """A model that calls two linear layers and launches something itself."""
    program.module("Model_0", start, start + 400)
    program.module("Linear_0", start + 5, start + 95)
    linear(program, start + 10)
    program.module("Linear_1", start + 105, start + 195)
    linear(program, start + 110, length=300)
    program.kernel(start + 300, 7)


def test_a_tree_with_own_and_total_times(build, program):
    model(program)
    model(program, 1000)
    trace = program.built(build)
    assert not [one for one in modules(trace).findings if "belong to no module" in one.text]
    found = rows(trace)
    assert [(row["path"], row["depth"], row["class"], row["number"]) for row in found] == [
        ("Model_0", 0, "Model", 0),
        ("Model_0/Linear_1", 1, "Linear", 1),  # the longest first
        ("Model_0/Linear_0", 1, "Linear", 0),
    ]
    assert [(row["calls"], row["host"], row["kernels"]) for row in found] == [
        (2, 800, 6),
        (2, 180, 2),
        (2, 180, 2),
    ]
    assert [(row["device_own"], row["device_total"]) for row in found] == [(14, 814), (600, 600), (200, 200)]
    assert [(row["flops_own"], row["flops"]) for row in found] == [
        (None, 4 * LINEAR_FLOPS),
        (2 * LINEAR_FLOPS, 2 * LINEAR_FLOPS),
        (2 * LINEAR_FLOPS, 2 * LINEAR_FLOPS),
    ]
    assert [row["share"] for row in found] == [
        100,
        pytest.approx(600 / 814 * 100),
        pytest.approx(200 / 814 * 100),
    ]


@pytest.mark.parametrize(("begin", "module"), [(990, "Again_0"), (1_200, "Linear_0")])
def test_backward_work_in_a_module_of_its_own_thread_is_that_ones(build, program, begin, module):
    """A checkpoint runs its modules again in backward; other work there is of its forward's module."""
    program.module("Linear_0", 0, 95)
    linear(program, 10, sequence=5)
    node(program, "AddmmBackward0", 1_000, 6, length=60)
    program.module("Again_0", begin, begin + 200, thread=ENGINE)
    program.kernel(begin + 150, 1, thread=ENGINE)
    found = by_path(program.built(build))
    assert found[module]["device_own"] == 60 + (100 if module == "Linear_0" else 1)


def test_classes_merge_their_instances(build, program):
    model(program)
    found = {row["class"]: row for row in rows(program.built(build), "class")}
    assert (found["Linear"]["instances"], found["Linear"]["calls"], found["Linear"]["device_own"]) == (
        2,
        2,
        400,
    )
    assert found["Model"]["device_total"] == 407


def test_a_class_inside_itself_counts_once(build, program):
    program.module("Block_0", 0, 100)
    program.module("Block_1", 10, 90)
    program.kernel(20, 30)
    (found,) = rows(program.built(build), "class")
    assert (found["instances"], found["device_own"], found["device_total"], found["host"]) == (2, 30, 30, 100)


def forward_and_backward(program):
    program.module("Model_0", 0, 300)
    program.module("Linear_0", 5, 95)
    linear(program, 10, sequence=5)
    node(program, "AddmmBackward0", 1000, 6, length=250)


def test_backward_belongs_to_the_module_of_its_forward(build, program):
    forward_and_backward(program)
    program.op("aten::loss", 400, 450, sequence=20, forward=0)
    node(program, "LossBackward0", 2000, 20, length=11)  # its forward was in no module
    trace = program.built(build)
    found = by_path(trace)
    linear_0 = found["Model_0/Linear_0"]
    assert (linear_0["device_own"], linear_0["backward"]) == (350, 250)
    assert linear_0["flops"] == LINEAR_FLOPS + 2 * 16 * 64 * 32
    assert found["Model_0"]["backward"] == 250
    findings = [finding.text for finding in modules(trace).findings]
    assert "of 2 pieces of backward's work 1 belong to the module of their forward operator" in findings
    assert any(text.startswith("1 kernel, copy or set (11 ns, ") for text in findings)


def test_a_checkpoint_runs_the_same_module_again(build, program):
    program.module("Model_0", 0, 300)
    program.module("Block_0", 5, 95)
    program.op("CheckpointFunction", 10, 90, sequence=7, forward=0)
    program.kernel(20, 100)
    program.op(EVALUATE + "CheckpointFunctionBackward", 1000, 5000, thread=ENGINE, sequence=7, forward=1)
    program.module("Block_0", 1100, 1300, thread=ENGINE)  # nothing is around it on this thread
    program.op("aten::addmm", 1110, 1200, thread=ENGINE, sequence=3, forward=0)
    program.kernel(1120, 100, thread=ENGINE)
    node(program, "AddmmBackward0", 2000, 3, forward=2, length=50)
    found = by_path(program.built(build))
    assert set(found) == {"Model_0", "Model_0/Block_0"}
    assert (found["Model_0/Block_0"]["calls"], found["Model_0/Block_0"]["device_own"]) == (2, 250)
    assert found["Model_0/Block_0"]["backward"] == 150


def test_a_module_that_runs_alone_too_is_where_it_runs_most_often(build, program):
    for start, name in ((0, "Rare_0"), (200, "Usual_0"), (400, "Usual_0")):
        program.module(name, start, start + 150)
        program.module("Block_0", start + 5, start + 95)
        program.op("aten::relu", start + 10, start + 90)
        program.kernel(start + 20, 100)
    program.module("Block_0", 1100, 1300, thread=ENGINE)  # nothing is around it on this thread
    program.op("aten::relu", 1110, 1200, thread=ENGINE)
    program.kernel(1120, 100, thread=ENGINE)
    found = by_path(program.built(build))
    assert set(found) == {"Rare_0", "Usual_0", "Rare_0/Block_0", "Usual_0/Block_0"}
    assert (found["Rare_0/Block_0"]["calls"], found["Usual_0/Block_0"]["calls"]) == (1, 3)


def test_a_window_and_a_pattern_choose(build, program):
    model(program)
    model(program, 1000)
    trace = program.built(build)
    found = by_path(trace, chosen=Rows(begin=EPOCH + 1000))
    assert (found["Model_0/Linear_1"]["calls"], found["Model_0/Linear_1"]["device_own"]) == (1, 300)
    assert set(by_path(trace, chosen=Rows(name="^Linear"))) == {"Model_0/Linear_0", "Model_0/Linear_1"}


def test_the_largest_rows_are_a_tree_again(build, program):
    model(program)
    table = modules(program.built(build)).tables["modules"]
    assert largest(table, 2)["path"].to_pylist() == ["Model_0", "Model_0/Linear_1"]


def test_ranges_named_like_modules(build, program):
    program.range("step", 0, 1000)
    program.range("model", 10, 900)
    program.range("model.layers.0", 20, 400)
    program.range("model.layers.0.mlp", 30, 300)
    program.kernel(40, 100)
    program.range("model.layers.1", 410, 800)
    program.kernel(420, 50)
    found = rows(program.built(build))
    assert [(row["module"], row["depth"], row["device_total"]) for row in found] == [
        ("model", 0, 150),
        ("model.layers.0", 1, 100),
        ("model.layers.0.mlp", 2, 100),
        ("model.layers.1", 1, 50),
    ]
    assert found[1]["class"] == "model.layers.*"


@pytest.mark.parametrize(
    ("names", "paths"),
    [
        ({"train.step", "data.load", "epoch"}, set()),
        ({"encoder", "encoder.attention", "loss.item"}, {"encoder", "encoder.attention"}),
        ({"blocks.3", "aten::mm", "Optimizer.step#SGD.step"}, {"blocks.3"}),
    ],
)
def test_which_names_are_paths_of_modules(names, paths):
    assert module_paths(names) == paths


CALL = ("Module._call_impl", "/lib/torch/nn/modules/module.py", 1751, None, "python", None)


def frame(function, file="/app/model.py", line=1):
    return (function, file, line, None, "python", None)


def test_python_stacks_tell_modules_by_the_line_that_calls_them(build, program):
    main, linear_forward = (
        frame("main", "/app/train.py", 3),
        frame("Linear.forward", "/lib/torch/nn/modules/linear.py", 125),
    )
    at_10, at_11 = ((main, CALL, frame("Model.forward", line=line)) for line in (10, 11))
    stacks = ((*at_10, CALL, linear_forward), (*at_11, CALL, linear_forward), at_10, (main,))
    for place, length in enumerate((100, 30, 5, 1)):
        program.kernel(10 * place, length)
    program.rows["kernel"] = [
        {**row, "stack": i} for row, i in zip(program.rows["kernel"], ids_of(build, stacks), strict=True)
    ]
    trace = program.built(build, stacks=stacks)
    assert [(row["path"], row["device_own"], row["device_total"], row["calls"]) for row in rows(trace)] == [
        ("Model_0", 5, 135, None),
        ("Model_0/Linear_0", 100, 100, None),
        ("Model_0/Linear_1", 30, 30, None),
    ]
    assert any("known from Python stacks" in finding.text for finding in modules(trace).findings)


def ids_of(build, stacks):
    """The ids that whole stacks get in a trace; those they go through have ids as well."""
    known = {frames: i for i, frames in build(stacks=stacks).stacks(range(1, 30)).items()}
    return [
        known[tuple(f"{function} ({file}:{line})" for function, file, line, *_ in stack)] for stack in stacks
    ]


def test_without_modules_the_result_says_so(build, program):
    linear(program, 0)
    found = modules(program.built(build))
    assert not len(found.tables["modules"])
    assert "no modules are known" in found.findings[0].text


def test_a_grouping_that_does_not_exist_is_refused(build, program):
    with pytest.raises(UsageError, match="no grouping 'stream' of modules"):
        modules(program.built(build), by="stream")
