"""What the injected library reads in code, against the disassembler's text and the analysis of event traces."""

from __future__ import annotations

import ctypes
import lzma
import re
from pathlib import Path

import pytest

from tests.race_model.model import Model, library
from warpsight.device_code.cubin import Cubin
from warpsight.device_code.flow.control_flow import ControlFlow
from warpsight.device_code.operations import operation
from warpsight.sass.events.trace import EventTrace
from warpsight.sass.races.accesses import BLOCK, scope_of
from warpsight.sass.races.compare_and_swap import expected_loads

GOLDEN = Path(__file__).parents[2] / "golden"
TRACES = [
    GOLDEN / "events" / "classes.events.zst", GOLDEN / "formats" / "events" / "races.events.zst",
    *sorted((GOLDEN / "events" / "race").glob("*.events.zst")),
]  # fmt: skip
_ACCESS = re.compile(r"(?:@!?U?P\w+ )?(LDG?|STG?|LDS|STS|ATOMG?|ATOMS|REDG?|LDSM|STSM|LDGSTS|UBLKCP)\b")


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return library(tmp_path_factory.mktemp("core"))


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name.split(".")[0])
def test_accesses_scopes_and_fences_are_those_of_the_text(core: ctypes.CDLL, path: Path) -> None:
    trace, model, accesses = EventTrace(path), Model(core), 0
    for module in trace.file.cubins:
        cubin = trace.cubin(module)
        assert cubin is not None
        for section, function in cubin.sections.items():
            words, _ = model.facts_of(cubin.instructions(section), cubin.architecture)
            texts = trace.instructions(module, function)
            if not texts:
                pytest.skip("no nvdisasm")
            fenced = False
            for at, word in enumerate(words.tolist()):
                text = texts.get(16 * at, "")
                match = _ACCESS.match(text)
                assert bool(word & 2047) == bool(match), text
                if match:
                    accesses += 1
                    atomic, shared = match.group(1).startswith(("ATOM", "RED")), match.group(1) == "ATOMS"
                    scope = scope_of(text, atomic, shared)
                    assert (word >> 11 & 3) == (0 if scope == 0 else 1 if scope == BLOCK else 2), text
                    assert bool(word >> 13 & 1) == atomic, text
                    assert not fenced or word >> 14 & 3, f"{function}+0x{16 * at:x}: no fence before {text}"
                    fenced = False
                fenced = bool(re.search(r"^MEMBAR", text)) or (
                    fenced and not re.match(r"BRA|EXIT|RET|BAR|SYNCS|UCGA", text)
                )
    assert accesses


def test_barriers_that_warps_arrive_at_behind_an_access_are_found(core: ctypes.CDLL) -> None:
    trace, model = EventTrace(GOLDEN / "formats" / "events" / "races.events.zst"), Model(core)
    module = next(iter(trace.file.cubins))
    cubin = trace.cubin(module)
    assert cubin is not None
    one_way = {}
    for section, function in cubin.sections.items():
        words, ways = model.facts_of(cubin.instructions(section), cubin.architecture)
        one_way[function] = (
            ways,
            [word >> 21 & 1023 for word in words.tolist() if word & 2047 and word >> 21 & 1023],
        )
    named = next(value for name, value in one_way.items() if "named_fixed" in name)
    assert named == (2, [1])
    assert all(value == (0, []) for name, value in one_way.items() if "named" not in name)


SWAPS = Path(__file__).with_name("swaps.sm_90.cubin.xz")
CUBINS = [
    SWAPS,
    *sorted((GOLDEN / "cubins").glob("kinds.plain.*.xz")),
    *sorted((GOLDEN / "cubins").glob("polls.plain.*.xz")),
]


def _cubin(path: Path) -> Cubin:
    return Cubin(lzma.decompress(path.read_bytes()), path.name)


def test_loads_that_a_compare_and_swap_in_a_loop_expects_are_found() -> None:
    cubin = _cubin(SWAPS)
    found = {}
    for section, function in cubin.sections.items():
        code = cubin.instructions(section)
        names = [operation(code[16 * at : 16 * at + 16]) for at in range(len(code) // 16)]
        loads = expected_loads(ControlFlow(code, cubin.architecture))
        found[function] = sorted((names[load], names[swap]) for load, swap in loads.items())
    assert found == {"hist": [("LDS", "ATOMS")] * 2, "user": [("LDG", "ATOMG")] * 2, "plain": []}


@pytest.mark.parametrize("path", CUBINS, ids=lambda path: path.name)
def test_what_is_part_of_an_atomic_is_the_same_here_and_there(core: ctypes.CDLL, path: Path) -> None:
    cubin, model, atomics = _cubin(path), Model(core), 0
    for section in cubin.sections:
        code = cubin.instructions(section)
        words, _ = model.facts_of(code, cubin.architecture)
        names = [operation(code[16 * at : 16 * at + 16]) or "" for at in range(len(code) // 16)]
        loads = expected_loads(ControlFlow(code, cubin.architecture))
        for load, swap in loads.items():
            assert words[load] >> 11 & 3 == words[swap] >> 11 & 3 != 0
        for at, name in enumerate(names):
            atomics += name.startswith(("ATOM", "RED")) and name not in ("REDUX", "REDAS")
            if name.startswith(("ATOM", "REDG")):
                assert words[at] & 2047, name
                assert words[at] >> 13 & 1, name
            if name == "LDS" and at not in loads:
                assert words[at] >> 11 & 3 == 0
    assert atomics


def test_copies_by_tensor_maps_are_seen_in_code(core: ctypes.CDLL) -> None:
    found = set()
    for number in range(0x200):
        code = bytes(16) + number.to_bytes(8, "little") + bytes(8)
        if core.model_copies_by_tensor_map(code, ctypes.c_uint64(len(code))):
            found.add(operation(code[16:]))
    assert found == {"UTMALDG", "UTMASTG", "UTMAREDG"}
