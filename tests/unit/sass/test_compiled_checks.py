"""Race checks that are compiled into PTX: what is found in a module, and what is put before each access, barrier and fence."""

from __future__ import annotations

import re
import struct
import subprocess
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pytest
import zstandard

from warpsight.device_code.disassembly import find_tool
from warpsight.device_code.fatbin import FatbinError, entries, ptx_for
from warpsight.sass.events.tracing import shipped_ptx
from warpsight.sass.races.compiled import compiler
from warpsight.sass.races.compiled.instructions import (
    ACQUIRES,
    ATOMIC,
    BLOCK,
    COPIES,
    DEVICE,
    PROXY_FENCE,
    READS,
    RELEASES,
    SCOPE,
    WRITES,
    Arrival,
    Fence,
    Order,
    PtxAccess,
    UnsuitableModuleError,
    meaning,
)
from warpsight.sass.races.compiled.instrument import Instrumented, instrumented
from warpsight.sass.races.compiled.statements import statements, without_comments

HEADER = ".version 7.8\n.target sm_90\n.address_size 64\n"


def kernel(body: str, head: str = "") -> str:
    """A module with one kernel."""
    return f"""{HEADER}
.visible .entry k(.param .u64 k_param_0){head}
{{
.reg .pred %p<4>;
.reg .b32 %r<9>;
.reg .b64 %rd<9>;
.shared .align 4 .b8 tile[256];
{body}
ret;
}}
"""


@pytest.fixture(scope="module")
def checks() -> str:
    return shipped_ptx("compiled_checks").read_text()


def made(body: str, checks: str) -> Instrumented:
    return instrumented(kernel(body), checks)


def calls(found: Instrumented) -> list[tuple[str, dict[str, str]]]:
    """The function of each call in the kernel, and what its parameters are set to."""
    text = found.ptx[found.ptx.index(".entry k(") :]
    called = []
    for block in re.findall(r"\{\n\.reg \.pred %ws_off;.*?\n\}\n", text, re.DOTALL):
        values = dict(re.findall(r"st\.param\.\w+ \[ws_p(\d)\], ([^;]+);", block))
        called.append((re.findall(r"call ws_compiled_(\w+)", block)[0], values))
    return called


@pytest.mark.parametrize(
    ("instruction", "space", "size", "flags", "facts"),
    [
        ("ld.global.u32 %r1, [%rd1]", "global", 4, READS, 0),
        ("ld.global.nc.v4.f32 {%r1,%r2,%r3,%r4}, [%rd1]", "global", 16, READS, 0),
        ("st.shared.v2.b64 [%r1], {%rd1,%rd2}", "shared", 16, WRITES, 0),
        ("st.shared::cta.u8 [%r1+3], %r2", "shared", 1, WRITES, 0),
        ("ld.f64 %rd2, [%rd1]", "generic", 8, READS, 0),
        ("ld.volatile.global.u16 %r1, [%rd1]", "global", 2, READS, DEVICE << SCOPE),
        ("ld.volatile.shared.u32 %r1, [%r2]", "shared", 4, READS, 0),
        ("st.relaxed.cta.global.b128 [%rd1], %rd2", "global", 16, WRITES, BLOCK << SCOPE),
        ("st.release.gpu.global.u32 [%rd1], %r1", "global", 4, WRITES, DEVICE << SCOPE | DEVICE << RELEASES),
        ("atom.global.add.f16x2 %r1, [%rd1], %r2", "global", 4, READS | WRITES, DEVICE << SCOPE | 1 << ATOMIC),
        ("atom.cta.global.cas.b32 %r1, [%rd1], %r2, %r3", "global", 4, READS | WRITES, BLOCK << SCOPE | 1 << ATOMIC),
        ("red.shared.add.u64 [%r1], %rd2", "shared", 8, READS | WRITES, BLOCK << SCOPE | 1 << ATOMIC),
        ("atom.acq_rel.sys.global.exch.b64 %rd1, [%rd2], %rd3", "global", 8, READS | WRITES,
         DEVICE << SCOPE | 1 << ATOMIC | DEVICE << RELEASES),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1,%r2,%r3,%r4}, [%r5]", "matrices", 16, READS, 0),
        ("cp.async.cg.shared.global [%r1], [%rd1], 16", "copy", 16, WRITES, 1 << COPIES),
    ],
)  # fmt: skip
def test_accesses_are_what_they_say(instruction: str, space: str, size: int, flags: int, facts: int) -> None:
    found = meaning(*instruction.split(" ", 1))
    assert isinstance(found, PtxAccess)
    assert (found.space, found.size, found.flags, found.facts) == (space, size, flags, facts)


