"""Code that a driver may be given: everything in an image lies in it."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from warpsight.replay.capsule import images
from warpsight.replay.capsule import manifest as m
from warpsight.replay.capsule.checks import CapsuleError
from warpsight.replay.capsule.store import Capsule

GOLDEN = Path(__file__).parents[2] / "golden" / "capsules"


def cubin() -> bytearray:
    capsule = Capsule.open(GOLDEN / "add.capsule")
    return bytearray(capsule.bytes_of(capsule.manifest.modules[0].image))


def refused(image: bytes, kind: str = "cubin") -> bool:
    module = m.LoadedModule(kind, len(image), [])  # type: ignore[arg-type]
    try:
        images.check(Path("x.capsule"), 3, module, np.frombuffer(image, np.uint8))
    except CapsuleError:
        return True
    return False


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.capsule")), ids=lambda path: path.stem)
def test_recorded_code_is_whole(path: Path) -> None:
    capsule = Capsule.open(path)
    for module in capsule.manifest.modules:
        assert not refused(capsule.bytes_of(module.image))


def test_the_message_names_the_capsule_and_the_module() -> None:
    module = m.LoadedModule("cubin", 4, [])
    with pytest.raises(
        CapsuleError,
        match=r"^x\.capsule: the code of module 3 is damaged or forged: its image: not an ELF file$",
    ):
        images.check(Path("x.capsule"), 3, module, np.zeros(4, np.uint8))


def test_a_cubin_that_ends_early_is_refused_wherever_it_ends() -> None:
    whole = cubin()
    for end in range(0, len(whole), 97):
        assert refused(whole[:end])
    assert refused(whole[:-1])


@pytest.mark.parametrize(("field", "width"), [(40, 8), (32, 8), (58, 2), (60, 2), (54, 2), (56, 2)])
def test_tables_that_lie_elsewhere_are_refused(field: int, width: int) -> None:
    forged = cubin()
    forged[field : field + width] = b"\xff" * width
    assert refused(forged)


@pytest.mark.parametrize(("at", "field"), [(40, 24), (40, 32), (32, 8), (32, 32)])
def test_a_section_or_segment_beyond_the_end_is_refused(at: int, field: int) -> None:
    """Offset and size in the second entry of the tables of sections and of segments."""
    forged = cubin()
    begin = int.from_bytes(forged[at : at + 8], "little") + (64 if at == 40 else 0)
    for value in (len(forged) + 1, 2**63, 2**64 - 1):
        struct.pack_into("<Q", forged, begin + field, value)
        assert refused(forged)


def test_ptx_ends_with_a_zero() -> None:
    assert not refused(b".version 8.0\0", "ptx")
    assert refused(b".version 8.0", "ptx") and refused(b"", "ptx")


def test_a_fat_binary_is_as_long_as_it_says() -> None:
    head = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 4)
    assert not refused(head + bytes(4), "fatbin")
    assert (
        refused(head + bytes(3), "fatbin")
        and refused(head[:8], "fatbin")
        and refused(b"\0" + head[1:] + bytes(4), "fatbin")
    )
