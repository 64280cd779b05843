import numpy as np
import pytest

from tests.unit.analysis.written_loops import announced, copies_around, found_in, launches, mark, waited
from warpsight.analysis.path.critical_path import critical_path
from warpsight.analysis.steps import repetition
from warpsight.analysis.steps.iterations import find, iterations, outliers, steady_state
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace


def sequence(warm, layers, per_layer, turns, tail=0, extra=()):
    rng = np.random.default_rng(layers)
    names = rng.integers(300, 340, warm).tolist()
    begins = []
    for turn in range(turns):
        begins.append(len(names))
        names += [100, 101, *(list(range(per_layer)) * layers), 200, 201, 202]
        names += [77] * 50 if turn in extra else []
    names += rng.integers(300, 340, tail).tolist()
    gap = np.zeros(len(names))
    gap[begins] = 100
    return np.array(names), gap, begins


@pytest.mark.parametrize(
    "plan", [(50, 16, 7, 30), (500, 48, 5, 20, 3, (7,)), (20, 80, 9, 12, 100, (3,)), (3, 1, 1, 1000)]
)
def test_turns_of_a_loop_with_layers_warm_up_and_a_longer_turn(plan):
    names, gap, begins = sequence(*plan)
    found = repetition.find(names, gap)
    assert found.period == 5 + plan[1] * plan[2]
    assert found.begins.tolist() == begins


def test_what_does_not_repeat_is_no_loop():
    assert repetition.find(np.random.default_rng(0).integers(0, 50, 5000), np.zeros(5000)) is None
    assert repetition.find(np.arange(1000), np.zeros(1000)) is None
    assert repetition.find(np.zeros(3), np.zeros(3)) is None


def test_the_shortest_period_counts():
    assert repetition.period(np.array([0, 1] * 500))[0] == 2
    assert repetition.period(np.array([0] * 500))[0] == 1


def test_warm_up_and_outliers_are_told_from_the_steady_state():
    duration = np.array([900, 300, 100, 101, 99, 100, 102, 400, 98, 100, 101, 20])
    steady = steady_state(duration)
    assert steady.tolist() == [False, False, *[True] * 9, False]
    assert np.flatnonzero(outliers(duration, steady) & steady).tolist() == [7]


def write(path, mark):
    """Ten turns of 1 ms; launches run 50 ms ahead of the device. `mark(writer, turn, host)` announces turns."""
    with TraceWriter(path) as writer:
        ids = [writer.name("gemm"), writer.name("relu")]
        for turn in range(10):
            host = 1_000_000 + turn * 200_000
            mark(writer, turn, host)
            for i in range(4):
                correlation = turn * 4 + i + 1
                device = 60_000_000 + turn * 1_000_000 + i * 200_000
                both = {"process": 0, "correlation": correlation, "name_id": ids[i % 2]}
                writer.add("launch", [{**both, "start": host + i * 10_000, "duration": 4_000, "function": "f", "thread": 7,
                                       "captured": False}])  # fmt: skip
                writer.add("kernel", [{**both, "start": device, "duration": 150_000 + (turn == 6) * 40_000, "context": 1,
                                       "stream": 7, "device": 0, "graph_level": False}])  # fmt: skip


def marker(writer, turn, host):
    writer.add("marker", [{"start": host - 1000, "duration": 60_000, "kind": "push/pop", "open": False,
                           "name_id": writer.name(f"step {turn}"), "source": "nvtx", "thread": 7, "process": 0}])  # fmt: skip


def step(writer, turn, host):
    writer.add("user_event", [{"start": host + 100_000, "duration": 0, "name": "step", "kind": "step", "thread": 7,
                               "process": 0}])  # fmt: skip


def profiler_step(writer, turn, host):
    writer.add("op", [{"start": host - 1000, "duration": 60_000, "name_id": writer.name(f"ProfilerStep#{turn}"), "thread": 7,
                       "process": 0}])  # fmt: skip


@pytest.mark.parametrize(
    ("mark", "source", "count"),
    [
        (marker, "range 'step #'", 10),
        (step, "ws.step()", 10),
        (profiler_step, "operator 'ProfilerStep#'", 10),
    ],
)
def test_announced_iterations_are_those_of_the_device_though_the_host_runs_ahead(
    tmp_path, mark, source, count
):
    write(tmp_path / "t.warp", mark)
    with open_trace(tmp_path / "t.warp") as trace:
        (found,) = find(trace)
        rows = iterations(trace).tables["iterations"].to_pylist()
    assert (found.source, len(found)) == (source, count)
    assert found.start.tolist() == [60_000_000 + (i + 10 - count) * 1_000_000 for i in range(count)]
    assert found.duration[:-1].tolist() == [1_000_000] * (count - 1)
    assert [row["work"] for row in rows] == [4] * count
    assert [row["busy"] for row in rows] == [760_000 if i == 6 else 600_000 for i in range(10 - count, 10)]


