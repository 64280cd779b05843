"""Work cut out of a program, on a machine without a GPU: a stand-in's kernels run on the CPU under the real library."""

from __future__ import annotations

import lzma
import os
import re
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import warpsight
from tests.integration import standin_programs
from tests.standin.recording import cuda_headers
from warpsight.replay.capsule import browsing
from warpsight.replay.capsule import manifest as m
from warpsight.replay.capsule.store import Capsule

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "tests" / "standin" / "capsule"
CUBIN = ROOT / "tests" / "standin" / "capsule" / "capsule.sm_90.cubin.xz"
COUNT = 1000


@dataclass(frozen=True)
class Done:
    """The end of `capsule record`, and what it wrote."""

    code: int
    output: str
    path: Path

    @property
    def capsule(self) -> Capsule:
        assert self.code == 0, self.output
        capsule = Capsule.open(self.path)
        capsule.verify()
        return capsule


@dataclass(frozen=True)
class Programs:
    """The built stand-in."""

    folder: Path
    library: Path

    def start(self, *arguments: str | Path, standin: str = "") -> subprocess.Popen[str]:
        """`warpsight ARGUMENTS`."""
        cubin = self.folder / "module.cubin"
        variables = {
            "CUBIN": str(cubin), "CUBIN_BYTES": str(cubin.stat().st_size), "STANDIN": standin,
            "WARPSIGHT_CUPTI": str(self.folder / "libcupti.so.13"), "WARPSIGHT_LIBRARY": str(self.library),
        }  # fmt: skip
        return subprocess.Popen(
            [sys.executable, "-m", "warpsight", *arguments],
            env={**os.environ, **variables}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def record(
        self, folder: Path, options: str, *steps: str, standin: str = "", program: tuple[str, ...] = ()
    ) -> Done:
        """`capsule record OPTIONS -- program STEPS`."""
        out = folder / "x.capsule"
        command = [
            "capsule",
            "record",
            "-o",
            out,
            *options.split(),
            "--",
            *(program or (self.folder / "program",)),
        ]
        started = self.start(*command, *steps, standin=standin)
        output, _ = started.communicate()
        assert sorted(path.name for path in folder.iterdir() if path != out) == []  # nothing is left behind
        return Done(started.returncode, output, out)


@pytest.fixture(scope="module")
def programs(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Programs:
    headers = cuda_headers()
    if headers is None or not library.with_name("libwarpsight_capsule.so").is_file():
        pytest.skip("this build has no libwarpsight_capsule.so (no CUDA headers)")
    folder = tmp_path_factory.mktemp("capsule")
    try:
        subprocess.run([SOURCES / "build.sh", folder, headers], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"building the stand-in needs a C++ compiler: {error}")
    (folder / "module.cubin").write_bytes(lzma.decompress(CUBIN.read_bytes()))
    return Programs(folder, library)


def floats(
    capsule: Capsule, part: browsing.Memory, when: str
) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.frombuffer(browsing.contents(capsule, part, when, 0, part.size), np.float32)


def the_output(capsule: Capsule) -> browsing.Memory:
    """The allocation that the kernel's second parameter names."""
    launch = next(work for work in capsule.manifest.operations if isinstance(work, m.Launch))
    address = int.from_bytes(launch.parameters[8:16], "little")
    return browsing.one(browsing.overview(capsule), hex(address))


def test_a_launch_comes_with_memory_before_and_after(programs: Programs, tmp_path: Path) -> None:
    capsule = programs.record(tmp_path, "-k add*", "add").capsule
    out = the_output(capsule)
    expected = 4 * np.arange(COUNT, dtype=np.float32) + 1
    assert floats(capsule, out, "before").tolist() == [0.0] * COUNT
    assert floats(capsule, out, "after").tolist() == expected.tolist()
    (launch,) = capsule.manifest.operations
    assert isinstance(launch, m.Launch) and (launch.grid, launch.block) == ((8, 1, 1), (128, 1, 1))
    assert capsule.manifest.functions[launch.function].name == "add_listed"
    image = capsule.bytes_of(capsule.manifest.modules[0].image)
    assert image == (programs.folder / "module.cubin").read_bytes()


def test_no_capsule_holds_secrets_of_its_command_line(programs: Programs, tmp_path: Path) -> None:
    program = ("env", "PGPASSWORD=Zq8kLmP2xR4t", str(programs.folder / "program"))
    done = programs.record(tmp_path, "-k add*", "add", program=program)
    assert done.capsule.manifest.command[:2] == ["env", "PGPASSWORD=***"]
    assert "Zq8kLmP2xR4t" not in (done.path / "capsule.json").read_text() + done.output


def test_memory_is_reached_through_memory_and_variables(programs: Programs, tmp_path: Path) -> None:
    """The inputs are found through the list of their addresses, another block through a variable."""
    held = programs.record(tmp_path, "-k add*", "add").capsule.manifest
    assert len(held.allocations) == 5
    assert {variable.name: variable.constant for variable in held.globals} == {
        "scale": False, "limits": True, "target": False
    }  # fmt: skip


def test_what_is_not_reached_stays_out_unless_all_is_asked_for(programs: Programs, tmp_path: Path) -> None:
    (tmp_path / "found").mkdir()
    (tmp_path / "all").mkdir()
    found = programs.record(tmp_path / "found", "-k fill*", "fill:3").capsule.manifest
    everything = programs.record(tmp_path / "all", "-k fill* --reach all", "fill:3").capsule.manifest
    assert (len(found.allocations), len(everything.allocations)) == (1, 5)


def test_stored_addresses_of_variables_are_relocations(programs: Programs, tmp_path: Path) -> None:
    held = programs.record(tmp_path, "-k add*", "add").capsule.manifest
    stored = [relocation for allocation in held.allocations for relocation in allocation.relocations]
    limits = next(i for i, variable in enumerate(held.globals) if variable.name == "limits")
    assert stored == [m.Relocation(16, limits, 4)]


@pytest.mark.parametrize("standin", ["", "apart"])
def test_variables_of_a_module_keep_their_contents(programs: Programs, tmp_path: Path, standin: str) -> None:
    """They are copied together where the driver allows it."""
    capsule = programs.record(tmp_path, "-k add*", "add", standin=standin).capsule
    held = {variable.name: variable for variable in capsule.manifest.globals}
    for contents in (held["scale"].before, held["scale"].after):
        assert np.frombuffer(capsule.bytes_of(contents or []), np.float32).tolist() == [2.0]
    limits = capsule.bytes_of(held["limits"].before or [])
    assert np.frombuffer(limits, np.int32).tolist()[0] == 1
    target = int.from_bytes(capsule.bytes_of(held["target"].before or []), "little")
    assert any(block.address == target for block in capsule.manifest.allocations)


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


def test_copies_say_whether_the_host_has_pinned_memory(programs: Programs, tmp_path: Path) -> None:
    held = programs.record(tmp_path, "--frame 0", *frame("copy", "pinned", "add")).capsule.manifest
    assert [work.pinned for work in held.operations if isinstance(work, m.Copy)] == [False, True]


def test_the_memory_of_a_later_kernel_is_as_it_was_when_the_range_began(
    programs: Programs, tmp_path: Path
) -> None:
    capsule = programs.record(tmp_path, "--launch 0..3", "fill:1", "fill:2", "add").capsule
    assert floats(capsule, the_output_of_last(capsule), "before").tolist() == [0.0] * COUNT


def the_output_of_last(capsule: Capsule) -> browsing.Memory:
    launch = capsule.manifest.operations[-1]
    assert isinstance(launch, m.Launch)
    return browsing.one(browsing.overview(capsule), hex(int.from_bytes(launch.parameters[8:16], "little")))


def test_a_graph_comes_as_its_nodes_in_order(programs: Programs, tmp_path: Path) -> None:
    capsule = programs.record(tmp_path, "-k add*", "fill:2", "graph").capsule
    (graph,) = capsule.manifest.graphs
    assert [type(node.work) for node in graph.nodes] == [m.Set, m.Launch, type(None)]
    assert [list(node.after) for node in graph.nodes] == [[], [0], [1]]
    assert isinstance(capsule.manifest.operations[0], m.GraphLaunch)


@pytest.mark.parametrize(
    ("options", "steps", "standin", "message"),
    [
        ("", ["child"], "", "node of type 4"),
        ("--launch 0..2", ["add", "host", "add"], "", "cuLaunchHostFunc is in the range"),
        ("", ["add"], "managed", "managed memory, which cannot be cut out"),
        ("", ["add"], "no_subscribe", "another profiler"),
        ("-k nope", ["add"], "", "no kernel matched nope; launched were: add_listed"),
        ("-k add* --launch 9", ["add"], "", "was there 1 times"),
        ("--range loss", ["add"], "", "there was no range 'loss'"),
        (
            "--frame 0 --signal USR1",
            ["range:warpsight:frame", "add"],
            "",
            "frame (ws.capture_frame()) after the signal",
        ),
        ("--launch 0..3", ["add", "quit"], "", "ended without its exit handlers"),
    ],
)
def test_what_cannot_be_cut_out_is_said_and_leaves_nothing(
    programs: Programs, tmp_path: Path, options: str, steps: list[str], standin: str, message: str
) -> None:
    done = programs.record(tmp_path, options, *steps, standin=standin)
    code = 5 if "quit" in steps else 1  # the program's own, when it failed
    assert (done.code, message in done.output) == (code, True), done.output
    assert not done.path.exists()


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


def test_parameters_that_look_like_an_address_together_are_said(programs: Programs, tmp_path: Path) -> None:
    """The count and the value of a fill are eight bytes, which the driver takes for an address of its own."""
    held = programs.record(tmp_path, "-k fill*", "fill:3", standin="foreign").capsule.manifest
    assert len(held.operations) == 1
    assert held.incomplete[0].startswith("parameter at 0 of fill_target may be an address of memory")


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


def test_a_kernel_is_told_from_one_of_the_same_name(programs: Programs, tmp_path: Path) -> None:
    """By the other kernels of their modules, when they were loaded before the range."""
    frame = ["range:warpsight:frame", "add", "end:warpsight:frame"]
    capsule = programs.record(tmp_path, "--frame 0", "add", *frame, standin="twins").capsule
    (module,) = capsule.manifest.modules
    assert capsule.bytes_of(module.image) == (programs.folder / "module.cubin").read_bytes()


def test_a_program_may_end_on_a_thread_without_a_context(programs: Programs, tmp_path: Path) -> None:
    capsule = programs.record(tmp_path, "--launch 0..5", "add", "leave").capsule
    assert floats(capsule, the_output(capsule), "after")[1] == 5.0


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


def test_without_room_on_the_gpu_memory_goes_to_the_host_at_once(programs: Programs, tmp_path: Path) -> None:
    capsule = programs.record(tmp_path, "", "add", standin="no_room").capsule
    assert floats(capsule, the_output(capsule), "after")[1] == 5.0


@pytest.mark.parametrize("values", ["none", "zeros", "random"])
def test_contents_can_stay_in_the_building(programs: Programs, tmp_path: Path, values: str) -> None:
    capsule = programs.record(tmp_path, f"-k fill* --values {values}", "copy", "fill:7").capsule
    (allocation,) = capsule.manifest.allocations
    assert allocation.after is None
    if values == "none":
        assert allocation.before is None
        return
    target = next(v for v in capsule.manifest.globals if v.name == "target")
    assert target.before is not None  # its address is kept: a replay finds the memory
    assert int.from_bytes(capsule.bytes_of(target.before), "little") == allocation.address
    scale = next(v for v in capsule.manifest.globals if v.name == "scale")
    assert scale.before is not None
    assert capsule.bytes_of(scale.before) != np.float32(2).tobytes()


def test_who_wrote_memory_last_is_known(programs: Programs, tmp_path: Path) -> None:
    capsule = programs.record(tmp_path, "-k add* --launch 1", "add", "add").capsule
    assert the_output(capsule).last_writer == "add_listed"
    assert the_output(capsule).maker == "cuMemAlloc_v2"


def allocations(capsule: Capsule) -> list[browsing.Memory]:
    held = browsing.overview(capsule)
    return [browsing.one(held, hex(block.address)) for block in capsule.manifest.allocations]


@pytest.mark.parametrize(
    ("options", "steps", "number", "value"),
    [
        ("-k fill* --when slowest", ["fill:3", "add", "fill:9", "fill:4", "fill:8"], 1, 9.0),
        ("-k fill* --when slowest --launch 2..4", ["fill:9", "fill:4", "fill:3", "fill:5", "fill:9"], 3, 5.0),
    ],
)
def test_the_slowest_launch_is_kept(
    programs: Programs, tmp_path: Path, options: str, steps: list[str], number: int, value: float
) -> None:
    done = programs.record(tmp_path, options, *steps)
    (filled,) = allocations(done.capsule)
    assert set(floats(done.capsule, filled, "after")) == {value}
    assert f"number {number} (from 0)" in done.output


@pytest.mark.parametrize(
    ("which", "value", "said"), [("hung", -1, "did not end within"), ("faulted", -2, "error 700")]
)
def test_the_launch_that_did_not_end_well_is_kept_with_what_it_read(
    programs: Programs, tmp_path: Path, which: str, value: int, said: str
) -> None:
    done = programs.record(
        tmp_path, f"-k fill* --when {which} --patience 0.1", "fill:3", "add", f"fill:{value}", "add"
    )
    (filled,) = allocations(done.capsule)
    assert set(floats(done.capsule, filled, "before")) == {3.0}
    assert done.capsule.manifest.allocations[0].after is None
    assert said in done.capsule.manifest.incomplete[0]


def test_what_the_host_needs_for_a_first_launch_makes_no_step_slow(
    programs: Programs, tmp_path: Path
) -> None:
    step = "warpsight:step"
    steps = [word for value in (2, 7, 5) for word in (f"range:{step}", f"fill:{value}", "add", f"end:{step}")]
    done = programs.record(tmp_path, "--step 1..4 --when slowest", *steps, standin="slow_first")
    assert "number 1 (from 0)" in done.output
    assert [operation.device_time for operation in done.capsule.manifest.operations] == [7_000_000] * 2


def test_the_slowest_step_is_kept(programs: Programs, tmp_path: Path) -> None:
    step = "warpsight:step"
    steps = [word for value in (2, 7, 5) for word in (f"range:{step}", f"fill:{value}", "add", f"end:{step}")]
    capsule = programs.record(tmp_path, "--step 1..4 --when slowest", *steps).capsule
    assert [operation.kind for operation in browsing.overview(capsule).operations] == ["launch", "launch"]
    assert any(7.0 in floats(capsule, block, "after") for block in allocations(capsule))


@pytest.mark.parametrize("standin", ["", "no_room"])
def test_a_step_in_which_work_hangs_is_cut_out_as_far_as_it_came(
    programs: Programs, tmp_path: Path, standin: str
) -> None:
    """Contents are those at the step's start; nothing after it is known."""
    steps = [
        word
        for value in (2, -1, 5)
        for word in ("range:warpsight:step", "add", f"fill:{value}", "add", "end:warpsight:step")
    ]
    done = programs.record(tmp_path, "--step 2 --patience 0.1", *steps, standin=standin)
    held = browsing.overview(done.capsule)
    assert [operation.what for operation in held.operations] == ["add_listed", "fill_target"]
    assert any(set(floats(done.capsule, block, "before")) == {2.0} for block in allocations(done.capsule))
    assert all(one.after is None for one in done.capsule.manifest.allocations)
    assert "did not end within 0.1 s" in done.output


def test_no_launch_that_hangs_is_said(programs: Programs, tmp_path: Path) -> None:
    done = programs.record(tmp_path, "--when hung", "add", "add")
    assert (done.code, "there 2 times, and none of them hung" in done.output) == (1, True), done.output


def test_the_python_stack_of_an_allocation_is_known(programs: Programs, tmp_path: Path) -> None:
    script = programs.folder / "train.py"
    script.write_text(
        f"""import ctypes, sys
def make_model():
    arguments = [b"train", *(word.encode() for word in sys.argv[1:])]
    library = ctypes.CDLL({str(programs.folder / "libcuda.so.1")!r}, ctypes.RTLD_GLOBAL)
    library.standin_main(len(arguments), (ctypes.c_char_p * len(arguments))(*arguments))
make_model()
"""
    )
    (tmp_path / "x").mkdir()
    capsule = programs.record(tmp_path / "x", "-k add*", "add", program=(sys.executable, str(script))).capsule
    stack = the_output(capsule).stack
    assert stack == [f"make_model ({script}:5)", f"<module> ({script}:6)"]


def test_ptx_that_was_compiled_when_it_was_loaded_comes_along(programs: Programs, tmp_path: Path) -> None:
    capsule = programs.record(tmp_path, "-k add*", "add", standin="ptx").capsule
    (source,) = capsule.manifest.modules[0].sources
    assert (source.name, capsule.bytes_of(source.contents)) == (
        "module.ptx",
        b"// add_listed\n.version 8.0\n",
    )


def test_contents_of_large_allocations_can_be_left_out(programs: Programs, tmp_path: Path) -> None:
    capsule = programs.record(tmp_path, "-k add* --limit 1", "big").capsule
    held = capsule.manifest
    assert sorted((a.size > 1 << 20, a.before is None) for a in held.allocations)[-1] == (True, True)
    assert sum(a.before is None for a in held.allocations) == 1
    assert "bytes have no contents" in held.incomplete[0]


def test_launches_count_from_the_signal_on(programs: Programs, tmp_path: Path) -> None:
    capsule = programs.record(
        tmp_path, "-k fill* --signal USR1", "fill:3", "fill:4", "signal", "fill:5", "fill:6"
    ).capsule
    (filled,) = allocations(capsule)
    assert set(floats(capsule, filled, "after")) == {5.0}


def frame(*steps: str) -> list[str]:
    return ["range:warpsight:frame", *steps, "end:warpsight:frame"]


def test_a_recording_cuts_a_frame_out_of_its_program(programs: Programs, tmp_path: Path) -> None:
    """The trace has the program's launches and copies, and none that cutting out made."""
    steps = ["add", *frame("add"), *frame("fill:4", "set", "add"), "add"]
    command: list[str | Path] = [
        "record",
        "--capsule",
        "frame:1",
        "-o",
        tmp_path / "x.warp",
        "--",
        programs.folder / "program",
    ]
    started = programs.start(*command, *steps)
    output, _ = started.communicate()
    capsule = Done(started.returncode, output, tmp_path / "x.capsule").capsule
    assert [one.kind for one in browsing.overview(capsule).operations] == ["launch", "fill", "launch"]
    with warpsight.open(tmp_path / "x.warp") as trace:
        calls = dict(
            trace.sql(
                "select function, count(*) from (from api select function union all from launch select function) group by all"
            ).fetchall()
        )
    assert {name: calls.get(name) for name in ("cuLaunchKernel", "cuMemsetD8Async", "cuMemcpyHtoDAsync_v2")} == {
        "cuLaunchKernel": 5, "cuMemsetD8Async": 1, "cuMemcpyHtoDAsync_v2": 3
    }  # fmt: skip


def test_a_trigger_of_the_ring_cuts_the_next_step_out(programs: Programs, tmp_path: Path) -> None:
    step = ["range:warpsight:step", "fill:3", "end:warpsight:step"]
    go, ready = tmp_path / "go", tmp_path / "ready"
    command: list[str | Path] = [
        "record",
        "--ring",
        "60s",
        "--capsule",
        "trigger",
        "-o",
        tmp_path / "x.warp",
        "--",
    ]
    steps = [
        *step,
        f"make:{ready}",
        f"await:{go}",
        "range:warpsight:step",
        "fill:7",
        "add",
        "end:warpsight:step",
        *step,
    ]
    started = programs.start(*command, programs.folder / "program", *steps)
    while not ready.exists():
        assert started.poll() is None, started.communicate()[0]
        time.sleep(0.01)
    program = standin_programs.child_named(started.pid, "program")
    caught = re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{program}/status").read_text())
    assert (
        caught is not None and int(caught[1], 16) & 0x7FFFFFFF == 0
    )  # a signal would interrupt the program's sleeps
    triggered = programs.start("trigger", tmp_path / "x.warp")
    assert (triggered.communicate()[0], triggered.returncode)[1] == 0
    go.touch()
    output, _ = started.communicate()
    capsule = Done(started.returncode, output, tmp_path / "x.capsule").capsule
    assert [one.kind for one in browsing.overview(capsule).operations] == ["launch", "launch"]


def test_a_hang_cuts_out_the_launch_that_hangs(programs: Programs, tmp_path: Path) -> None:
    """No step follows. The stand-in reports no work as complete, so the first launch is the one that hangs."""
    go = tmp_path / "go"
    options = ["--ring", "60s", "--trigger", "hang=1", "--capsule", "trigger", "-o", tmp_path / "x.warp"]
    steps = ["range:warpsight:step", "add", "fill:3", f"await:{go}"]
    started = programs.start("record", *options, "--", programs.folder / "program", *steps)
    while not any('"kind":"end"' in log.read_text() for log in tmp_path.glob(".x.capsule-*/*/log")):
        assert started.poll() is None, started.communicate()[0]
        time.sleep(0.01)
    go.touch()
    output, _ = started.communicate()
    capsule = Done(started.returncode, output, tmp_path / "x.capsule").capsule
    (launch,) = capsule.manifest.operations
    assert isinstance(launch, m.Launch) and capsule.manifest.functions[launch.function].name == "add_listed"
    assert len(capsule.manifest.allocations) == 5  # the inputs, through the list of their addresses
    expected = 4 * np.arange(COUNT, dtype=np.float32) + 1  # the stand-in has run it
    assert floats(capsule, the_output(capsule), "before").tolist() == expected.tolist()
    assert all(one.after is None for one in capsule.manifest.allocations)
    assert "the work hung" in output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--capsule step:0", "write step:N (from 1)"),
        ("--capsule trigger", "needs --ring"),
        ("--capsule step:3 --delay 1", "from the program's start on"),
    ],
)
def test_what_a_recording_cannot_cut_out_is_refused_before_the_program_runs(
    programs: Programs, tmp_path: Path, options: str, message: str
) -> None:
    started = programs.start(
        "record", *options.split(), "-o", tmp_path / "x.warp", "--", programs.folder / "program", "add"
    )
    output, _ = started.communicate()
    assert (started.returncode, message in output, "ran\n" in output) == (2, True, False), output
    assert list(tmp_path.iterdir()) == []
