"""Sectors and bank passes of random requests against counting them one by one."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.unit.sass.events import Row, events
from warpsight.sass.events.memory import bank_passes, requested_sectors


def _request(chance: random.Random) -> tuple[int, dict[int, int]]:
    """Bytes of a lane, and the address of each lane that takes part: consecutive, strided, few places, or anywhere."""
    size = chance.choice((1, 2, 4, 8, 16))
    lanes = [lane for lane in range(32) if chance.random() < chance.choice((1.0, 1.0, 0.5, 0.1))] or [
        chance.randrange(32)
    ]
    base = chance.randrange(64) * size
    stride = chance.choice((0, 1, 1, 2, 3, 8, 31, 32, 33, 64))
    kind = chance.choice(("strided", "few", "anywhere"))
    places = {
        "strided": lambda lane: base + stride * lane,
        "few": lambda lane: base + chance.randrange(3) * 17,
        "anywhere": lambda lane: chance.randrange(4096),
    }[kind]
    return size, {lane: places(lane) * size for lane in lanes}


def _columns(size: int, lanes: dict[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    addresses, active = np.zeros((1, 32), np.uint64), np.zeros((1, 32), bool)
    for lane, address in lanes.items():
        addresses[0, lane], active[0, lane] = address, True
    return addresses, active, np.array([size], np.uint8)


@pytest.mark.parametrize("seed", range(4))
def test_sectors_are_those_that_hold_a_byte(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(200):
        size, lanes = _request(chance)
        bytes_ = {address + byte for address in lanes.values() for byte in range(size)}
        sectors, ideal, distinct = (int(part[0]) for part in requested_sectors(*_columns(size, lanes)))
        assert (sectors, distinct) == (len({byte // 32 for byte in bytes_}), len(bytes_))
        assert ideal == -(-len(bytes_) // 32)


@pytest.mark.parametrize("seed", range(4))
def test_passes_are_the_most_words_of_one_bank_in_each_part_of_the_warp(seed: int) -> None:
    chance = random.Random(100 + seed)
    for _ in range(200):
        size, lanes = _request(chance)
        together = 32 // max(size // 4, 1)  # lanes served at once
        passes = served = 0
        for begin in range(0, 32, together):
            words: dict[int, set[int]] = {}
            for lane in range(begin, begin + together):
                for byte in range(size if lane in lanes else 0):
                    word = (lanes[lane] + byte) // 4
                    words.setdefault(word % 32, set()).add(word)
            passes += max(map(len, words.values()), default=0)
            served += bool(words)
        assert tuple(int(part[0]) for part in bank_passes(*_columns(size, lanes))[:2]) == (passes, served)


def test_a_matrix_instruction_reads_at_the_addresses_of_eight_lanes_for_each_matrix() -> None:
    rows = {lane: 0x400 + 16 * lane for lane in range(32)}
    found = events([Row("matrix", rows, 16, second=count) for count in (1, 2, 4)]).accessing
    assert found.sum(axis=1).tolist() == [8, 16, 32]
    assert found[0, :8].all()
