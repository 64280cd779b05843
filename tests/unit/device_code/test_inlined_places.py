"""Which instructions are in which inlined calls, by relocations of compiled files and by addresses of loaded ones."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from warpsight.device_code.cubin import Cubin
from warpsight.device_code.debug_info.dwarf_info import InfoAddress
from warpsight.device_code.elf import Elf

CUBINS = Path(__file__).resolve().parents[2] / "golden/cubins"
#: Where `consume` and, in it, `wait_until_set` are, as nvdisasm's listing with line numbers shows.
PLACES = {"sm_80": ((720, 1216), (720, 928)), "sm_90": ((704, 1200), (704, 912))}
NAMES = ["wait_until_set", "consume", "spin_flag"]


def compiled(name: str) -> bytearray:
    return bytearray(lzma.decompress((CUBINS / f"spin_flag.debug.{name}.cubin.xz").read_bytes()))


def loaded(data: bytearray, base: int) -> bytearray:
    """The file as a debugger has it: sections with code have addresses, and debug information has them as operands."""
    elf = Elf(bytes(data), "x")
    table, size = int.from_bytes(data[40:48], "little"), int.from_bytes(data[58:60], "little")
    code = elf.by_name[".text._Z9spin_flagPKiPi"]
    data[table + code * size + 16 : table + code * size + 24] = base.to_bytes(8, "little")
    info = elf.by_name[".debug_info"]
    for row in elf.relocations(".debug_info"):
        at = int(elf.sections["offset"][info]) + int(row["offset"])
        old = int(row["addend"]) or int.from_bytes(data[at : at + 8], "little")
        data[at : at + 8] = (base + old).to_bytes(8, "little")
    return data


@pytest.mark.parametrize("base", [0, 0x7F0000])
@pytest.mark.parametrize("name", list(PLACES))
def test_an_instruction_is_in_the_calls_whose_code_it_is_among(name: str, base: int) -> None:
    data = compiled(name)
    cubin = Cubin(bytes(loaded(data, base) if base else data), "x")
    (section,) = cubin.sections
    for offset in range(0, 1400, 16):
        depth = sum(begin <= offset < end for begin, end in PLACES[name])
        chain = cubin.chain(section, offset)
        if depth:
            assert chain is not None
            found = [frame.function.partition("(")[0] for frame in chain.frames]
            assert found == NAMES[2 - depth :] and chain.origin == "dwarf"
        elif chain is not None:
            assert len(chain.frames) == 1


def test_an_address_without_a_relocation_is_nowhere_in_a_compiled_file() -> None:
    assert Cubin(bytes(compiled("sm_90")), "x")._placed(InfoAddress(1, 5), {}) is None
    cubin = Cubin(bytes(loaded(compiled("sm_90"), 0x7F0000)), "x")
    (section,) = cubin.sections
    assert cubin._placed(InfoAddress(1, 0x7F0020), {1: {"symbol": 0, "addend": 7}}) == (section, 0x20)
    assert cubin._placed(InfoAddress(1, 5), {}) is None
    far = {1: {"symbol": 1 << 20, "addend": 0}}
    assert cubin._placed(InfoAddress(1, 5), far) is None


@pytest.mark.parametrize("name", list(PLACES))
def test_a_gpu_address_is_found_in_the_section_that_holds_it(name: str) -> None:
    cubin = Cubin(bytes(loaded(compiled(name), 0x7F0000)), "x")
    (section,) = cubin.sections
    size = int(cubin.elf.sections["size"][section])
    assert cubin.find(0x7F0000) == (section, 0) and cubin.find(0x7F0000 + size - 1) == (section, size - 1)
    assert cubin.find(0x7F0000 + size) is cubin.find(0x7EFFFF) is None
