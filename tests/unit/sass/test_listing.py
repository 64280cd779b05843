"""The rows of `sass list`."""

from __future__ import annotations

from tests.unit.sass import kernels
from warpsight.sass.listing import listing


def test_a_barrier_s_number_is_no_place_in_the_code() -> None:
    """`BAR.SYNC.DEFER_BLOCKING 0x0` does not lead to the kernel's first instruction."""
    code = kernels.kernel("mbarrier_wait")
    targets = {code.instructions[row.index].operation: row.target for row in listing(code).rows}
    assert targets["BAR"] is None
    assert targets["BSSY"] is not None
    assert {name for name, target in targets.items() if target is not None} <= {"BRA", "CALL", "BSSY", "JMP"}