def test_an_acquire_counts_behind_its_access() -> None:
    found = meaning("ld.acquire.gpu.global.u32", "%r1, [%rd1]")
    assert isinstance(found, PtxAccess)
    assert (found.facts, found.after) == (DEVICE << SCOPE, DEVICE << ACQUIRES)


@pytest.mark.parametrize(
    "instruction",
    [
        "ld.param.u64 %rd1, [k_param_0]", "st.local.u32 [%rd1], %r1", "ld.const.u32 %r1, [table]", "prefetch.global.L2 [%rd1]",
        "tex.2d.v4.f32.s32 {%r1,%r2,%r3,%r4}, [texture, {%r5,%r6}]", "cvta.to.global.u64 %rd1, %rd2", "add.s32 %r1, %r2, %r3",
        "fence.mbarrier_init.release.cluster", "st.param.b64 [param0+0], %rd1",
    ],
)  # fmt: skip
def test_what_no_other_thread_can_change_is_left_alone(instruction: str) -> None:
    assert meaning(*(instruction + " ").split(" ", 1)) is None


@pytest.mark.parametrize(
    "instruction",
    [
        "mbarrier.init.shared.b64 [%r1], 32",
        "cp.async.bulk.commit_group",
        "barrier.cluster.arrive",
        "ld.shared::cluster.u32 %r1, [%r2]",
        "wgmma.fence.sync.aligned",
        "setmaxnreg.dec.sync.aligned.u32 40",
        "novel.global.u32 %r1, [%rd1]",
    ],
)  # fmt: skip
def test_a_module_with_an_instruction_that_is_not_followed_is_left_to_patches(
    instruction: str, checks: str
) -> None:
    with pytest.raises(UnsuitableModuleError):
        made(f"{instruction};", checks)


def test_fences_and_barriers_are_what_they_say() -> None:
    both = DEVICE << RELEASES | DEVICE << ACQUIRES
    assert meaning("membar.gl", "") == meaning("fence.acq_rel.gpu", "") == Fence(both)
    assert meaning("membar.cta", "") == Fence(BLOCK << RELEASES | BLOCK << ACQUIRES)
    assert meaning("fence.acquire.gpu", "") == Fence(DEVICE << ACQUIRES)
    assert meaning("fence.proxy.async", "") == Fence(1 << PROXY_FENCE)
    assert meaning("bar.sync", "1, 64") == Order(((6, "1", "64"),), ((29, "1", "64"),))
    assert meaning("barrier.cta.sync.aligned", "%r1") == Order(((6, "%r1", "0"),), ((29, "%r1", "0"),))
    assert meaning("bar.red.popc.u32", "%r1, 0, 96, %p1") == Order(((6, "0", "96"),), ((29, "0", "96"),))
    assert meaning("bar.arrive", "2, 64") == Arrival("2")
    assert meaning("bar.warp.sync", "-1") == Order(behind=((33, "0", "0"),))
    assert meaning("cp.async.wait_group", "1") == Order(behind=((16, "1", "0"),))


def test_a_check_comes_before_each_access_with_its_number_and_address(checks: str) -> None:
    found = made("st.global.u32 [%rd1+4], %r1;\nld.shared.v2.u32 {%r1,%r2}, [tile+8];", checks)
    (first, one), (second, other) = calls(found)
    assert (first, second) == ("global", "shared")
    assert (one["1"], one["3"]) == ("1", str(WRITES | 4 << 8))
    assert (other["1"], other["3"]) == ("2", str(READS | 8 << 8))
    text = found.ptx
    assert "mov.u64 %ws_a, %rd1; add.s64 %ws_a, %ws_a, 4;" in text
    assert "mov.u64 %ws_a, tile; add.s64 %ws_a, %ws_a, 8;" in text
    assert text.index("call ws_compiled_global, (") < text.index("st.global.u32 [%rd1+4]")
    assert [site.text for site in found.kernels["k"]] == [
        "st.global.u32 [%rd1+4], %r1", "ld.shared.v2.u32 {%r1,%r2}, [tile+8]",
    ]  # fmt: skip


