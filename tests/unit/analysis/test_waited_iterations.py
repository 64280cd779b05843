"""Waits of the host: where they divide a loop into its turns, and where they do not."""

import pytest

from tests.unit.analysis.written_loops import announced, launches, mark, waited


def test_ranges_with_a_wait_each_are_turns_whatever_comes_after_some_of_them(tmp_path):
    """Something is printed after every third turn: one more kernel."""

    def build(writer):
        time = 1_000_000
        for turn in range(12):
            mark(writer, "shuffle", time - 2_000, 110_000)
            launches(writer, time, 10 * time, ["a", "b", "c", "d"], 1 + turn * 10)
            waited(writer, time + 120_000, 30_000)
            if turn % 3 == 2:
                launches(writer, time + 160_000, 10 * time + 1_000_000, ["print"], 9 + turn * 10)
            time += 250_000

    assert announced(tmp_path / "t.warp", build) == [("range 'shuffle'", 12)]


@pytest.mark.parametrize("around", [None, "prune rows"])
def test_turns_that_the_host_waits_after_are_turns_however_often_a_part_repeats_in_them(tmp_path, around):
    """Sequences of one to nine pieces, each piece in a range or in none; only the wait after a sequence tells them apart."""
    sizes = (1, 2, 1, 9, 1, 3, 2, 1, 1, 4, 2)

    def build(writer):
        time = 1_000_000
        for turn, size in enumerate(sizes):
            for piece in range(size):
                if around:
                    mark(writer, around, time - 1_000, 150_000)
                launches(writer, time, 10 * time, ["a", "b", "b", "c"], 1 + turn * 100 + piece * 4)
                time += 200_000
            launches(writer, time, 10 * time, ["pick"], 91 + turn * 100)
            waited(writer, time + 10_000, 100_000)
            time += 200_000

    assert announced(tmp_path / "t.warp", build) == [("repetition between waits", len(sizes))]


def test_a_wait_now_and_then_in_a_loop_of_one_kernel_makes_no_turns(tmp_path):
    def build(writer):
        time = 1_000_000
        for turn, size in enumerate((5, 9, 4, 7, 6, 8)):
            for piece in range(size):
                launches(writer, time, 10 * time, ["a"], 1 + turn * 100 + piece)
                time += 200_000
            waited(writer, time + 10_000, 100_000)

    assert announced(tmp_path / "t.warp", build) == [("repetition of one kernel or copy", 39)]


def test_a_wait_stands_before_the_lost_launches_of_the_work_that_began_after_it(tmp_path):
    """The host waits after each turn, of which the first launches are lost: more of some turns, fewer of others."""
    lost = (0, 1, 0, 2, 0, 3, 3, 3, 3, 1, 0, 3, 0, 3, 3, 0)

    def build(writer):
        time = 1_000_000
        for turn, missing in enumerate(lost):
            for place, name in enumerate("abcd"):
                both = {"process": 0, "correlation": 1 + turn * 4 + place, "name_id": writer.name(name)}
                if place >= missing:
                    writer.add("launch", [{**both, "start": time, "duration": 4_000, "function": "f", "thread": 7,
                                           "captured": False}])  # fmt: skip
                writer.add("kernel", [{**both, "start": time + 9_000, "duration": 10_000, "context": 1, "stream": 7,
                                       "device": 0, "graph_level": False}])  # fmt: skip
                time += 20_000
            waited(writer, time, 100_000)
            time += 200_000

    assert announced(tmp_path / "t.warp", build) == [("repetition of 4 kernels and copies", len(lost))]


def test_a_loop_that_the_host_waits_in_now_and_then_has_its_own_turns(tmp_path):
    """Twelve times about ten steps, after which the host reads a number."""

    def build(writer):
        time = 1_000_000
        for part, size in enumerate((10, 11, 9, 10, 10, 9, 11, 10, 10, 11, 9, 10)):
            for step in range(size):
                mark(writer, "forward", time - 1_000, 150_000)
                launches(writer, time, 10 * time, ["a", "b", "c"], 1 + part * 100 + step * 3)
                time += 200_000
            launches(writer, time, 10 * time, ["read"], 91 + part * 100)
            waited(writer, time + 10_000, 100_000)
            time += 200_000

    assert announced(tmp_path / "t.warp", build) == [("range 'forward'", 120)]


def test_calls_that_return_right_when_their_copies_end_divide_no_turns(tmp_path):
    """A blocking copy and a kernel a turn: by the clocks, some calls return just before their copies end, others just after."""

    def build(writer):
        for turn in range(60):
            time = 1_000_000 + turn * 200_000
            late = (-400, 300, 500, -200, 600)[turn % 5]
            both = {"process": 0, "correlation": 2 * turn + 1}
            writer.add(
                "api", [{**both, "start": time, "duration": 20_000, "function": "cudaMemcpy", "thread": 7}]
            )
            writer.add("memcpy", [{**both, "start": time + 15_000, "duration": 5_000 + late, "bytes": 64, "kind": "HtoD",
                                   "source_kind": "pageable", "destination_kind": "device", "asynchronous": False, "context": 1,
                                   "stream": 7, "device": 0}])  # fmt: skip
            launches(writer, time + 30_000, time + 40_000, ["solve"], 2 * turn + 2)

    assert announced(tmp_path / "t.warp", build) == [("repetition of 2 kernels and copies", 60)]


@pytest.mark.parametrize(("kernels", "expected"), [(4, []), (0, [("repetition of one kernel or copy", 12)])])
def test_copies_in_pieces_are_the_loop_of_a_program_that_only_copies(tmp_path, kernels, expected):
    """Eight copies to the device in pieces, four kernels, four copies back."""

    def build(writer):
        for place in range(12):
            time = 1_000_000 + place * 200_000 + 800_000 * (place >= 8)
            both = {"process": 0, "correlation": place + 1}
            writer.add(
                "api",
                [
                    {
                        **both,
                        "start": 900_000 + 10 * place + 1_000 * (place >= 8),
                        "duration": 1,
                        "function": "cudaMemcpyAsync",
                        "thread": 7,
                    }
                ],
            )
            writer.add("memcpy", [{**both, "start": time, "duration": 180_000, "bytes": 64, "source_kind": "pinned",
                                   "kind": "HtoD" if place < 8 else "DtoH", "destination_kind": "device", "asynchronous": True,
                                   "context": 1, "stream": 7, "device": 0}])  # fmt: skip
        for place in range(kernels):
            launches(writer, 900_200 + 10 * place, 2_600_000 + place * 150_000, ["add"], 100 + place)

    assert announced(tmp_path / "t.warp", build) == expected


def test_turns_of_as_many_parts_each_are_turns_though_some_have_more_work_beside_them(tmp_path):
    """Four layers a turn; after some turns, before the wait, something is evaluated."""

    def build(writer):
        time, more = 1_000_000, {1: ["evaluate", "print"], 2: ["save"], 5: ["log"]}
        for turn in range(7):
            launches(writer, time, 10 * time, ["begin"], turn * 100)
            time += 20_000
            for layer in range(4):
                launches(writer, time, 10 * time, ["a", "b", "c", "a"], 1 + turn * 100 + layer * 4)
                time += 80_000
            launches(writer, time, 10 * time, ["end"], 20 + turn * 100)
            time += 20_000
            launches(writer, time, 10 * time, more.get(turn, []), 21 + turn * 100)
            time += 40_000
            waited(writer, time, 50_000)
            time += 100_000

    assert announced(tmp_path / "t.warp", build) == [("repetition between waits", 7)]