def test_without_announcements_the_kernels_tell(tmp_path):
    write(tmp_path / "t.warp", lambda *_: None)
    with open_trace(tmp_path / "t.warp") as trace:
        (found,) = find(trace)
    assert found.source.startswith("repetition of 2 kernels")  # gemm, relu, gemm, relu: two kernels repeat
    assert len(found) == 20


def test_the_critical_path_of_the_steady_state_leaves_the_start_out(tmp_path):
    write(tmp_path / "t.warp", marker)
    with open_trace(tmp_path / "t.warp") as trace:
        (found,) = find(trace)
        tables = critical_path(trace).tables
    begin, end = found.window()
    assert sum(r["time"] for r in tables["steady"].to_pylist()) == end - begin
    assert {r["cause"] for r in tables["steady"].to_pylist()} == {"kernel", "gap in the stream"}
    assert sum(r["time"] for r in tables["causes"].to_pylist()) > end - begin


def test_copies_around_the_one_kernel_that_is_the_program_are_no_iterations(tmp_path):
    assert found_in(tmp_path / "t.warp", count=84, before=75, kernel=50_000_000, pause=10_000) == []


def test_pairs_that_repeat_a_hundred_times_are_a_loop_beside_a_long_pause(tmp_path):
    def build(writer):
        time = 1_000_000
        for turn in range(100):
            launches(writer, time, time + 20_000, ["fill", "gemm"], 1 + turn * 10)
            time += 20_000_000 if turn == 9 else 100_000

    assert announced(tmp_path / "t.warp", build) == [("repetition of 2 kernels and copies", 100)]


@pytest.mark.parametrize("same", [True, False])
def test_between_two_loops_there_is_no_slow_turn(tmp_path, same):
    """A loop of two kernels and then one of three both repeat every six; what is between them is no iteration."""
    path = tmp_path / "t.warp"
    with TraceWriter(path) as writer:
        time = 1_000_000
        for turn in range(40):
            names = "abcdef" if same else "ababab" if turn < 20 else "abacdd" if turn == 20 else "cddcdd"
            launches(writer, time, time + 20_000, names, 1 + turn * 10)
            time += 5_000_000 if turn == 20 else 700_000
    with open_trace(path) as trace:
        (found,) = find(trace)
    slowest = int(np.argmax(found.duration))
    assert found.duration[slowest] > 4_000_000
    assert found.outlier[slowest] == same


def test_a_loop_of_single_works_is_one(tmp_path):
    (found,) = found_in(tmp_path / "t.warp", count=84, before=75, kernel=20_000, pause=10_000)
    assert len(found) == 84
    assert found.source == "repetition of one kernel or copy"


def test_phases_that_grow_are_no_repetition():
    """A bitonic sort: one exchange more in each phase, so that nearly every place is an exchange and none is periodic."""
    names = [7]
    for phase in range(1, 17):
        names += [1] * phase + [2]
    assert repetition.find(np.array(names), np.zeros(len(names))) is None


def test_sweeps_whose_direction_alternates_are_two_turns():
    """CloverLeaf: `begin, x, y, end` and `begin, y, x, end` by turns; the kernels of x and y differ in template arguments."""
    one, other = [1, *[10, 11] * 4, *[20, 21] * 4, 3], [1, *[20, 21] * 4, *[10, 11] * 4, 3]
    names = np.array((one + other) * 10)
    gap = np.where(names == 1, 100, 0)
    found = repetition.find(names, gap)
    assert found.period == 2 * len(one)
    alike = np.where(names >= 10, names % 10 + 10, names)
    assert repetition.halved(found, alike).begins.tolist() == list(range(0, len(names), len(one)))


def test_halves_of_a_turn_made_of_layers_are_no_turns():
    names, gap, begins = sequence(0, 16, 8, 30)
    found = repetition.find(names, gap)
    assert repetition.halved(found, names).begins.tolist() == begins


def test_layers_that_are_numbered_are_no_iterations(tmp_path):
    """One forward pass: an embedding, four layers, each with an attention, and a projection."""

    def build(writer):
        mark(writer, "Model_Forward", 900_000, 2_000_000)
        launches(writer, 950_000, 5_000_000, ["embed"], 1)
        for layer in range(4):
            host = 1_000_000 + layer * 400_000
            mark(writer, f"TransformerLayer_{layer}", host - 1_000, 300_000)
            mark(writer, "Attention", host - 500, 100_000)
            launches(writer, host, 6_000_000 + layer * 600_000, ["a", "b", "c", "d", "e"], 10 + layer * 5)
        launches(writer, 2_700_000, 9_000_000, ["project"], 100)

    assert announced(tmp_path / "t.warp", build) == []


