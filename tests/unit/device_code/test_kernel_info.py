"""What a cubin says of its kernels, whole and cut off at every byte."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from warpsight.device_code import kernel_info
from warpsight.device_code.cubin import Cubin

#: Two indirect branches at 0x100 and 0x200 with their targets, and two parameters.
TARGETS = struct.pack("<IHHI3I", 0x100, 0, 0, 3, 0x10, 0x20, 0x30) + struct.pack(
    "<IHHI1I", 0x200, 0, 0, 1, 0x40
)
PARAMETERS = [struct.pack("<IHHI", 0, 0, 0, 8 << 18), struct.pack("<IHHI", 0, 1, 8, 4 << 18 | 0x1F000)]


def entry(attribute: int, value: bytes) -> bytes:
    return struct.pack("<BBH", 4, attribute, len(value)) + value


#: A value without a size (format 3) is between.
INFO = (
    entry(0x34, TARGETS)
    + struct.pack("<BBH", 3, 0x1B, 255)
    + b"".join(entry(0x17, one) for one in PARAMETERS)
)


def cubin(info: bytes) -> Cubin:
    elf = SimpleNamespace(by_name={".nv.info.k": 5}, contents=lambda _: np.frombuffer(info, np.uint8))
    return cast(Cubin, cast(Any, SimpleNamespace(elf=elf)))


def test_targets_of_branches_and_parameters() -> None:
    assert kernel_info.indirect_targets(cubin(INFO), "k") == {0x100: (0x10, 0x20, 0x30), 0x200: (0x40,)}
    assert kernel_info.parameters(cubin(INFO), "k") == ((0, 8), (8, 4))
    assert kernel_info.indirect_targets(cubin(INFO), "other") == {}


@pytest.mark.parametrize("size", range(len(INFO)))
def test_what_is_cut_off_is_left_out(size: int) -> None:
    whole = kernel_info.indirect_targets(cubin(INFO), "k")
    found = kernel_info.indirect_targets(cubin(INFO[:size]), "k")
    assert found.items() <= whole.items()
    assert (0x100 in found) == (size >= 4 + 24) and (0x200 in found) == (size >= 4 + len(TARGETS))
    assert set(kernel_info.parameters(cubin(INFO[:size]), "k")) <= {(0, 8), (8, 4)}
