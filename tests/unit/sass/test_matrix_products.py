"""Matrix instructions: shapes, types, how closely they follow each other, and what waits for them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.sass import kernels
from tests.unit.sass.programs import Line, graph
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
