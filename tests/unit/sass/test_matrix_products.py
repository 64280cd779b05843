"""Matrix instructions: shapes, types, how closely they follow each other, and what waits for them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.unit.sass import kernels
from tests.unit.sass.programs import Line, graph
from warpsight.sass import tensor_memory
from warpsight.sass.code import kernels as kernels_of
from warpsight.sass.counts.kernels import Counts
from warpsight.sass.matrix_products import matrix_products, shape_of
from warpsight.ui.cli import app


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("HMMA.16816.F32.BF16 R4, R8, R12, R4", (16, 8, 16)),
        ("HMMA.1688.F32.TF32 R4, R8, R12, R4", (16, 8, 8)),
        ("IMMA.8832.S8.S8 R4, R8, R12, R4", (8, 8, 32)),
        ("BMMA.168256.AND.POPC R4, R8, R12, R4", (16, 8, 256)),
        ("DMMA.8x8x4 R4, R8, R12, R4", (8, 8, 4)),
        ("HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], R24, gsb0", (64, 128, 16)),
        ("UTCHMMA gdesc[UR8], gdesc[UR6], tmem[UR4], tmem[UR2], idesc[UR3], UPT", None),
    ],
)
def test_shapes_are_in_the_name(text: str, shape: tuple[int, int, int] | None) -> None:
    flow = graph([Line(text)])
    assert shape_of(flow.instructions[0]) == shape


def test_every_matrix_instruction_of_a_cubin_is_listed_with_its_operations() -> None:
    for code in kernels_of(kernels.module("matrix_products.plain.sm_90")):
        wanted = [one.offset for one in code.instructions[: code.length] if "MMA" in one.operation]
        counts = {offset // 16: Counts() for offset in wanted}
        for one in counts.values():
            one.add({"inst_executed": 3})
        found = matrix_products(code, counts)
        assert [one.offset for one in found.products] == wanted
        for one in found.products:
            assert one.shape is not None and one.operations
            warps = 4 if "GMMA" in one.text else 1
            assert one.operations * warps == 2 * one.shape[0] * one.shape[1] * one.shape[2]
            assert one.executions == 3
        assert found.operations == 3 * sum(one.operations or 0 for one in found.products)


def test_it_is_written_as_a_table_and_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernels.module("matrix_products.plain.sm_90")
    path = tmp_path / "m.cubin"
    path.write_bytes(kernels.image("matrix_products.plain.sm_90"))
    name = kernels_of(kernels.module("matrix_products.plain.sm_90"))[0].name
    assert app.main(["sass", "mma", str(path), name]) == 0
    assert "instruction" in capsys.readouterr().out
    assert app.main(["sass", "mma", str(path), name, "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"kernel", "products", "tensor_memory", "operations"}


_PRODUCT = "UTCHMMA gdesc[UR8], gdesc[UR12], tmem[UR10], tmem[UR20], idesc[UR21], UP0"


@pytest.mark.parametrize(
    ("operation", "value", "shape", "types"),
    [  # as tcgen05.mma is given them
        ("UTCHMMA", 1 << 4 | 1 << 7 | 1 << 10 | 128 // 8 << 17 | 128 // 16 << 24, (128, 128, 16), ("F32", "BF16")),
        ("UTCHMMA", 1 << 4 | 2 << 7 | 2 << 10 | 64 // 8 << 17 | 128 // 16 << 24, (128, 64, 8), ("F32", "TF32")),
        ("UTCHMMA", 1 << 2 | 0 << 4 | 256 // 8 << 17 | 64 // 16 << 24, (64, 256, 32), ("F16", "F16")),
        ("UTCIMMA", 2 << 4 | 1 << 7 | 0 << 10 | 16 // 8 << 17 | 128 // 16 << 24, (128, 16, 32), ("S32", "S8", "U8")),
        ("UTCQMMA", 1 << 4 | 5 << 7 | 1 << 10 | 8 // 8 << 17 | 256 // 16 << 24, (256, 8, 32), ("F32", "E2M1", "E5M2")),
        ("UTCHMMA", 3 << 4 | 8 << 17 | 8 << 24, None, ()), ("UTCHMMA", 1 << 4 | 5 << 7 | 8 << 17 | 8 << 24, None, ()),
        ("UTCHMMA", 1 << 4 | 8 << 24, None, ()),
    ],
)  # fmt: skip
def test_descriptors_say_shapes_and_types(
    operation: str, value: int, shape: tuple[int, int, int] | None, types: tuple[str, ...]
) -> None:
    found = tensor_memory.decode(operation, value)
    assert (found.shape if found else None, found.types if found else ()) == (shape, types)


@pytest.mark.parametrize(
    ("before", "known"),
    [
        ([Line("UMOV UR21, 0x8200490")], True), ([Line("UMOV UR21, 0x8200490"), Line("UMOV UR20, URZ")], True),
        ([Line("UMOV UR21, 0x8200490"), Line("UMOV UR21, UR4")], False), ([Line("@UP1 UMOV UR21, 0x8200490")], False),
        ([Line("UMOV UR4, 0x8200490")], False), ([Line("UIADD3 UR21, UR21, 0x1, URZ")], False),
        # Both ways set it to the same, to different constants, or only one does.
        ([Line("@P0 BRA", 3), Line("UMOV UR21, 0x8200490"), Line("BRA", 4), Line("UMOV UR21, 0x8200490")], True),
        ([Line("@P0 BRA", 3), Line("UMOV UR21, 0x8200490"), Line("BRA", 4), Line("UMOV UR21, 0x8100490")], False),
        ([Line("@P0 BRA", 2), Line("UMOV UR21, 0x8200490")], False),
    ],
)  # fmt: skip
def test_a_descriptor_counts_where_every_path_sets_the_same(before: list[Line], known: bool) -> None:
    flow = graph([*before, Line(_PRODUCT), Line("EXIT")])
    found = tensor_memory.descriptor_of(flow, flow.instructions[len(before)])
    assert (found is not None) == known
    assert found is None or found.shape == (128, 128, 16)


def test_a_product_with_block_scaling_is_not_guessed() -> None:
    scaled = _PRODUCT.replace("UTCHMMA", "UTCQMMA").replace(", UP0", ", tmem[UR6], UP0")
    flow = graph([Line("UMOV UR21, 0x8200490"), Line(scaled), Line("EXIT")])
    assert tensor_memory.descriptor_of(flow, flow.instructions[1]) is None


def test_tensor_memory_lives_from_its_allocation_to_the_nearest_free() -> None:
    texts = [
        "UMOV UR4, 0x4", "UTCATOMSWS.2CTA.FIND_AND_SET.ALIGN UP0, UR4, UR4", "LDTM.x2 R4, tmem[UR10]", "UTCATOMSWS.AND URZ, UR4",
        "UTCATOMSWS.FIND_AND_SET.ALIGN UP0, UR5, UR6", "EXIT",
    ]  # fmt: skip
    flow = graph([Line(text, stall=3) for text in texts])
    code = SimpleNamespace(graph=flow, instructions=flow.instructions, length=len(texts), demangled="k")
    found = matrix_products(code).tensor_memory  # type: ignore[arg-type]
    assert [(one.use, one.columns, one.freed, one.lifetime) for one in found] == [
        ("allocate", 128, 0x30, 6), ("load", None, None, None), ("free", None, None, None), ("allocate", None, None, None),
    ]  # fmt: skip