def test_a_range_around_a_collective_is_no_iteration(tmp_path):
    """Most of the time is in collectives, and each of them is announced."""

    def build(writer):
        time = 1_000_000
        for turn in range(6):
            launches(writer, time, 10 * time, [f"kernel_{turn}_{i}" for i in range(turn + 1)], 1 + turn * 20)
            time += 400_000
            mark(writer, "nccl:all_gather", time - 1_000, 100_000)
            launches(writer, time, 10 * time, ["ncclDevKernel_AllGather_RING_LL"] * 4, 11 + turn * 20)
            time += 400_000

    assert announced(tmp_path / "t.warp", build) == []


def test_operators_of_different_shapes_are_no_iterations(tmp_path):
    """Two convolutions, as torch's emit_nvtx and pyprof announce them."""

    def build(writer):
        for place, shape in enumerate(("(1, 3, 32)", "(6, 30, 32)")):
            host = 1_000_000 + place * 1_000_000
            mark(writer, f"{{'op': 'conv2d', 'shape': {shape}}}", host - 2_000, 500_000)
            mark(writer, f"aten::conv2d, seq = {place * 3}", host - 1_000, 400_000)
            launches(writer, host, 5 * host, [f"k{place}_{i}" for i in range(5)], 1 + place * 10)

    assert announced(tmp_path / "t.warp", build) == []


def test_executions_of_different_programs_are_no_iterations(tmp_path):
    """XLA's runtime announces each execution of whatever program; `dot` runs three times, `convert` and `fill` before it."""

    def build(writer):
        for place, program in enumerate(("convert", "fill", "dot", "dot", "dot")):
            host = 1_000_000 + place * 1_000_000
            mark(writer, f"PjitFunction({program})", host - 3_000, 500_000)
            mark(writer, "PJRT_LoadedExecutable_Execute", host - 2_000, 400_000)
            mark(writer, "custom-call.1", host - 1_000, 300_000)
            launches(writer, host, 5 * host, [program] * (8 if program == "dot" else 1), 1 + place * 10)

    assert announced(tmp_path / "t.warp", build) == [("range 'PjitFunction(dot)'", 3)]


def test_a_loop_that_is_nearly_nothing_of_the_program_is_not_its_loop(tmp_path):
    """Sixty symbols are set, which takes 0.3 ms, before a kernel of 250 ms."""

    def build(writer):
        copies_around(writer, count=60, before=60, kernel=0, pause=500)
        launches(writer, 2_000_000, 2_010_000, ["first", "second", "third"], 2_000)
        writer.add("kernel", [{"start": 3_000_000, "duration": 250_000_000, "name_id": writer.name("k"), "device": 0,
                               "context": 1, "stream": 7, "process": 0, "correlation": 2_002, "graph_level": False}])  # fmt: skip

    assert announced(tmp_path / "t.warp", build) == []


def test_ten_runs_of_one_kernel_are_ten_iterations_wherever_the_host_waits(tmp_path):
    def build(writer):
        launches(writer, 1_000_000, 1_010_000, ["gemm"] * 10, 1)
        for start in (1_170_000, 1_190_000):
            writer.add("api", [{"start": start, "duration": 900, "function": "hipDeviceSynchronize", "thread": 7,
                                "process": 0, "correlation": start}])  # fmt: skip

    assert announced(tmp_path / "t.warp", build) == [("repetition of one kernel or copy", 10)]


def test_three_turns_are_found_though_the_last_lacks_its_wait():
    turn = [*range(29), 99]
    names = np.array(turn * 3)[:-1]
    assert repetition.find(names, np.where(names == 0, 100, 0)).begins.tolist() == [0, 30, 60]


@pytest.mark.parametrize("inner", ["layers", "batch"])
def test_turns_that_hold_a_range_different_numbers_of_times_are_turns(tmp_path, inner):
    """Sequences of 1 to 9 pieces, one after another; where the pieces are turns by their name, they are the iterations."""
    sizes = (1, 3, 9, 2, 1, 5, 1, 7)

    def build(writer):
        time = 1_000_000
        for turn, size in enumerate(sizes):
            mark(writer, "sentence", time - 2_000, size * 200_000 + 190_000)
            for piece in range(size):
                mark(writer, inner, time - 1_000, 150_000)
                launches(writer, time, 10 * time, ["a", "b", "c"], 1 + turn * 100 + piece * 3)
                time += 200_000
            launches(writer, time, 10 * time, ["pick"], 91 + turn * 100)
            time += 200_000

    expected = ("range 'sentence'", len(sizes)) if inner == "layers" else ("range 'batch'", sum(sizes))
    assert announced(tmp_path / f"{inner}.warp", build) == [expected]