def test_an_address_of_32_bits_is_widened_and_a_guard_holds_for_the_check(checks: str) -> None:
    text = made("@!%p1 st.shared.u32 [%r3+-4], %r1;", checks).ptx
    assert "cvt.u64.u32 %ws_a, %r3; add.s64 %ws_a, %ws_a, -4;" in text
    label = re.search(r"@%p1 bra (\$ws_\d+);", text)
    assert label is not None
    assert text.index(f"{label[1]}:") < text.index("@!%p1 st.shared.u32")


def test_registers_of_an_inner_block_hide_those_around_it(checks: str) -> None:
    text = made("{ .reg .b64 %r3; st.shared.u32 [%r3], 0; }\nst.shared.u32 [%r3], 1;", checks).ptx
    kept = text[text.index(".entry k(") :]
    assert kept.index("mov.u64 %ws_a, %r3;") < kept.index("cvt.u64.u32 %ws_a, %r3;")


def test_sites_of_functions_come_before_those_of_each_kernel(checks: str) -> None:
    function = ".func put(.param .b64 put_param_0)\n{\n.reg .b64 %rd<2>;\nst.u32 [%rd1], 1;\nst.u32 [%rd1+4], 2;\nret;\n}\n"
    module = kernel("st.global.u32 [%rd1], 1;").replace(HEADER, HEADER + function) + kernel(
        "st.global.u32 [%rd2], 1;"
    ).replace(HEADER, "").replace(" k(", " other(")
    found = instrumented(module, checks)
    assert [site.number for site in found.kernels["k"]] == [1, 2, 3]
    assert [site.text for site in found.kernels["other"]][2] == "st.global.u32 [%rd2], 1"


def test_only_chosen_kernels_get_checks(checks: str) -> None:
    waiting = "$a:\nld.volatile.global.u32 %r1, [%rd1];\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra $a;"
    module = kernel("st.global.u32 [%rd1], 1;") + kernel(waiting).replace(HEADER, "").replace(
        " k(", " other("
    )
    found = instrumented(module, checks, lambda name: name == "k")
    assert list(found.kernels) == ["k"]
    assert "call ws_" not in found.ptx[found.ptx.index(".entry other(") :]
    for chosen in ("other", "none"):
        with pytest.raises(UnsuitableModuleError):
            instrumented(module, checks, lambda name, chosen=chosen: name == chosen)


def test_a_barrier_is_announced_before_and_behind_and_an_arrival_is_noted(checks: str) -> None:
    found = made("bar.sync 3, 64;\nbar.arrive 2, 64;", checks)
    assert [(name, values["1"]) for name, values in calls(found)] == [
        ("order", "6"),
        ("order", "29"),
        ("arrive", "2"),
    ]
    assert found.one_way == 1 << 2
    assert made("bar.arrive %r1, 64;", checks).one_way == 0xFFFF


def test_a_load_that_a_swap_in_a_loop_expects_is_as_strong_as_the_swap() -> None:
    from warpsight.sass.races.compiled.instrument import _expected

    body = """{
ld.global.u32 %r1, [%rd1];
$again:
mov.u32 %r2, %r1;
atom.global.cas.b32 %r1, [%rd1], %r2, %r3;
setp.ne.u32 %p1, %r1, %r2;
@%p1 bra $again;
ld.global.u32 %r5, [%rd2];
}"""
    found = list(statements(body))
    assert {found[at].text: scope for at, scope in _expected(found).items()} == {
        "ld.global.u32 %r1, [%rd1]": DEVICE
    }


@pytest.mark.parametrize(
    ("body", "waits"),
    [
        ("$a:\nld.volatile.global.u32 %r1, [%rd1];\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra $a;", True),
        ("$a:\natom.global.exch.b32 %r1, [%rd1], 1;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra $a;", True),
        ("ld.volatile.global.u32 %r1, [%rd1];\n$a:\nld.global.u32 %r2, [%rd1];\n@%p1 bra $a;", False),
        ("$a:\nred.global.add.u32 [%rd1], 1;\n@%p1 bra $a;", False),
    ],
)  # fmt: skip
def test_a_module_with_a_loop_that_may_wait_is_left_to_patches(body: str, waits: bool, checks: str) -> None:
    if waits:
        with pytest.raises(UnsuitableModuleError, match="wait"):
            made(body, checks)
    else:
        assert made(body, checks).kernels["k"]


