"""Ranges to reserve cover all memory, share granules, and never mix kinds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warpsight.replay.capsule import manifest as m
from warpsight.replay.capsule.checks import GRANULE
from warpsight.replay.capsule.layout import mappings

GAPS_AND_SIZES = st.lists(
    st.tuples(st.integers(0, 8 << 20), st.integers(1, 8 << 20)), min_size=1, max_size=20
)


@given(GAPS_AND_SIZES)
def test_mappings_cover_every_allocation_once(spans: list[tuple[int, int]]) -> None:
    at, held = 0x7F00_0000_0000, []
    for gap, size in spans:
        held.append(m.Allocation(at + gap, size, "malloc"))
        at += gap + size
    found = mappings(held)
    ends = found["address"] + found["size"]
    assert not (found["address"] % GRANULE).any() and not (found["size"] % GRANULE).any()
    assert (found["address"][1:] > ends[:-1]).all()
    for one in held:
        inside = (found["address"] <= one.address) & (one.address + one.size <= ends)
        assert inside.sum() == 1


def test_host_memory_is_mapped_by_pages() -> None:
    found = mappings(
        [m.Allocation(0x7F00_0000_1800, 100, "host"), m.Allocation(0x7F00_0020_0000, 100, "pool")]
    )
    assert found.tolist() == [(0x7F00_0000_1000, 4096, 1, 0), (0x7F00_0020_0000, GRANULE, 0, 0)]
