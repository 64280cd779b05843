"""The library that traces events, on a machine without a GPU: threads of a stand-in write records as the patches do."""

from __future__ import annotations

import lzma
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.integration.recorded import TIMEOUT
from tests.standin import recording
from warpsight.device_code.cubin import Cubin
from warpsight.errors import WarpsightError
from warpsight.race import check as race_check
from warpsight.race.suspects import EVENTS, ON_DEVICE, RACECHECK
from warpsight.sass.events import tracing
from warpsight.sass.events.trace import EventTrace
from warpsight.sass.events.tracing import TraceSelection, request
from warpsight.sass.races.compiled import compiler
from warpsight.sass.races.detect import checked
from warpsight.sass.races.on_device import REASONS

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "tests" / "standin" / "sanitizer"
CUBIN = ROOT / "tests" / "golden" / "cubins" / "polls.plain.sm_100.cubin.xz"


@dataclass(frozen=True)
class Traced:
    """A program's end, and its event file."""

    code: int
    output: str
    files: list[Path]

    @property
    def trace(self) -> EventTrace:
        (file,) = self.files
        return EventTrace(file)


@dataclass(frozen=True)
class Programs:
    """The built stand-in."""

    folder: Path
    library: Path
    cubin: Path
    kernel: str

    def run(
        self,
        folder: Path,
        *steps: str,
        selection: TraceSelection | None = None,
        more: Sequence[str] = (),
        **variables: str,
    ) -> Traced:
        """Trace a program of these steps; a launch names the cubin's kernel as `K`."""
        chosen = selection or TraceSelection()
        lines = request(chosen, folder / "events", self.folder / "libsanitizer-public.so", [Path("/p.cubin")])
        written = [
            step.replace("load", f"load:{self.cubin}").replace(":K:", f":{self.kernel}:") for step in steps
        ]
        environment = {
            **os.environ, **variables, "CUDA_INJECTION64_PATH": str(self.library), "WARPSIGHT_EVENTS": "\n".join([*lines, *more]),
        }  # fmt: skip
        done = subprocess.run([self.folder / "program", *written], env=environment, capture_output=True, text=True,
                              timeout=TIMEOUT, check=False)  # fmt: skip
        return Traced(done.returncode, done.stdout + done.stderr, sorted(folder.glob("events.*")))