def test_lines_have_the_calls_that_were_inlined(checks: str) -> None:
    name = ", ".join(str(byte) for byte in b"_Z3addiPi\0")
    body = """.loc 1 20 3
.loc 2 7 5, function_name $info, inlined_at 1 20 3
st.global.u32 [%rd1], %r1;
.loc 1 21 3
st.global.u32 [%rd2], %r1;"""
    module = f"""{kernel(body)}
.file 1 "main.cu"
.file 2 "add.h"
.section .debug_str {{ $info:
.b8 {name} }}
"""
    first, second = instrumented(module, checks).kernels["k"]
    assert first.frames == (("add(int, int*)", "add.h", 7), ("k", "main.cu", 20))
    assert second.frames == (("k", "main.cu", 21),)


def test_comments_and_braces_of_values_do_not_confuse() -> None:
    text = "/* st.global */ .global .b8 table[2] = {1, 2}; // ld.global\n.entry k() { mov.u32 %r1, {a; } }"
    plain = without_comments(text)
    assert len(plain) == len(text)
    assert [one.kind for one in statements(plain)][:3] == ["directive", "function", "open"]


def test_the_module_assembles_with_its_checks(checks: str, tmp_path: Path) -> None:
    tool = find_tool("ptxas")
    if tool is None:
        pytest.skip("no ptxas")
    body = """ld.param.u64 %rd1, [k_param_0];
mov.u32 %r1, %tid.x;
setp.lt.u32 %p1, %r1, 16;
@%p1 st.global.u32 [%rd1+4], %r1;
ld.v2.u32 {%r2, %r3}, [%rd1];
mov.u32 %r4, tile;
cp.async.ca.shared.global [%r4], [%rd1], 16;
cp.async.commit_group;
cp.async.wait_group 0;
bar.sync 0;
bar.arrive 1, 64;
atom.acq_rel.gpu.global.add.u32 %r5, [%rd1], 1;
ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r6}, [%r4];
membar.gl;"""
    source = tmp_path / "module.ptx"
    source.write_text(made(body, checks).ptx)
    done = subprocess.run([tool, "-arch=sm_90", source, "-o", tmp_path / "module.cubin"], capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr


class _Driver:
    """NVML as far as it says which CUDA the driver is for."""

    def __init__(self, version: int) -> None:
        self.nvmlSystemGetCudaDriverVersion_v2 = lambda: version


@pytest.mark.parametrize(
    ("driver", "release", "served"),
    [(13000, "13.0", True), (13010, "12.9", True), (13000, "13.2", True), (12080, "13.0", False)],
)
def test_code_that_the_driver_would_refuse_is_not_offered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, driver: int, release: str, served: bool
) -> None:
    """The program would fail where it loads a module."""
    tool = tmp_path / "ptxas"
    tool.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {release}, V{release}.88'\n")
    tool.chmod(0o755)
    monkeypatch.setattr(compiler, "find_tool", lambda _: tool)
    monkeypatch.setattr(compiler.nvml, "session", lambda: nullcontext(_Driver(driver)))
    monkeypatch.setattr(compiler.nvml, "ask", lambda _, function: function())
    with compiler.serving(shipped_ptx("compiled_checks"), [90]) as server:
        assert bool(server.lines) == served
        assert bool(server.notes()) != served


def test_two_kinds_of_gpus_are_left_to_patches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "find_tool", lambda _: Path("ptxas"))
    monkeypatch.setattr(compiler, "_loads_code_of", lambda _: True)
    with compiler.serving(shipped_ptx("compiled_checks"), [90]) as server:
        assert server.lines
        assert server.notes() == []
    with compiler.serving(shipped_ptx("compiled_checks"), [80, 90]) as server:
        assert server.lines == []
        (note,) = server.notes()
        assert "several architectures" in note


def test_it_is_said_why_modules_are_left_to_patches(tmp_path: Path, checks: str) -> None:
    tool = tmp_path / "ptxas"
    tool.write_text("#!/bin/sh\nexit 1\n")
    tool.chmod(0o755)
    served = compiler._Compiler(tool, checks, 90, ["k"])
    waiting = "$a:\nld.volatile.global.u32 %r1, [%rd1];\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra $a;"
    for body in (waiting, waiting, "wgmma.fence.sync.aligned;", "st.global.u32 [%rd1], 1;"):
        assert served.compiled(kernel(body).encode(), 1) is None
    assert served.compiled(b"\x7fELF" + bytes(60), 1) is None
    assert (
        served.compiled(kernel("ret;").replace(" k(", " other(").encode(), 1) is None
    )  # has nothing to check
    (note,) = compiler.Serving(patched=served.patched).notes()
    assert note == (
        "checks were patched into 5 modules, not compiled, which is slower: a loop that may wait for other threads (2); "
        "instruction wgmma.fence.sync.aligned (1); ptxas refused the checks (1); no PTX in the program (1)"
    )


