"""The race detector's core against the truth: random programs of a few warps in random order, whose happens-before is worked out
event by event. What it tells is a race of that order; where barriers alone order the accesses, it tells of every racy word.
"""

from __future__ import annotations

import ctypes
import random
from dataclasses import dataclass, field

import pytest

from tests.race_model.model import (
    ATOMIC,
    BLOCK,
    BULK,
    DEVICE,
    PROXY_FENCE,
    Model,
    facts,
    library,
)

GLOBAL, SHARED = 0x7F0000000000, 0x400
READ, WRITE = 1, 2
NO_SHADOW, MANY_EPOCHS, NO_SITE = 0, 2, 5
WARPS, BLOCKS = 2, 2


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return library(tmp_path_factory.mktemp("core"))


@dataclass
class Step:
    """An instruction of a warp: what it does, on which word, and by which lane (None: the whole warp)."""

    what: str
    word: int = 0
    lane: int = 0


@dataclass
class Truth:
    """Happens-before of the steps that ran: for each access, those that are before it."""

    before: dict[tuple[int, int, int], set[int]] = field(default_factory=dict)
    accesses: list[tuple[tuple[int, int, int], bool, object]] = field(default_factory=list)
    races: set[object] = field(default_factory=set)

    def known(self, thread: tuple[int, int, int]) -> set[int]:
        return self.before.setdefault(thread, set())

    def access(self, thread: tuple[int, int, int], write: bool, place: object) -> None:
        known = self.known(thread)
        for number, (other, wrote, where) in enumerate(self.accesses):
            if where == place and (write or wrote) and other != thread and number not in known:
                self.races.add(place)
        known.add(len(self.accesses))
        self.accesses.append((thread, write, place))

    def meet(self, threads: list[tuple[int, int, int]]) -> None:
        together = set().union(*(self.known(thread) for thread in threads))
        for thread in threads:
            self.before[thread] = set(together)


#: Lanes that access words by themselves, and all that access the words of the tests.
LANES, ALL_LANES = (0, 5), (0, 1, 5)


