"""Work in backward has the stack of its forward, with a frame that says so."""

import json

import numpy as np
import pyarrow as pa
import pytest

import warpsight as ws
from warpsight.formats.kineto import writer
from warpsight.formats.kineto.backward import _FRAME, METHOD, BackwardStacks
from warpsight.formats.selection import Selection
from warpsight.model.definitions import Definitions

MAIN, ENGINE = 10, 20
NAME = "autograd::engine::evaluate_function: "


def event(category, name, start, duration, thread, **arguments):
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "ts": start,
        "dur": duration,
        "pid": 7,
        "tid": thread,
        "args": arguments,
    }


def function(number, caller, name, start, duration):
    return event(
        "python_function", name, start, duration, MAIN, **{"Python id": number, "Python parent id": caller}
    )


def operator(name, start, duration, thread, number=None, forward=None):
    told = {} if number is None else {"Sequence number": number, "Fwd thread id": forward}
    return event("cpu_op", name, start, duration, thread, **{"External id": start, **told})


def launched(start, thread):
    """A launch call and its kernel."""
    kernel = {
        "device": 0,
        "context": 1,
        "stream": 7,
        "correlation": start,
        "grid": [1, 1, 1],
        "block": [32, 1, 1],
    }
    work = event("kernel", "k", start + 500, 5, 7, **kernel) | {"pid": 0}
    return [event("cuda_runtime", "cudaLaunchKernel", start, 1, thread, correlation=start), work]


FORWARD = [
    function(1, None, "train.py(3): main", 0, 90),
    function(2, 1, "nn.Module: Linear_0", 5, 40),
    operator("aten::linear", 10, 30, MAIN, 5, 0),
    operator("aten::addmm", 12, 20, MAIN, 6, 0),
    *launched(15, MAIN),
]
NODE = [
    operator(NAME + "AddmmBackward0", 200, 80, ENGINE, 6, 1),
    operator("AddmmBackward0", 205, 70, ENGINE, 6, 1),
    operator("aten::mm", 210, 30, ENGINE),
    *launched(220, ENGINE),
]
ACCUMULATION = [
    operator(NAME + "torch::autograd::AccumulateGrad", 300, 50, ENGINE),
    operator("aten::add_", 305, 30, ENGINE),
    *launched(310, ENGINE),
]
STACK = ("main (train.py:3)", "nn.Module: Linear_0")


@pytest.fixture
def read(tmp_path):
    """A function that reads events; gives the stack of the kernel of each launch, by the time of the launch."""

    def stacks(events):
        file = tmp_path / "t.pt.trace.json"
        file.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": events}))
        with ws.open(file) as trace:
            rows = trace.sql("SELECT correlation, stack FROM kernel_ids ORDER BY 1").fetchall()
            known = trace.stacks(stack for _, stack in rows)
            methods = dict(trace.sql("SELECT id, method FROM stack").fetchall())
            return {at: (known.get(stack), methods.get(stack)) for at, stack in rows}

    return stacks


def test_a_node_has_the_stack_of_the_operator_that_made_it(read):
    assert read(FORWARD + NODE) == {15: (STACK, "imported"), 220: ((*STACK, "backward"), "forward")}


def test_adding_gradients_up_belongs_to_the_node_before(read):
    assert read(FORWARD + NODE + ACCUMULATION)[310] == ((*STACK, "backward"), "forward")


def test_after_a_node_there_is_no_stack(read):
    assert read(FORWARD + NODE + launched(400, ENGINE))[400] == (None, None)


def test_a_node_inside_another_has_its_own_forward_and_leaves_the_others(read):
    inner = [
        function(3, 1, "train.py(9): loss", 50, 20),
        operator("aten::loss", 55, 10, MAIN, 9, 0),
        operator(NAME + "LossBackward0", 190, 200, ENGINE, 9, 1),
        *launched(195, ENGINE),
        *launched(350, ENGINE),
    ]
    found = read(FORWARD + inner + NODE)
    loss = ("main (train.py:3)", "loss (train.py:9)", "backward")
    assert [found[at][0] for at in (195, 220, 350)] == [loss, (*STACK, "backward"), loss]


