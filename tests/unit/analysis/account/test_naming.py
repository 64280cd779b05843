"""The names of host time: by what covers it, annotations before functions, the user's before a library's."""

from __future__ import annotations

import shutil

import pytest

from tests.unit.analysis.account.rows import THREAD, US, call, frame, marker, operator, sample
from tests.unit.analysis.conftest import kernel, launch
from warpsight.analysis.account import account
from warpsight.analysis.account.classes import HOST
from warpsight.analysis.account.naming import UNNAMED
from warpsight.model import open as open_trace

LIBRARY = "site-packages/torch/nn.py"


def host(build, lengths=(1_000,), every=10_000, thread=THREAD, more=((), ()), **tables):
    """The names of the host time of a program whose device waits `lengths` ns for the host, from each multiple of `every` on."""
    kernels, launches = [], []
    for number, length in enumerate(lengths):
        at = number * every
        kernels += [
            kernel(at - 100, 100, correlation=2 * number),
            kernel(at + length + 20, 10, correlation=2 * number + 1),
        ]
        launches += [launch(at - 200, 5, 2 * number), launch(at + length, 10, 2 * number + 1, thread=thread)]
    # What is between the stretches is a kernel's time.
    kernels += [
        kernel(n * every + lengths[n] + 30, every - lengths[n] - 130, correlation=900)
        for n in range(len(lengths) - 1)
    ]
    found = account(build(kernel=[*kernels, *more[1]], launch=[*launches, *more[0]], **tables))
    assert found.time(HOST) == sum(lengths)
    assert sum(one.time for one in found.host) == sum(lengths)
    return found.host


def ranges(build, *rows, lengths=(1_000,), **tables):
    """Names and times of host time under annotations (begin, length, name)."""
    texts = tuple(dict.fromkeys(name for _, _, name in rows))
    found = host(
        build, lengths, names=texts, marker=[marker(b, n, texts.index(t) + 1) for b, n, t in rows], **tables
    )
    return [(one.name, one.time) for one in found]


def test_host_time_that_nothing_covers_has_no_name(build):
    (one,) = host(build)
    assert (one.name, one.time, one.function, one.most) == (UNNAMED, 1_000, "", "")


def test_without_host_time_there_is_nothing_to_name(build):
    assert account(build(kernel=[kernel(0, 10)])).host == ()


def test_the_annotation_that_covers_it_names_it(build):
    assert ranges(build, (-50, 2_000, "load batch")) == [("load batch", 1_000)]


def test_of_annotations_that_cover_nearly_as_much_the_most_specific_is_the_name(build):
    # `train` covers all, `step of it` 95%: the shorter range says more.
    assert ranges(build, (-5_000, 10_000, "train"), (30, 950, "load")) == [("load", 1_000)]


@pytest.mark.parametrize(("inner", "name"), [(900, "load"), (899, "train")])
def test_it_descends_while_one_child_holds_nearly_all(build, inner, name):
    assert ranges(build, (-5_000, 10_000, "train"), (30, inner, "load")) == [(name, 1_000)]


def test_it_stops_where_the_time_splits(build):
    rows = ((-5_000, 10_000, "train"), (0, 400, "load"), (400, 600, "log"))
    assert ranges(build, *rows) == [("train", 1_000)]


@pytest.mark.parametrize(
    ("covered", "expected"),
    [
        (
            100,
            [(UNNAMED, 1_000)],
        ),  # 10% of one long stretch: enough to try, but it does not cover the larger part of it
        (499, [(UNNAMED, 1_000)]),
        (500, [("load", 1_000)]),
    ],
)
def test_a_stretch_has_the_name_that_covers_its_larger_part(build, covered, expected):
    assert ranges(build, (0, covered, "load")) == expected


def test_stretches_that_a_name_does_not_cover_are_named_by_themselves(build):
    rows = ((0, 3_000, "load"), (10_000, 2_000, "log"))
    assert ranges(build, *rows, lengths=(3_000, 2_000, 1_000)) == [
        ("load", 3_000),
        ("log", 2_000),
        (UNNAMED, 1_000),
    ]