def _entry(kind: int, architecture: int, stored: bytes, *, flags: int = 0, whole: int = 0) -> bytes:
    packed = len(stored) if whole else 0
    return (
        struct.pack(
            "<HHIQIIHHIQQQQ", kind, 0x101, 64, len(stored), packed, 64, 8, 7, architecture, 0, flags, 0, whole
        )
        + stored
    )


def _fatbin(*parts: bytes) -> bytes:
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, sum(map(len, parts))) + b"".join(parts)


def test_the_newest_ptx_that_a_gpu_can_run_is_taken_from_a_fat_binary() -> None:
    text = kernel("ret;").encode()
    old, new = text.replace(b"sm_90", b"sm_80"), text.replace(b"sm_90", b"sm_120")
    packed = zstandard.ZstdCompressor().compress(text)
    older = pa.Codec("lz4_raw").compress(old, asbytes=True)
    image = _fatbin(
        _entry(1, 80, older, flags=0x2000, whole=len(old)),
        _entry(1, 90, packed, flags=0x8000, whole=len(text)), _entry(1, 120, new),
    )  # fmt: skip
    assert [(entry.kind, entry.architecture) for entry in entries(image)] == [
        ("ptx", 80),
        ("ptx", 90),
        ("ptx", 120),
    ]
    assert ptx_for(image, 90) == text.decode().rstrip("\0 ")
    assert "sm_80" in (ptx_for(image, 86) or "")
    assert ptx_for(image, 75) is None
    assert ptx_for(text + b"\0", 90) is not None
    assert ptx_for(text, 80) is None


@pytest.mark.parametrize(
    ("parts", "taken"),
    [
        ([("code", 90, 0), ("ptx", 90, 0)], 90),
        ([("code", 90, 0), ("ptx", 80, 0)], None),  # what is meant for sm_90 alone may be missing there
        ([("code", 80, 0), ("ptx", 80, 0)], 80),  # the driver compiles the PTX
        ([("code", 90, 0x100000), ("code", 90, 0), ("ptx", 90, 0)], None),  # code of sm_90a comes first
        ([("code", 90, 0x100000), ("ptx", 90, 0x100000), ("ptx", 90, 0)], 90),
        ([("ptx", 100, 0x100000), ("ptx", 90, 0)], 90),
        ([("code", 90, 0), ("code", 90, 0), ("ptx", 90, 0)], None),  # two modules in one
        ([("code", 90, 0), ("ptx", 90, 0), ("ptx", 90, 0)], None),
        ([("code", 90, 0)], None),
        ([], None),
    ],
)  # fmt: skip
def test_only_ptx_that_stands_for_the_drivers_choice_is_taken(
    parts: list[tuple[str, int, int]], taken: int | None
) -> None:
    image = _fatbin(
        *(
            _entry(
                1 if kind == "ptx" else 2,
                architecture,
                f"{kind} {architecture} {variant}".encode(),
                flags=variant,
            )
            for kind, architecture, variant in parts
        )
    )
    found = ptx_for(image, 90)
    assert (found is None) == (taken is None)
    if found is not None and taken is not None:
        assert found.startswith(f"ptx {taken} ")
        assert found.endswith(
            str(
                max(
                    variant for kind, architecture, variant in parts if (kind, architecture) == ("ptx", taken)
                )
            )
        )


def test_a_damaged_fat_binary_is_an_error_and_unreadable_parts_are_left_out() -> None:
    whole = _fatbin(_entry(1, 90, b"not compressed", flags=0x8000, whole=100))
    assert [entry.content for entry in entries(whole)] == [None]
    assert ptx_for(whole, 90) is None
    for cut in range(16, len(whole), 7):
        with pytest.raises(FatbinError):
            list(entries(whole[:cut]))
    with pytest.raises(FatbinError):
        list(entries(b"\x7fELF" + bytes(60)))