def test_a_stack_of_its_own_comes_first(read):
    own = event(
        "python_function", "hook.py(1): hook", 215, 20, ENGINE, **{"Python id": 9, "Python parent id": None}
    )
    assert read(FORWARD + NODE + [own])[220] == (("hook (hook.py:1)",), "imported")


def test_a_forward_that_is_not_in_the_file_gives_no_stack(read):
    other = [operator(NAME + "MulBackward0", 200, 80, ENGINE, 99, 1), *launched(220, ENGINE)]
    assert read(FORWARD + other)[220] == (None, None)


def test_two_threads_with_the_same_numbers_are_not_guessed_between(read):
    twin = [event("python_function", "other.py(1): f", 0, 90, 11, **{"Python id": 5, "Python parent id": None}),
            operator("aten::mul", 12, 20, 11, 6, 0)]  # fmt: skip
    only = [one for one in FORWARD if one["name"] != "aten::linear"]
    assert read(only + twin + NODE)[220] == (None, None)


def test_exports_do_not_tell_it_as_the_stack_of_the_call(tmp_path):
    file = tmp_path / "t.pt.trace.json"
    file.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": FORWARD + NODE}))
    with ws.open(file) as trace, (tmp_path / "again.json").open("wb") as out:
        writer.write(trace, out, Selection(kinds=("launch", "kernel", "op")))
    calls = [
        e
        for e in json.loads((tmp_path / "again.json").read_text())["traceEvents"]
        if e.get("cat") == "cuda_runtime"
    ]
    assert ["Call stack" in e["args"] for e in sorted(calls, key=lambda e: e["ts"])] in (
        [True, False],
        [False, False],
    )


def stacks_of(nodes, *, adds=()):
    """A function that gives what runs on a thread at a moment: the number of its forward operator, None for nothing.

    Nodes are thread, begin, length and number; those of `adds` accumulate gradients.
    """
    definitions = Definitions()
    forward = {
        number: definitions.stack_of([("f", "a.py", number, None, "python", None)]) for number in range(1, 9)
    }
    rows = [(1, number, 1, number, -1, 0) for number in forward]
    rows += [
        (1, 20 + number, 1, number, -1, 0) for number in forward
    ]  # again, where nothing is known of the stack
    rows += [(thread, begin, length, -1 if place in adds else number, -1 if place in adds else 1, 7 if place in adds else 0)
             for place, (thread, begin, length, number) in enumerate(nodes)]  # fmt: skip
    names = ("_thread", "start", "duration", "sequence", "_forward_thread", "name_id")
    table = pa.table({name: pa.array([row[i] for row in rows], pa.int64()) for i, name in enumerate(names)})
    found = BackwardStacks(definitions)
    stacks = np.array([*forward.values()] + [0] * (len(forward) + len(nodes)), np.int64)
    found.add(table, stacks, frozenset({7}))
    found.finish()
    numbers = {
        definitions.stack(stack, definitions.frame(_FRAME), METHOD): number
        for number, stack in forward.items()
    }

    def at(thread, moment):
        return numbers.get(int(found.at(np.array([thread]), np.array([moment]))[0]))

    return at


def test_of_nodes_that_begin_together_the_longer_one_is_around_the_other():
    for nodes in ([(2, 100, 90, 5), (2, 100, 40, 6)], [(2, 100, 40, 6), (2, 100, 90, 5)]):
        at = stacks_of(nodes)
        assert [at(2, moment) for moment in (99, 100, 139, 140, 189, 190)] == [None, 6, 6, 5, 5, None]


def test_gradients_add_up_for_the_last_node_of_their_own_thread():
    at = stacks_of(
        [(3, 50, 10, 4), (2, 60, 5, 0), (2, 100, 40, 6), (2, 150, 10, 0), (4, 170, 10, 0)], adds={1, 3, 4}
    )
    assert [at(2, 62), at(2, 120), at(2, 155), at(3, 55), at(4, 175)] == [None, 6, 6, 4, None]


def test_a_node_without_a_number_or_without_a_length_says_nothing():
    at = stacks_of([(2, 100, 90, 5), (2, 120, 30, -1), (2, 160, 0, 6)])
    assert [at(2, moment) for moment in (110, 130, 155, 161, 189)] == [5] * 5