@pytest.mark.parametrize(("length", "named"), [(1_000, True), (999, False)])
def test_a_name_that_covers_a_tenth_of_what_has_none_is_worth_it(build, length, named):
    found = ranges(build, (0, length, "load"), lengths=(length, 10_000 - length), every=20_000)
    assert found == ([(UNNAMED, 9_000), ("load", 1_000)] if named else [(UNNAMED, 10_000)])


def test_at_most_six_names_are_given_before_the_rest(build):
    lengths = [1_000] * 8
    rows = [(n * 10_000, 1_000, chr(97 + n) * 3) for n in range(8)]
    found = ranges(build, *rows, lengths=lengths)
    assert len(found) == 7
    assert found[0] == (UNNAMED, 2_000)  # the largest first
    assert {time for _, time in found[1:]} == {1_000}


def test_what_is_left_below_two_percent_gets_no_name_of_its_own(build):
    for rest, name in ((199, UNNAMED), (200, "log")):
        found = ranges(
            build, (0, 9_900, "load"), (20_000, 400, "log"), lengths=(10_000 - rest, rest), every=20_000
        )
        assert found == [("load", 10_000 - rest), (name, rest)]


def test_names_that_only_number_the_turns_say_when_and_not_what(build):
    # ProfilerStep covers all of it, and so does the user's function: the function is the name.
    names = ("ProfilerStep#12", "m.py(3): load")
    rows = [marker(-50, 2_000, 1), marker(-50, 1_500, 2, category="python_function")]
    (found,) = host(build, names=names, marker=rows)
    assert found.name == "m.py(3): load"


@pytest.mark.parametrize(
    "name", ["ProfilerStep#12", "step 3", "Iteration_7", "iter", "train_step 4", "global_step", "12", "#3"]
)
def test_a_turn_is_the_name_when_nothing_else_is(build, name):
    assert ranges(build, (-50, 2_000, name)) == [(name, 1_000)]
    assert ranges(build, (-50, 2_000, name), (0, 100, "log")) == [(name, 1_000)]


@pytest.mark.parametrize("name", ["step 3 of 5", "load step", "batch 7", "stepper"])
def test_other_names_with_such_words_are_names(build, name):
    assert ranges(build, (-5_000, 20_000, "iteration 9"), (-50, 2_000, name)) == [(name, 1_000)]


def test_a_turn_that_covers_less_than_nearly_all_is_no_name(build):
    assert ranges(build, (0, 900, "step 1")) == [("step 1", 1_000)]
    assert ranges(build, (0, 899, "step 1")) == [(UNNAMED, 1_000)]


def levels(build, **covered):
    """The name of a stretch of 1,000 ns of which an annotation, the user's function, a library's and an operator cover a part."""
    names = ("note", "m.py(3): load", f"{LIBRARY}(9): forward", "aten::copy_")
    rows = [
        marker(0, length, number, category=category)
        for number, (level, category) in enumerate(
            (("note", None), ("own", "python_function"), ("library", "python_function")), 1
        )
        if (length := covered.get(level))
    ]
    op = [operator(0, covered["operator"], 4)] if "operator" in covered else []
    (found,) = host(build, names=names, marker=rows, op=op)
    return {
        "note": "note",
        "m.py(3): load": "own",
        f"{LIBRARY}(9): forward": "library",
        "aten::copy_": "operator",
    }.get(found.name)


@pytest.mark.parametrize(
    ("covered", "named"),
    [
        ({"note": 1_000, "own": 1_000, "library": 1_000, "operator": 1_000}, "note"),
        ({"own": 1_000, "library": 1_000, "operator": 1_000}, "own"),
        ({"library": 1_000, "operator": 1_000}, "library"),
        ({"operator": 1_000}, "operator"),
        ({"note": 899, "own": 900, "library": 1_000}, "own"),  # nearly all comes before most
        ({"note": 899, "operator": 900}, "operator"),
        (
            {"note": 500, "own": 899, "operator": 899},
            "note",
        ),  # where nothing holds nearly all: most of it, in the same order
        ({"note": 499, "own": 500}, "own"),
    ],
)
def test_annotations_come_before_the_users_functions_those_before_a_librarys_and_operators_last(
    build, covered, named
):
    assert levels(build, **covered) == named