class Run:
    """A program that runs in the model and in the truth alike."""

    def __init__(self, core: ctypes.CDLL, seed: int, kinds: str) -> None:
        self.random = random.Random(seed)
        self.model, self.truth = Model(core), Truth()
        self.model.launch((BLOCKS, 1, 1), WARPS * 32, (BLOCKS, 1, 1) if "c" in kinds else (1, 1, 1))
        self.flags: dict[int, set[int]] = {}
        self.sites: dict[str, int] = {}
        self.programs = {(b, w): self._program(kinds) for b in range(BLOCKS) for w in range(WARPS)}
        barriers = [Step("barrier"), *([Step("cluster")] if "c" in kinds else [])]
        for _ in range(self.random.randrange(4)):  # barriers come in the same order in all warps
            chosen = self.random.choice(barriers)
            blocks = range(BLOCKS) if chosen.what == "cluster" else [self.random.randrange(BLOCKS)]
            for b in blocks:
                for w in range(WARPS):
                    program = self.programs[b, w]
                    last = max(
                        (i + 1 for i, s in enumerate(program) if s.what in ("barrier", "cluster")), default=0
                    )
                    program.insert(self.random.randrange(last, len(program) + 1), chosen)

    def _program(self, kinds: str) -> list[Step]:
        choices = (
            ["read", "write"] * 3
            + (["syncwarp"] if "w" in kinds else [])
            + (["set", "get"] if "f" in kinds else [])
            + (["line_read", "line_write"] * 2 if "l" in kinds else [])
        )
        steps = [self.random.choice(choices) for _ in range(self.random.randrange(2, 7))]
        return [Step(what, self.random.randrange(3), self.random.choice(LANES)) for what in steps]

    def go(self) -> None:
        """Run all warps, a random one at each turn; barriers wait for the others."""
        arrived: dict[tuple[int, int], str] = {}
        while any(self.programs.values()):
            ready = [who for who, program in self.programs.items() if program and who not in arrived]
            if ready:
                who = self.random.choice(ready)
                step = self.programs[who][0]
                if step.what in ("barrier", "cluster"):
                    self.model.event("barrier" if step.what == "barrier" else "cluster_arrive", *who, 0)
                    arrived[who] = step.what
                else:
                    self.programs[who].pop(0)
                    self._do(who, step)
            for group in self._complete(arrived):
                self._pass(group, arrived)

    def _complete(self, arrived: dict[tuple[int, int], str]) -> list[list[tuple[int, int]]]:
        groups = [[(b, w) for w in range(WARPS)] for b in range(BLOCKS)]
        found = [group for group in groups if all(arrived.get(who) == "barrier" for who in group)]
        everyone = [who for group in groups for who in group]
        return [*found, *([everyone] if all(arrived.get(who) == "cluster" for who in everyone) else [])]

    def _pass(self, group: list[tuple[int, int]], arrived: dict[tuple[int, int], str]) -> None:
        self.truth.meet([(*who, lane) for who in group for lane in ALL_LANES])
        for who in self.random.sample(group, len(group)):
            self.model.event("barrier_release" if arrived.pop(who) == "barrier" else "cluster_wait", *who, 0)
            self.programs[who].pop(0)

    def _site(self, text: str) -> int:
        return self.sites.setdefault(text, len(self.sites) + 1)

    def _do(self, who: tuple[int, int], step: Step) -> None:
        thread = (*who, step.lane)
        if step.what == "syncwarp":
            self.model.event("syncwarp_release", *who, 0)
            self.truth.meet([(*who, lane) for lane in ALL_LANES])
        elif step.what == "set":  # fence, strong write
            word = facts(self._site("set"), DEVICE, releases=DEVICE, acquires=DEVICE)
            self.model.event(
                "global", *who, word, lanes=1 << step.lane, flags=WRITE, a=GLOBAL + 256 + 4 * step.word
            )
            self.flags[step.word] = set(self.truth.known(thread))
        elif step.what == "get":  # strong read, fence
            word = facts(self._site("get"), DEVICE)
            self.model.event(
                "global", *who, word, lanes=1 << step.lane, flags=READ, a=GLOBAL + 256 + 4 * step.word
            )
            self.model.event("shuffle", *who, facts(acquires=DEVICE))
            self.truth.known(thread).update(self.flags.get(step.word, set()))
        elif step.what.startswith("line"):  # lane after lane from the line's begin on
            size, write = (4, 8, 16)[step.word], step.what == "line_write"
            site = self._site(f"{step.what}{who}{len(self.truth.accesses)}")
            self.model.event("global", *who, facts(site), flags=WRITE if write else READ, size=size,
                             a=[GLOBAL + size * lane for lane in range(32)])  # fmt: skip
            for word in range(2):
                self.truth.access((*who, 4 * word // size), write, word)
        else:
            shared = step.word == 2
            site = self._site(f"{step.what}{who}{len(self.truth.accesses)}")
            place = (who[0], step.word) if shared else step.word
            self.model.event("shared" if shared else "global", *who, facts(site), lanes=1 << step.lane,
                             flags=WRITE if step.what == "write" else READ,
                             a=(SHARED if shared else GLOBAL) + 4 * step.word)  # fmt: skip
            self.truth.access(thread, step.what == "write", place)

    def places_told(self) -> set[object]:
        """The words of the races that the model tells."""
        return {
            (one.block, (one.address - SHARED) // 4) if one.shared else (one.address - GLOBAL) // 4
            for one in self.model.told()
            if one.shared or one.address < GLOBAL + 8
        }


@pytest.mark.parametrize("kinds", ["b", "bw", "bc", "bwf", "bcf", "bl", "bwl", "bcl", "bwfl"])
def test_what_is_told_is_a_race_of_that_order(core: ctypes.CDLL, kinds: str) -> None:
    for seed in range(300):
        run = Run(core, seed, kinds)
        run.go()
        assert run.places_told() <= run.truth.races, f"seed {seed}"


@pytest.mark.parametrize("kinds", ["b", "bw", "bc", "bl", "bwl", "bcl"])
def test_where_barriers_order_every_racy_word_is_told(core: ctypes.CDLL, kinds: str) -> None:
    racy = 0
    for seed in range(300):
        run = Run(core, seed, kinds)
        run.go()
        racy += len(run.truth.races)
        assert run.truth.races <= run.places_told(), f"seed {seed}"
    assert racy > 100


def _one(core: ctypes.CDLL, **launch: object) -> Model:
    model = Model(core)
    model.launch(**launch)  # type: ignore[arg-type]
    return model


def test_bytes_of_a_word_are_told_apart(core: ctypes.CDLL) -> None:
    model = _one(core, grid=(2, 1, 1))
    model.event("global", 0, 0, facts(1), lanes=1, flags=WRITE, size=1, a=GLOBAL)
    model.event("global", 1, 0, facts(1), lanes=1, flags=WRITE, size=1, a=GLOBAL + 1)
    assert model.told() == []
    model.event("global", 1, 0, facts(1), lanes=1, flags=WRITE, size=1, a=GLOBAL)
    assert model.told() == []  # a word keeps its last write alone
    model.event("global", 0, 0, facts(1), lanes=1, flags=WRITE, size=2, a=GLOBAL)
    assert [one.address for one in model.told()] == [GLOBAL]


def test_lanes_that_access_parts_of_words_are_no_race_and_other_warps_are(core: ctypes.CDLL) -> None:
    for size in (1, 2):
        model = _one(core, threads=64)
        places = [SHARED + size * lane for lane in range(32)]
        model.event("shared", 0, 0, facts(1), flags=READ, size=size, a=places)
        model.event("shared", 0, 0, facts(2), flags=WRITE, size=size, a=places)
        assert model.told() == []
        model.event("shared", 0, 1, facts(3), lanes=1, flags=READ, size=1, a=SHARED + 5)
        assert [(one.address, one.earlier_site) for one in model.told()] == [(SHARED + 5, 2)]


def test_two_blocks_that_write_one_byte_of_a_word_race(core: ctypes.CDLL) -> None:
    model = _one(core, grid=(2, 1, 1))
    model.event("global", 0, 0, facts(1), lanes=1, flags=WRITE, size=1, a=GLOBAL + 32)
    model.event("global", 1, 0, facts(1), flags=WRITE, size=1, a=[GLOBAL + 32 + lane for lane in range(32)])
    assert [one.address for one in model.told()] == [GLOBAL + 32]


@pytest.mark.parametrize("fenced", [True, False])
def test_a_flag_that_one_thread_finds_is_acquired_by_a_fence_behind_a_barrier(
    core: ctypes.CDLL, fenced: bool
) -> None:
    model = _one(core, grid=(2, 1, 1), threads=64)
    places = [GLOBAL + 4096 + 8 * lane for lane in range(32)]
    for block in range(2):
        for warp in range(2):
            model.event(
                "global", block, warp, facts(1), flags=WRITE, a=[a + 512 * block + 256 * warp for a in places]
            )
            fence = facts(releases=DEVICE, acquires=DEVICE) if fenced else 0
            model.event("barrier", block, warp, fence)
        for warp in range(2):
            model.event("barrier_release", block, warp, 0)
        model.event("global", block, 0, facts(2, DEVICE, more=ATOMIC), lanes=1, flags=READ | WRITE, a=GLOBAL)
        for kind in ("barrier", "barrier_release"):
            for warp in range(2):
                model.event(kind, block, warp, 0)
    for warp in range(2):  # of the last block
        model.event("shuffle", 1, warp, facts(acquires=DEVICE, releases=DEVICE))
        model.event("global", 1, warp, facts(3), flags=READ, a=[a + 256 * warp for a in places])
    assert bool(model.told()) != fenced


def test_a_load_of_a_compare_and_swap_is_no_race_with_it(core: ctypes.CDLL) -> None:
    model = _one(core, threads=64)
    for warp in (0, 1):
        model.event("shared", 0, warp, facts(1, BLOCK), lanes=1, flags=READ, a=SHARED)
        model.event("shared", 0, warp, facts(2, BLOCK, more=ATOMIC), lanes=1, flags=READ | WRITE, a=SHARED)
    assert model.told() == []
    model.event("shared", 0, 0, facts(3), lanes=2, flags=WRITE, a=SHARED)
    assert {one.site for one in model.told()} == {3}


def test_accesses_without_a_number_are_counted_and_not_told(core: ctypes.CDLL) -> None:
    model = _one(core, grid=(2, 1, 1))
    for block in range(2):
        model.event("global", block, 0, 0, lanes=1, flags=WRITE, a=GLOBAL)
    assert (model.told(), model.unwatched(NO_SITE)) == ([], 2)


def test_what_another_launch_left_is_no_race(core: ctypes.CDLL) -> None:
    model = Model(core)
    for _ in range(3):
        model.launch(grid=(2, 1, 1))
        model.event("global", 0, 0, facts(1), lanes=1, flags=WRITE, a=GLOBAL)
        model.event("shared", 0, 0, facts(2), lanes=1, flags=WRITE, a=SHARED)
        model.skip_rows(1 << 22)  # the same row is handed out again
    assert model.told() == []


def test_a_page_goes_to_other_memory_when_there_is_no_room(core: ctypes.CDLL) -> None:
    model = Model(core)
    for launch in range(200):  # of 64 pages, each launch touches four more
        model.launch(grid=(2, 1, 1))
        for page in range(4):
            model.event(
                "global", 0, 0, facts(1), lanes=1, flags=WRITE, a=GLOBAL + ((4 * launch + page) << 20)
            )
    assert (
        model.unwatched(NO_SHADOW) == 384
    )  # what the last 32 launches touched stays: half of them find no room
    assert model.told() == []


def test_a_ring_of_buffers_is_silent_and_a_skipped_wait_is_not(core: ctypes.CDLL) -> None:
    for skipped in (None, 5):
        model = _one(core, threads=64)
        for buffer in range(2):
            model.event("mbarrier", 0, 0, 0, flags=1, a=0x800 + 8 * buffer)
            model.event("mbarrier", 0, 0, 0, flags=1, a=0x900 + 8 * buffer)
        for kind in ("barrier", "barrier_release"):
            for warp in range(2):
                model.event(kind, 0, warp, 0)
        for turn in range(12):
            full, empty, tile = 0x800 + 8 * (turn % 2), 0x900 + 8 * (turn % 2), 0x400 + 0x80 * (turn % 2)
            done = 6 | 128
            model.event(
                "mbarrier_attempt",
                0,
                0,
                0,
                lanes=1,
                flags=done,
                a=empty,
                b=(turn // 2 + 1) % 2,
                barrier=empty,
                arrivals=32,
            )
            model.event("mbarrier", 0, 0, 0, lanes=1, flags=2, a=full, b=1, barrier=full, arrivals=1)
            model.event(
                "bulk_load",
                0,
                0,
                facts(1, more=BULK),
                lanes=1,
                size=128,
                a=GLOBAL,
                b=tile,
                barrier=full,
                arrivals=1,
            )
            if turn != skipped:
                model.event(
                    "mbarrier_attempt", 0, 1, 0, flags=done, a=full, b=turn // 2 % 2, barrier=full, arrivals=1
                )
            model.event("shared", 0, 1, facts(2), flags=READ, a=[tile + 4 * lane for lane in range(32)])
            model.event("mbarrier", 0, 1, 0, flags=2, a=empty, b=32, barrier=empty, arrivals=32)
        assert bool(model.told()) == (skipped is not None)


def test_a_bulk_store_needs_a_fence_behind_the_stores_that_it_reads(core: ctypes.CDLL) -> None:
    for fenced in (True, False):
        model = _one(core, threads=64)
        for warp in range(2):
            model.event(
                "shared",
                0,
                warp,
                facts(1),
                flags=WRITE,
                a=[SHARED + 128 * warp + 4 * lane for lane in range(32)],
            )
            model.event("barrier", 0, warp, PROXY_FENCE if fenced else 0)
        for warp in range(2):
            model.event("barrier_release", 0, warp, 0)
        model.event("bulk_store", 0, 0, facts(2, more=BULK), lanes=1, size=256, a=GLOBAL, b=SHARED)
        assert {one.reason for one in model.told()} == (set() if fenced else {8})


def test_what_has_too_many_epochs_is_counted_and_not_compared(core: ctypes.CDLL) -> None:
    model = _one(core, threads=64)
    for _ in range(33_000):
        for kind in ("barrier", "barrier_release"):
            for warp in range(2):
                model.event(kind, 0, warp, 0)
    for warp in range(2):
        model.event("shared", 0, warp, facts(1), lanes=1, flags=WRITE, a=SHARED)
    assert model.told() == []
    assert model.unwatched(MANY_EPOCHS) > 0


@pytest.mark.parametrize(
    ("blocks", "release", "acquire", "races"),
    [(1, BLOCK, 0, False), (1, 0, BLOCK, True), (2, DEVICE, DEVICE, False), (2, DEVICE, 0, True), (2, DEVICE, BLOCK, True),
     (2, BLOCK, DEVICE, True)],
)  # fmt: skip
def test_a_flag_needs_fences_of_its_scope_but_none_by_a_reader_of_its_own_block(
    core: ctypes.CDLL, blocks: int, release: int, acquire: int, races: bool
) -> None:
    model = _one(core, grid=(blocks, 1, 1), threads=64 // blocks)
    scope = BLOCK if blocks == 1 else DEVICE
    other = (blocks - 1, 2 - blocks)
    model.event("global", 0, 0, facts(1), lanes=1, flags=WRITE, a=GLOBAL)
    model.event("global", 0, 0, facts(2, scope, release, release), lanes=1, flags=WRITE, a=GLOBAL + 256)
    model.event("global", *other, facts(3, scope), lanes=1, flags=READ, a=GLOBAL + 256)
    model.event("global", *other, facts(4, 0, acquire, acquire), lanes=1, flags=READ, a=GLOBAL)
    assert bool(model.told()) == races