@pytest.fixture(scope="module")
def programs(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Programs:
    events = library.with_name("libwarpsight_events.so")
    if not events.is_file():
        pytest.skip("this build has no libwarpsight_events.so (no Sanitizer headers)")
    folder = tmp_path_factory.mktemp("sanitizer")
    if recording.compiler() is None:
        pytest.skip("building the stand-in needs a C++ compiler")
    subprocess.run([SOURCES / "build.sh", folder], check=True)
    cubin = folder / "module.cubin"
    cubin.write_bytes(lzma.decompress(CUBIN.read_bytes()))
    kernel = next(iter(Cubin.open(cubin).sections.values()))
    return Programs(folder, events, cubin, kernel)


def test_nothing_is_lost_in_a_ring_that_is_too_small(programs: Programs, tmp_path: Path) -> None:
    done = programs.run(tmp_path, "load", "launch:K:4:60000", selection=TraceSelection(ring_mib=1))
    assert (done.code, done.output) == (0, "patched 1\n")
    trace = done.trace
    assert trace.file.complete
    assert trace.notes == []
    events = trace.of_launch(0)
    assert len(events) == 240_000
    for warp in range(4):
        own = events.take(events.warp == warp)
        assert own.time.tolist() == [1000 + number for number in range(60_000)]  # each in its order, once
        assert own.operand(0)[:, 0].tolist() == [4 * number for number in range(60_000)]
    assert (np.diff(events.sequence.astype(np.int64)) == 5).all()


def test_what_a_hung_program_did_is_written_before_it_is_ended(programs: Programs, tmp_path: Path) -> None:
    done = programs.run(tmp_path, "load", "launch:K:2:10", "written", "quit")
    assert done.code == 5
    assert len(done.trace.events) == 20


def test_a_word_of_zero_is_a_word(programs: Programs, tmp_path: Path) -> None:
    events = programs.run(tmp_path, "load", "launch:K:1:1").trace.events
    assert (events.operand(0)[0].any(), int(events.pc[0]), int(events.block[0])) == (False, 0, 0)


def test_modules_without_a_chosen_kernel_stay_as_they_are(programs: Programs, tmp_path: Path) -> None:
    done = programs.run(tmp_path, "load", "launch:K:1:10", selection=TraceSelection(kernels=("no_such*",)))
    assert done.output == "patched 0\n"
    assert len(done.trace.events) == 0


def test_launches_are_chosen_by_their_number(programs: Programs, tmp_path: Path) -> None:
    steps = ["load", *["launch:K:1:7"] * 4]
    trace = programs.run(tmp_path, *steps, selection=TraceSelection(launches=(1, 3))).trace
    assert [launch.index for launch in trace.launches.values()] == [1, 2]
    assert len(trace.events) == 14


@pytest.mark.parametrize(
    ("what", "said"),
    [("refuse_subscribe", "another tool may be at work"), ("refuse_patches", "patches cannot be loaded"),
     ("refuse_memory", "no memory for the ring")],
)  # fmt: skip
def test_what_the_sanitizer_refuses_is_said_and_the_program_runs(
    programs: Programs, tmp_path: Path, what: str, said: str
) -> None:
    done = programs.run(tmp_path, "load", "launch:K:2:10", STANDIN=what)
    assert done.code == 0
    assert any(said in note for note in done.trace.notes)
    assert len(done.trace.events) == 0


def test_a_library_that_is_not_there_is_said(programs: Programs, tmp_path: Path) -> None:
    lines = request(TraceSelection(), tmp_path / "events", Path("/nowhere/libsanitizer-public.so"), [])
    environment = {
        **os.environ,
        "CUDA_INJECTION64_PATH": str(programs.library),
        "WARPSIGHT_EVENTS": "\n".join(lines),
    }
    command = [programs.folder / "program", f"load:{programs.cubin}"]
    assert (
        subprocess.run(command, env=environment, capture_output=True, timeout=TIMEOUT, check=False).returncode
        == 0
    )
    assert any("/nowhere" in note for note in EventTrace(next(tmp_path.glob("events.*"))).notes)


def test_a_program_that_ends_without_exit_handlers_keeps_what_was_written(
    programs: Programs, tmp_path: Path
) -> None:
    done = programs.run(tmp_path, "load", "launch:K:4:60000", "quit", selection=TraceSelection(ring_mib=1))
    assert done.code == 5
    trace = done.trace
    assert not trace.file.complete
    assert any("before its trace did" in note for note in trace.notes)
    assert 0 < len(trace.events) <= 240_000


def test_races_of_the_device_are_told_with_their_places(programs: Programs, tmp_path: Path) -> None:
    done = programs.run(tmp_path, "load", "launch:K:2:4", selection=TraceSelection(check=True, shadow_mib=64))
    (race,), notes = (found := checked(done.files)).races, found.notes
    assert (race.kernel, race.launch, race.space, race.address) == (
        programs.kernel,
        0,
        "global",
        0x7F0000000010,
    )
    assert (race.count, race.reason) == (4, REASONS[4])
    assert [(side.block, side.thread) for side in (race.first, race.second)] == [(3, 37), (0, 1)]
    assert (race.first.operation, race.second.operation) == ("store", "load")
    assert race.first.place == race.second.place
    assert race.first.place.function == programs.kernel
    assert notes == (
        "accesses were not checked for lack of shadow memory; --shadow-mib adds some (at least 4)",
    )


def test_without_memory_for_the_shadow_the_program_runs(programs: Programs, tmp_path: Path) -> None:
    done = programs.run(
        tmp_path, "load", "launch:K:2:4", selection=TraceSelection(check=True), STANDIN="refuse_shadow"
    )
    assert done.code == 0
    (file,) = done.files
    assert any("no memory for race detection" in note for note in checked([file]).notes)


def test_race_check_looks_on_the_device_where_the_trace_would_be_too_large(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "architectures", lambda: [90])
    monkeypatch.setattr(tracing, "assemble", lambda *_: [Path("/p.cubin")])
    monkeypatch.setattr(tracing, "injected_library", lambda: programs.library)
    monkeypatch.setattr(tracing, "sanitizer_library", lambda: programs.folder / "libsanitizer-public.so")
    monkeypatch.setattr(race_check, "sanitize", _without_racecheck)
    steps = [f"load:{programs.cubin}", f"launch:{programs.kernel}:2:20000"]
    program = [str(programs.folder / "program"), *steps]
    small = race_check.check(program)
    assert [(arm.name, arm.findings) for arm in small.arms] == [(EVENTS, 0), (RACECHECK, None)]
    monkeypatch.setattr(race_check, "LARGEST_TRACE", 1 << 16)
    large = race_check.check(program)
    (suspect,) = large.suspects
    assert [(arm.name, arm.findings) for arm in large.arms] == [(ON_DEVICE, 1), (RACECHECK, None)]
    assert suspect.found_by == (ON_DEVICE,)
    assert any("larger than" in note for note in large.arms[0].notes)


def _without_racecheck(*_: object) -> None:
    raise WarpsightError("compute-sanitizer was not found")


PTX = """.version 7.8
.target sm_90
.address_size 64
.file 1 "scale.cu"
.visible .entry {kernel}(.param .u64 {kernel}_param_0)
{{
\t.reg .b32 %r<3>;
\t.reg .b64 %rd<3>;
\tld.param.u64 %rd1, [{kernel}_param_0];
\t.loc 1 7 3
\tst.global.u32 [%rd1+4], 1;
{more}
\tret;
}}
"""
#: In place of ptxas: the code is a module that is at hand, with the marks that the PTX asks for.
ASSEMBLER = """#!{python}
import re, sys
source, target = sys.argv[-3], sys.argv[-1]
text = open(source).read()
assert "call ws_compiled_global" in text and ".visible .global .align 8 .u64 ws_places;" in text
mark = re.search(r"ws_module_\\d+", text)[0]
open(target, "wb").write(open({cubin!r}, "rb").read() + mark.encode() + b"\\0")
"""


def _served(programs: Programs, folder: Path, monkeypatch: pytest.MonkeyPatch, *, more: str = "") -> Traced:
    """A program that loads PTX and launches its kernel, with a launcher that compiles checks into modules."""
    tools = folder / "tools"
    tools.mkdir()
    tool = tools / "ptxas"
    tool.write_text(ASSEMBLER.format(python=sys.executable, cubin=str(programs.cubin)))
    tool.chmod(0o755)
    monkeypatch.setattr(compiler, "find_tool", lambda _: tool)
    source = folder / "module.ptx"
    source.write_text(PTX.format(kernel=programs.kernel, more=more))
    bytes_made = programs.cubin.stat().st_size + len("ws_module_1") + 1
    steps = (f"cuda:{programs.folder / 'libcuda.so.1'}", f"image:{source}:{bytes_made}", "launch:K:2:3")
    with compiler.serving(tracing.shipped_ptx("compiled_checks"), [90]) as server:
        assert server.lines
        return programs.run(
            folder, *steps, selection=TraceSelection(check=True, shadow_mib=64), more=server.lines
        )


def test_a_module_is_replaced_by_one_with_checks_whose_races_have_its_lines(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = _served(programs, tmp_path, monkeypatch)
    assert (done.code, done.output) == (0, "replaced\npatched 0\n")
    assert not done.trace.notes
    launch = done.trace.launches[0]
    assert launch.said["compiled"] is True
    found = checked(done.files)
    (race,) = found.races
    assert race.count == 3
    assert race.first.frames[0].file == "scale.cu"
    assert race.second.frames[0].line == 7
    assert race.second.sass == "st.global.u32 [%rd1+4], 1"


def test_a_module_that_may_wait_for_other_threads_stays_as_it_is(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = "$again:\n\tld.volatile.global.u32 %r1, [%rd1];\n\t.reg .pred %p1;\n\tsetp.eq.u32 %p1, %r1, 0;\n\t@%p1 bra $again;"
    done = _served(programs, tmp_path, monkeypatch, more=loop)
    assert (done.code, done.output) == (0, "kept\npatched 0\n")


def test_a_launcher_that_is_gone_leaves_modules_as_they_are(programs: Programs, tmp_path: Path) -> None:
    source = tmp_path / "module.ptx"
    source.write_text(PTX.format(kernel=programs.kernel, more=""))
    done = programs.run(
        tmp_path, f"image:{source}:0", selection=TraceSelection(check=True, shadow_mib=64),
        more=["compiler=/nowhere/compiler", "architecture=90"],
    )  # fmt: skip
    assert (done.code, done.output) == (0, "kept\npatched 0\n")
