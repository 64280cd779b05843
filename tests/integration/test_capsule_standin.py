"""Work cut out of a program, on a machine without a GPU: a stand-in's kernels run on the CPU under the real library."""

# ruff: noqa: F811 - the fixture is imported

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from tests.integration.capsule_programs import (  # noqa: F401 - a fixture
    COUNT,
    Programs,
    floats,
    programs,
    the_output,
)
from warpsight.replay.capsule import manifest as m


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


@pytest.mark.parametrize(
    ("options", "steps", "standin", "message"),
    [
        ("", ["child"], "", "node of type 4"),
        ("--launch 0..2", ["add", "host", "add"], "", "cuLaunchHostFunc is in the range"),
        ("", ["add"], "managed", "managed memory, which cannot be cut out"),
        ("", ["add"], "no_subscribe", "another profiler"),
        ("-k nope", ["add"], "", "no kernel matched nope; launched were: add_listed"),
        ("-k add* --launch 9", ["add"], "", "occurred 1 times"),
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


def test_parameters_that_look_like_an_address_together_are_said(programs: Programs, tmp_path: Path) -> None:
    """The count and the value of a fill are eight bytes, which the driver takes for an address of its own."""
    held = programs.record(tmp_path, "-k fill*", "fill:3", standin="foreign").capsule.manifest
    assert len(held.operations) == 1
    assert held.incomplete[0].startswith("parameter at 0 of fill_target may be an address of memory")


def test_a_kernel_is_told_from_one_of_the_same_name(programs: Programs, tmp_path: Path) -> None:
    """By the other kernels of their modules, when they were loaded before the range."""
    frame = ["range:warpsight:frame", "add", "end:warpsight:frame"]
    capsule = programs.record(tmp_path, "--frame 0", "add", *frame, standin="twins").capsule
    (module,) = capsule.manifest.modules
    assert capsule.bytes_of(module.image) == (programs.folder / "module.cubin").read_bytes()


def test_without_room_on_the_gpu_memory_goes_to_the_host_at_once(programs: Programs, tmp_path: Path) -> None:
    capsule = programs.record(tmp_path, "", "add", standin="no_room").capsule
    assert floats(capsule, the_output(capsule), "after")[1] == 5.0


@pytest.mark.parametrize(("step", "size"), [("big", 9 << 20), ("huge", 80 << 20)])
def test_much_memory_without_room_on_the_gpu_is_kept_on_the_host_and_written_later(
    programs: Programs, tmp_path: Path, step: str, size: int
) -> None:
    done = programs.record(tmp_path, "-k add*", step, standin="no_room")
    output = the_output(done.capsule)
    found = floats(done.capsule, output, "after")
    assert output.size == size and len(found) * 4 == output.size
    assert found[:1000].tolist() == [4 * i + 1 for i in range(1000)] and not found[1000:].any()


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