def test_other_threads_ranges_say_nothing(build):
    rows = [marker(-50, 2_000, 1, thread=THREAD + 1), marker(-50, 2_000, 1, process=1)]
    (found,) = host(build, names=("load",), marker=rows)
    assert found.name == UNNAMED


MAIN, LOAD, NEXT, PARSE = (
    frame("main", "m.py", 3), frame("load", "m.py", 7), frame("next", LIBRARY, 70), frame("parse", "m.py", 20),
)  # fmt: skip
STACKS = (
    (MAIN,),
    (MAIN, LOAD),
    (MAIN, LOAD, NEXT),
    (MAIN, LOAD, NEXT, PARSE),
    (NEXT,),
    (MAIN, frame("load", "m.py", 8)),
)


def sampled(build, *stacks, **tables):
    """The only name of host time, by samples at equal distances."""
    (found,) = host(
        build,
        stacks=STACKS,
        sample=[sample(10 + i * 900 // len(stacks), s) for i, s in enumerate(stacks)],
        **tables,
    )
    return found


def test_the_users_innermost_function_that_nearly_all_of_it_was_spent_in(build):
    found = sampled(build, *[3] * 9, 1)
    assert (found.name, found.function, found.most) == ("load", "load (m.py:7)", "")
    found = sampled(build, *[3] * 8, 1, 1)
    assert (found.name, found.function) == ("main", "main (m.py:3)")
    assert (found.most, found.most_share) == ("load (m.py:7)", pytest.approx(0.8))


@pytest.mark.parametrize(("parsing", "most"), [(5, "parse (m.py:20)"), (4, "")])
def test_the_function_that_most_of_it_was_spent_in_is_said_too(build, parsing, most):
    found = sampled(build, *[4] * parsing, *[2] * (10 - parsing))
    assert (found.name, found.function, found.most) == ("load", "load (m.py:7)", most)
    assert found.most_share == pytest.approx(parsing / 10 if most else 0)


def test_the_line_is_the_one_that_most_of_it_was_spent_at(build):
    assert sampled(build, 2, 6, 6).function == "load (m.py:8)"


def test_where_none_holds_nearly_all_of_it_the_one_that_holds_most_names_it(build):
    # Stack 5 has none of the user's functions: main and load are around 60% of the time.
    found = sampled(build, *[2] * 6, *[5] * 4)
    assert (found.name, found.function, found.most) == ("load", "", "load (m.py:7)")
    assert found.most_share == pytest.approx(0.6)


def test_a_librarys_function_is_named_where_there_is_no_other(build):
    found = sampled(build, 5, 5)
    assert (found.name, found.function) == ("next", f"next ({LIBRARY}:70)")


KERNEL = ("0xffffffffa4d38ac5", "[kernel.kallsyms]", None, 0xFFFFFFFFA4D38AC5, "native", None)


def test_an_address_of_the_kernel_is_no_name(build):
    found = host(build, stacks=((MAIN, KERNEL),), sample=[sample(10 + i * 90, 1) for i in range(10)])
    assert found[0].name == "main"
    assert host(build, stacks=((KERNEL,),), sample=[sample(10, 1), sample(500, 1)])[0].name == UNNAMED


SHARED = ("std::ostream::sentry::~sentry()", "/usr/lib/libstdc++.so.6.0.34", None, None, "native", None)


def test_a_frame_of_a_shared_library_that_nobody_calls_is_no_name(build):
    """Its callers are lost: no thread begins there."""
    samples = [sample(10 + i * 90, 1) for i in range(10)]
    assert host(build, stacks=((SHARED,),), sample=samples)[0].name == UNNAMED
    known = ("main", "/home/me/solver", None, None, "native", None)
    assert host(build, stacks=((known,),), sample=samples)[0].name == "main"
    called = ((known, SHARED),)  # its callers are known: `main` holds nearly all of it too
    assert host(build, stacks=called, sample=[sample(10 + i * 90, 2) for i in range(10)])[0].name == SHARED[0]


@pytest.mark.parametrize(
    "inner",
    [
        ("[Max depth]", "[Max depth]", None, None, "native", None),
        ("[Broken backtraces]", "[Broken backtraces]", None, None, "native", None),
        ("NSYS_OSRT_fwrite_1", "/opt/target-linux-x64/libToolsInjection64.so", None, None, "native", None),
    ],
)
def test_what_stands_for_lost_frames_and_the_recorders_own_is_no_name(build, inner):
    found = host(build, stacks=((MAIN, inner),), sample=[sample(10 + i * 90, 1) for i in range(10)])
    assert (found[0].name, found[0].most) == ("main", "")
    assert host(build, stacks=((inner,),), sample=[sample(10, 1), sample(500, 1)])[0].name == UNNAMED


@pytest.mark.parametrize(
    ("printing", "name", "most"),
    [
        (950, "fwrite", ""),
        (900, "fwrite", ""),
        (899, "fwrite", "fwrite"),
        (500, "fwrite", "fwrite"),
        (499, UNNAMED, ""),
    ],
)
def test_where_nothing_else_is_known_the_system_call_names_it(build, printing, name, most):
    (found,) = host(build, api=[call(5, printing, "fwrite", correlation=None)])
    assert (found.name, found.most) == (name, most)
    known = host(
        build, stacks=STACKS, sample=[sample(10, 1)], api=[call(5, printing, "fwrite", correlation=None)]
    )
    assert known[0].name == "main"


def test_an_annotation_names_it_and_the_function_says_where(build):
    found = sampled(build, 2, 2, names=("load batch",), marker=[marker(-50, 2_000, 1)])
    assert (found.name, found.function) == ("load batch", "load (m.py:7)")


def test_a_trace_without_its_frames_is_named_by_what_is_left(build, tmp_path):
    work = [kernel(0, 100, correlation=1), kernel(5_000 * US, 100, correlation=2)]
    calls = [launch(-20, 5, 1, stack=1), launch(4_999 * US, 5, 2, stack=1)]
    samples = [sample(time * 100 * US, 1) for time in range(1, 40)]
    whole = build(stacks=((frame("load", "m.py", 5),),), kernel=work, launch=calls, sample=samples)
    path = tmp_path / "no-frames.warp"
    shutil.copytree(whole.path, path)
    shutil.rmtree(path / "table=frame")
    with open_trace(path) as trace:
        assert [one.name for one in account(trace).host] == [UNNAMED]
    assert [one.name for one in account(whole).host] == ["load"]


def python(*covered):
    """Ranges of Python functions (begin, length, text), and their texts, as torch.profiler lists them."""
    texts = tuple(text for _, _, text in covered)
    rows = [
        marker(begin, length, number, category="python_function")
        for number, (begin, length, _) in enumerate(covered, 1)
    ]
    return {"names": texts, "marker": rows}


def test_where_functions_were_is_told_by_their_ranges_and_not_by_the_launches_around(build):
    """`move` made the calls before and after; between them it had returned, and the loop prepared data."""
    stacks = ((frame("main", "m.py", 1), frame("move", "m.py", 30)),)
    told = python(
        (-5_000, 9_000, "m.py(1): main"),
        (-300, 310, "m.py(30): move"),
        (12, 960, "m.py(50): prepare"),
        (12, 700, "m.py(60): zoom"),
        (990, 200, "m.py(30): move"),
    )
    calls = [launch(-200, 5, 0, stack=1), launch(1_000, 10, 1, stack=1)]
    work = [kernel(-100, 100, correlation=0), kernel(1_020, 10, correlation=1)]
    (found,) = account(build(stacks=stacks, kernel=work, launch=calls, **told)).host
    assert (found.name, found.function) == ("m.py(50): prepare", "prepare (m.py:50)")
    assert found.place == "prepare (m.py:50)"
    assert (found.most, found.most_share) == ("zoom (m.py:60)", pytest.approx(0.7))


def test_functions_of_one_name_on_other_lines_are_other_functions(build):
    told = python(
        (-50, 2_000, "net.py(10): forward"),
        (0, 400, "net.py(90): forward"),
        (400, 600, "net.py(50): forward"),
    )
    (found,) = host(build, **told)
    assert found.function == "forward (net.py:10)"
    assert (found.most, found.most_share) == ("forward (net.py:50)", pytest.approx(0.6))


def test_the_deeper_of_functions_that_both_cover_everything_is_the_place(build):
    told = python((-9_000, 30_000, "m.py(1): <module>"), (-800, 5_000, "m.py(9): main"))
    (found,) = host(build, **told)
    assert found.function == "main (m.py:9)"


def test_the_line_is_one_of_the_functions_own_file(build):
    stacks = ((frame("forward", "net.py", 5), frame("forward", LIBRARY, 124)),)
    (found,) = host(build, stacks=stacks, sample=[sample(time * 100, 1) for time in range(1, 9)])
    assert found.function == "forward (net.py:5)"


@pytest.mark.parametrize(("inside", "name"), [(True, "load"), (False, "part #")])
def test_ranges_that_count_up_around_all_work_are_iterations_and_name_nothing_that_something_inside_names(
    build, inside, name
):
    """Each of three ranges begins with half of its time in `load`; around the work it is an iteration, beside it a cause."""
    lengths, every = (4_000,) * 3, 10_000
    span = (
        every if inside else 4_010
    )  # from before the launch that ends a stretch to after it, or all of them
    rows = [(n * every - (300 if inside else 0), span - (0 if inside else 20), f"part {n}") for n in range(3)]
    rows += [(n * every, 2_400, "load") for n in range(3)]
    found = ranges(build, *rows, lengths=lengths, every=every)
    assert found == [(name, 12_000)]


@pytest.mark.parametrize(("most", "name"), [(3_900, "mask 1.0"), (2_000, "mask #.#")])
def test_of_names_that_differ_in_numbers_one_that_covers_nearly_all_is_the_name(build, most, name):
    rows = [
        (0, most, "mask 1.0"),
        (most, 4_000 - most, "mask 1.1"),
        (10_000, 4_000, "mask 1.0"),
        (20_000, 4_000, "mask 1.0"),
    ]
    assert ranges(build, *rows, lengths=(4_000,) * 3) == [(name, 12_000)]


def around(build, *told, name="work", every=10_000):
    """Names of the host time of three turns, each in a range of one constant name around its work, and in functions."""
    ranges = [(n * every - 300, every - 100, name) for n in range(3)]
    texts = tuple(dict.fromkeys(text for *_, text in (*ranges, *told)))
    rows = [
        marker(
            begin,
            length,
            texts.index(text) + 1,
            category="user_annotation" if text == name else "python_function",
        )
        for begin, length, text in (*ranges, *told)
    ]
    found = host(build, (4_000,) * 3, every=every, names=texts, marker=rows)
    return [(one.name, one.place) for one in found]


def each_turn(begin, length, text, every=10_000):
    """A function (begin, length) of each of three turns."""
    return [(n * every + begin, length, text) for n in range(3)]


def test_a_range_of_one_name_around_all_work_gives_way_to_the_function_that_holds_its_time(build):
    """A name that covers each turn as a whole says nothing of what the host does in it."""
    assert around(build, *each_turn(0, 3_900, "m.py(50): decode")) == [("decode", "decode (m.py:50)")]


@pytest.mark.parametrize(
    "told",
    [
        each_turn(0, 3_000, "m.py(50): decode"),  # three quarters of it
        [(-9_000, 90_000, "m.py(9): main")],
        each_turn(-310, 9_960, "m.py(9): turn"),  # calls what is annotated
    ],
)
def test_a_range_of_one_name_around_all_work_is_the_name_where_no_function_in_it_holds_its_time(build, told):
    assert [name for name, _ in around(build, *told)] == ["work"]


def test_a_range_beside_the_work_is_a_name_whatever_function_is_in_it(build):
    told = python(*each_turn(0, 3_900, "m.py(50): decode"))
    texts = (*told["names"][:1], "load")
    rows = [dict(row, name_id=1) for row in told["marker"]]
    rows += [marker(n * 10_000, 3_950, 2) for n in range(3)]
    (found,) = host(build, (4_000,) * 3, names=texts, marker=rows)
    assert (found.name, found.function) == ("load", "decode (m.py:50)")


@pytest.mark.parametrize(("outside", "name"), [("wait", "decode"), ("decode", "work")])
def test_a_function_on_the_stacks_outside_of_the_range_too_calls_what_is_annotated(build, outside, name):
    """Samples show `decode` in all turns; where they show it before the first one too, it is the loop's."""
    lengths, every = (4_000,) * 4, 10_000
    rows = [marker(n * every - 300, every, 1) for n in range(1, 4)]
    stacks = ((frame("main", "m.py", 5), frame("decode", "m.py", 50)), (frame(outside, "m.py", 60),))
    samples = [sample(n * every + at, 2 + (n == 0)) for n in range(4) for at in range(50, 4_000, 100)]
    calls = [launch(n * every + 4_500 + 10 * k, 5, 100 * n + k) for n in range(1, 3) for k in range(20)]
    work = [kernel(row["start"] + 100, 10, correlation=row["correlation"]) for row in calls]
    found = host(build, lengths, every=every, names=("work",), marker=rows, stacks=stacks, sample=samples,
                 more=(calls, work))  # fmt: skip
    assert found[0].name == name


def test_a_range_around_all_work_whatever_thread_launches_it_says_when_and_not_what(build):
    """Three turns; another thread launches some of it, as for backward."""
    rows = [(n * 10_000 - 300, 10_000, f"part {n}") for n in range(3)]
    rows += [(n * 10_000, 2_400, "load") for n in range(3)]
    texts = tuple(dict.fromkeys(text for _, _, text in rows))
    more = [launch(n * 10_000 + 5_000, 10, 700 + n, thread=THREAD + 1) for n in range(2)]
    kernels = [kernel(n * 10_000 + 5_100, 10, correlation=700 + n) for n in range(2)]
    found = host(build, (4_000,) * 3, names=texts, more=(more, kernels),
                 marker=[marker(begin, length, texts.index(text) + 1) for begin, length, text in rows])  # fmt: skip
    assert [(one.name, one.time) for one in found] == [("load", 12_000)]


@pytest.mark.parametrize(("part", "name"), [(600, "forward"), (950, "aten::mm")])
def test_a_function_around_all_of_it_says_more_than_the_operator_that_most_of_it_is_in(build, part, name):
    stacks = ((frame("forward", "net.py", 5),),)
    samples = [sample(time * 100, 1) for time in range(1, 9)]
    (found, *_) = host(build, names=("aten::mm",), op=[operator(0, part, 1)], stacks=stacks, sample=samples)
    assert found.name == name


CHAIN = (
    frame("main", "m.py", 3),
    *(frame(name, "m.py", 10 + n) for n, name in enumerate(("decay", "factor", "draw", "sqrt"))),
)
BESIDE = frame("report", "m.py", 90)


@pytest.mark.parametrize(
    ("counts", "share"),
    [((2, 2, 2, 20, 68, 6), 0.88), ((4, 3, 2, 20, 68, 3), 0.88), ((3, 1, 1, 22, 70, 3), 0.92), ((6, 2, 2, 10, 78, 2), 0.88),
     ((4, 3, 3, 8, 76, 6), 0.84)],
)  # fmt: skip
def test_of_functions_that_call_each_other_and_hold_about_nine_tenths_the_innermost_is_the_name(
    build, counts, share
):
    """Which of them has a sample more than nine tenths is chance."""
    stacks = tuple(CHAIN[: n + 1] for n in range(5))
    *own, beside = counts
    samples = [n + 1 for n, count in enumerate(own) for _ in range(count)] + [6] * beside
    (found,) = host(
        build,
        stacks=(*stacks, (CHAIN[0], BESIDE)),
        sample=[sample(10 + i * 900 // len(samples), s) for i, s in enumerate(samples)],
    )
    assert (found.name, found.function_share) == ("draw", pytest.approx(share, abs=0.005))


def test_a_chain_of_small_steps_ends_where_less_than_nearly_all_of_nearly_all_is_left(build):
    chain = tuple(frame(f"f{n}", "m.py", n + 1) for n in range(12))
    samples = [n + 1 for n in range(11) for _ in range(4)] + [
        12
    ] * 56  # each holds four hundredths less than its caller
    (found,) = host(
        build,
        stacks=tuple(chain[: n + 1] for n in range(12)),
        sample=[sample(10 + i * 900 // len(samples), s) for i, s in enumerate(samples)],
    )
    assert found.function_share >= 0.81 and found.name == "f4"
