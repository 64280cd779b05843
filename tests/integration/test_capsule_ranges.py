"""Ranges of a program's work cut out: launches, frames, steps and annotations, with everything in between."""

# ruff: noqa: F811 - the fixture is imported

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np
import pytest

from tests.integration.capsule_programs import (  # noqa: F401 - a fixture
    COUNT,
    Programs,
    floats,
    frame,
    programs,
    the_output,
    the_output_of_last,
)
from warpsight.replay.capsule import browsing
from warpsight.replay.capsule import manifest as m


def test_everything_between_two_launches_comes_along_in_order(programs: Programs, tmp_path: Path) -> None:
    steps = ["add", "add", "copy", "set", "fill:9", "events", "back", "wait", "add", "add"]
    capsule = programs.record(tmp_path, "-k *add* --launch 1..3", *steps).capsule
    kinds = [operation.kind for operation in browsing.overview(capsule).operations]
    assert kinds == [
        "launch", "copy", "fill", "launch", "event record", "event wait", "copy", "synchronize", "launch"
    ]  # fmt: skip
    upload = capsule.manifest.operations[1]
    assert isinstance(upload, m.Copy) and upload.host is not None
    assert np.frombuffer(capsule.bytes_of(upload.host), np.float32).tolist() == [5.0]
    fill = next(a for a in browsing.overview(capsule).memory if a.reached == "memory that is reached")
    assert 9.0 in floats(capsule, fill, "after")


def test_the_memory_of_a_later_kernel_is_as_it_was_when_the_range_began(
    programs: Programs, tmp_path: Path
) -> None:
    capsule = programs.record(tmp_path, "--launch 0..3", "fill:1", "fill:2", "add").capsule
    assert floats(capsule, the_output_of_last(capsule), "before").tolist() == [0.0] * COUNT


def test_a_graph_comes_as_its_nodes_in_order(programs: Programs, tmp_path: Path) -> None:
    capsule = programs.record(tmp_path, "-k add*", "fill:2", "graph").capsule
    (graph,) = capsule.manifest.graphs
    assert [type(node.work) for node in graph.nodes] == [m.Set, m.Launch, type(None)]
    assert [list(node.after) for node in graph.nodes] == [[], [0], [1]]
    assert isinstance(capsule.manifest.operations[0], m.GraphLaunch)


def test_ranges_and_frames_and_steps_are_cut_out(programs: Programs, tmp_path: Path) -> None:
    steps = [
        "add",
        "range:warpsight:frame",
        "add",
        "end:warpsight:frame",
        "range:warpsight:frame",
        "fill:4",
        "set",
    ]
    capsule = programs.record(tmp_path, "--frame 1", *steps, "end:warpsight:frame", "add").capsule
    assert [operation.kind for operation in browsing.overview(capsule).operations] == ["launch", "fill"]


def test_a_range_that_the_program_does_not_end_is_said_to_be_incomplete(
    programs: Programs, tmp_path: Path
) -> None:
    held = programs.record(tmp_path, "--launch 0..5", "add", "fill:1").capsule.manifest
    assert (len(held.operations), held.incomplete) == (2, ["the program ended within the range"])


@pytest.mark.parametrize(
    ("options", "questions", "callbacks"),
    [("--frame 1", 0, 0), ("-k fill* --launch 1", 0, 0), ("--launch 90", 0, 0)],
)
def test_a_launch_before_the_range_costs_little(
    programs: Programs, tmp_path: Path, options: str, questions: int, callbacks: int
) -> None:
    """CUPTI tells of launches in the range before the one that is cut out; wrappers count, once they are known to work."""
    steps = [
        *["add"] * 65,
        "questions",
        *["add"] * 5,
        "wait",
        "questions",
        "add",
        "add",
        "add",
        "fill:1",
        "fill:2",
    ]
    frame = ["range:warpsight:frame", "add", "end:warpsight:frame"]
    done = programs.record(tmp_path, options, *steps, *frame, *frame)
    before, after = (
        tuple(map(int, pair)) for pair in re.findall(r"asked (\d+) times, told (\d+)", done.output)
    )
    assert (after[0] - before[0], after[1] - before[1]) == (5 * questions, 5 * callbacks)
    if options.startswith("--frame"):
        assert the_output(done.capsule).last_writer == "add_listed"