def test_turns_numbered_one_by_one_may_be_of_any_size(tmp_path):
    """Requests of 1 to 12 kernels, with nothing announced inside of them."""
    sizes = (1, 3, 12, 2, 1, 5, 1, 7)

    def build(writer):
        time = 1_000_000
        for turn, size in enumerate(sizes):
            mark(writer, f"prune rows {turn + 637}", time - 2_000, size * 20_000 + 10_000)
            launches(writer, time, 10 * time, ["a"] * size, 1 + turn * 100)
            time += 400_000

    assert announced(tmp_path / "t.warp", build) == [("range 'prune rows #'", len(sizes))]


def test_where_no_length_is_usual_every_iteration_is_as_usual_as_the_others():
    assert steady_state(np.array([10, 200, 30, 90, 5, 400, 15, 70, 50, 52, 300, 1000, 10, 7, 500, 20])).all()


def test_micro_batches_are_parts_of_a_turn(tmp_path):
    """Four micro-batches a turn: two that send what they made, two that wait for what others made, then a pause."""

    def build(writer):
        time, first = 1_000_000, 1
        for _ in range(5):
            for before, after in (([], ["send"]), ([], ["send"]), (["recv"], []), (["recv"], [])):
                launches(writer, time, 10 * time, before, first)
                time += 30_000
                mark(writer, "shuffle", time - 2_000, 110_000)
                launches(writer, time, 10 * time, ["a", "b", "c", "d"], first + 1)
                time += 150_000
                launches(writer, time, 10 * time, after, first + 5)
                time, first = time + 30_000, first + 10
            time += 500_000

    assert announced(tmp_path / "t.warp", build) == [("range 'shuffle', 4 in a turn", 5)]


@pytest.mark.parametrize(
    ("turns", "expected"), [(6, [("range 'shuffle', 2 in a turn", 6)]), (5, [("range 'shuffle'", 10)])]
)
def test_a_rhythm_takes_six_turns_to_see(tmp_path, turns, expected):
    """Two micro-batches a turn; the kernels after them differ. What follows the last one is not known."""

    def build(writer):
        time, first = 1_000_000, 1
        for _ in range(turns):
            for after in (["send"], ["send", "recv", "update"]):
                mark(writer, "shuffle", time - 2_000, 110_000)
                launches(writer, time, 10 * time, ["a", "b", "c", "d"], first)
                time += 150_000
                launches(writer, time, 10 * time, after, first + 4)
                time, first = time + 80_000, first + 10
            time += 500_000

    assert announced(tmp_path / "t.warp", build) == expected


def test_turns_that_launch_more_every_second_time_are_turns(tmp_path):
    """Every second range ends with a kernel of its own: nothing is launched between ranges, so they are no parts of a turn."""

    def build(writer):
        time, first = 1_000_000, 1
        for turn in range(10):
            mark(writer, "shuffle", time - 2_000, 240_000)
            names = ["a", "b", "c", "d"] + ["e"] * (turn % 2)
            launches(writer, time, 10 * time, names, first)
            time, first = time + 300_000, first + 10

    assert announced(tmp_path / "t.warp", build) == [("range 'shuffle'", 10)]


@pytest.mark.parametrize(("kind", "slow"), [("cupti buffer flush", 0), ("command buffer full", 1)])
def test_what_the_recorder_took_makes_no_iteration_slow(tmp_path, kind, slow):
    def build(writer, turn, host):
        marker(writer, turn, host)
        if turn == 6:
            writer.add(
                "overhead",
                [{"start": 66_100_000, "duration": 5_000_000, "kind": kind, "process": 0, "thread": 7}],
            )

    path = tmp_path / "t.warp"
    with TraceWriter(path) as writer:
        for turn in range(10):
            build(writer, turn, 1_000_000 + turn * 200_000)
            late = 5_000_000 * (turn > 6)
            launches(
                writer,
                1_000_000 + turn * 200_000,
                60_000_000 + turn * 1_000_000 + late,
                ["a", "b", "c"],
                1 + turn * 10,
            )
    with open_trace(path) as trace:
        (found,) = find(trace)
    assert found.duration[6] == 6_000_000 and int(found.outlier.sum()) == slow