def test_memory_made_again_in_the_range_keeps_what_the_range_leaves(
    programs: Programs, tmp_path: Path
) -> None:
    steps = ["range:r", "add", "remake", "copy", "add", "end:r"]
    capsule = programs.record(tmp_path, "--range r", *steps).capsule
    after = floats(capsule, the_output(capsule), "after")
    assert after[10] == 2 * (5 + 10) + 1 and after[11] == 45


def test_a_range_ends_with_itself_and_not_with_one_inside(programs: Programs, tmp_path: Path) -> None:
    """One of the same name, and one that the pattern names, too."""
    steps = [
        "range:layer",
        "range:layer",
        "add",
        "end:layer",
        "range:layer.1",
        "add",
        "end:layer.1",
        "add",
        "end:layer",
    ]
    capsule = programs.record(tmp_path, "--range layer*", *steps, "add").capsule
    assert len(capsule.manifest.operations) == 3


def test_several_steps_are_one_capsule_with_what_lies_between(programs: Programs, tmp_path: Path) -> None:
    steps = [
        word
        for value in (1, 2, 3, 4)
        for word in ("range:warpsight:step", f"fill:{value}", "end:warpsight:step", "set")
    ]
    held = programs.record(tmp_path, "--step 2..4", *steps).capsule.manifest
    values = [
        struct.unpack("<f", work.parameters[4:8])[0] if isinstance(work, m.Launch) else None
        for work in held.operations
    ]
    assert values == [2, None, 3] and not held.incomplete


def test_a_capture_of_the_program_is_left_whole(programs: Programs, tmp_path: Path) -> None:
    """Waiting for the GPU would break it."""
    steps = ["capture", "add", "captured", "add"]
    done = programs.record(tmp_path, "-k add*", *steps)
    assert done.code == 1 and "captures a graph in another stream" in done.output
    assert "the capture is whole" in done.output
    done = programs.record(tmp_path, "-k add* --launch 1", *steps)
    assert done.code == 0 and "the capture is whole" in done.output, done.output


def test_a_program_may_end_while_a_launch_of_the_range_is_under_way(
    programs: Programs, tmp_path: Path
) -> None:
    capsule = programs.record(tmp_path, "--range r", "range:r", "add", "exit").capsule
    assert capsule.manifest.incomplete == ["the program ended within the range"]
    assert len(capsule.manifest.operations) == 2


def test_memory_freed_in_the_range_keeps_what_it_held(programs: Programs, tmp_path: Path) -> None:
    capsule = programs.record(tmp_path, "--launch 0..2", "add", "free", "fill:1").capsule
    assert floats(capsule, the_output(capsule), "after")[2] == 9.0


@pytest.mark.parametrize(("chosen", "threads", "count"), [("0..40", 40, 40), ("20..60", 200, 40)])
def test_launches_of_many_threads_come_one_after_the_other(
    programs: Programs, tmp_path: Path, chosen: str, threads: int, count: int
) -> None:
    """As many as were asked for, whichever thread is first at the recorder."""
    held = programs.record(tmp_path, f"--launch {chosen}", f"threads:{threads}").capsule.manifest
    assert len(held.operations) == count
    assert len({operation.host_time for operation in held.operations}) == count


def test_a_program_may_end_on_a_thread_without_a_context(programs: Programs, tmp_path: Path) -> None:
    capsule = programs.record(tmp_path, "--launch 0..5", "add", "leave").capsule
    assert floats(capsule, the_output(capsule), "after")[1] == 5.0


def test_copies_say_whether_the_host_has_pinned_memory(programs: Programs, tmp_path: Path) -> None:
    held = programs.record(tmp_path, "--frame 0", *frame("copy", "pinned", "add")).capsule.manifest
    assert [work.pinned for work in held.operations if isinstance(work, m.Copy)] == [False, True]