@pytest.mark.parametrize(("runs", "expected"), [(1, []), (6, [("repetition of 4 kernels and copies", 6)])])
def test_layers_in_one_run_of_a_module_are_no_iterations(tmp_path, runs, expected):
    """What torch's profiler draws: the module around six times the same work, or six runs of the module."""

    def build(writer):
        for layer in range(6):
            time = 1_000_000 + layer * 200_000
            launches(writer, time, 10 * time, ["a", "b", "c", "d"], 1 + layer * 10)
        for run in range(runs):
            length = 6 * 200_000 // runs
            writer.add("marker", [{"start": 990_000 + run * length, "duration": length - 20_000, "kind": "push/pop",
                                   "open": False, "source": "framework", "category": "python_function",
                                   "name_id": writer.name("nn.Module: Net_0"), "thread": 7, "process": 0}])  # fmt: skip

    assert announced(tmp_path / f"{runs}.warp", build) == expected


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        ("work", []),
        ("waits", [("repetition of 5 kernels and copies", 8)]),
        ("nothing", [("repetition of 5 kernels and copies", 8)]),
    ],
)
def test_layers_between_other_work_of_one_pass_are_no_iterations(tmp_path, between, expected):
    """Eight times the same work in a program of a framework: right between other work, after a wait and before one, or alone."""

    def build(writer):
        writer.add("op", [{"start": 900_000, "duration": 9_000_000, "name_id": writer.name("aten::linear"), "thread": 7,
                           "process": 0}])  # fmt: skip
        pieces = [["embed", "position"], *[["norm", "qkv", "attend", "project", "mlp"]] * 8, ["head", "pick"]]
        time, number = 1_000_000, 1
        for place, names in enumerate(pieces):
            if between == "waits" and place in (1, 9):
                waited(writer, time - 90_000, 80_000)
            if between != "nothing" or len(names) == 5:
                launches(writer, time, 10 * time, names, number)
            time, number = time + 200_000, number + len(names)

    assert announced(tmp_path / f"{between}.warp", build) == expected


@pytest.mark.parametrize(
    ("lost", "source"),
    [
        ((3, 17, 18, 40), "repetition of 4 kernels and copies"),
        (range(2, 47), "repetition of 4 kernels and copies"),
    ],
)
def test_turns_whose_launches_were_lost_are_counted(tmp_path, lost, source):
    """Streams run in order, so a kernel without a launch was launched between its neighbors."""
    path = tmp_path / "t.warp"
    with TraceWriter(path) as writer:
        for turn in range(12):
            for place, name in enumerate("abcd"):
                number = turn * 4 + place
                time = 1_000_000 + turn * 400_000 + place * 20_000
                both = {"process": 0, "correlation": number + 1, "name_id": writer.name(name)}
                if number not in lost:
                    writer.add("launch", [{**both, "start": time, "duration": 4_000, "function": "f", "thread": 7,
                                           "captured": False}])  # fmt: skip
                writer.add("kernel", [{**both, "start": time + 9_000, "duration": 10_000, "context": 1, "stream": 7,
                                       "device": 0, "graph_level": False}])  # fmt: skip
    with open_trace(path) as trace:
        assert [(one.source, len(one)) for one in find(trace)] == [(source, 12)]


@pytest.mark.parametrize("together", [10, 5])
def test_turns_that_overtake_each_other_on_the_device_last_as_long_as_on_the_host(tmp_path, together):
    """The first kernel of some turns waits behind another's on another stream: they begin when that one does."""
    path = tmp_path / "t.warp"
    with TraceWriter(path) as writer:
        for turn in range(10):
            host = 1_000_000 + turn * 200_000
            marker(writer, turn, host)
            both = {"process": 0, "correlation": turn + 1, "name_id": writer.name("gemm")}
            writer.add("launch", [{**both, "start": host, "duration": 4_000, "function": "f", "thread": 7,
                                   "captured": False}])  # fmt: skip
            late = max(turn - together + 1, 0) * 1_000_000 - min(turn, together - 1) * 1_000
            writer.add("kernel", [{**both, "start": 60_000_000 + late, "duration": 500, "context": 1,
                                   "stream": 7 + turn, "device": 0, "graph_level": False}])  # fmt: skip
    with open_trace(path) as trace:
        (found,) = find(trace)
    assert (len(found), found.median) == (10, 200_000)


@pytest.mark.parametrize(
    "lengths", [[3348, 2378, 1827, 1019, 1281, 1046, 1747, 3615, 967], [15, 1, 4, 5, 1, 1, 1]]
)
def test_a_chance_row_of_like_lengths_is_no_steady_state(lengths):
    assert steady_state(np.array(lengths)).all()
