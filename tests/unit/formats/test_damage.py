"""No reader trusts its file: cut anywhere or damaged at random, it gives an error that names file and place, or a part that says
it is one. It never hangs, never takes gigabytes, never ends with another exception.

Every file below tests/golden/formats/<format>/ is tried. Cuts take turns over the whole file until a format's share of time is
used up; WARPSIGHT_DAMAGE=all cuts at every byte (20 kB and below; larger files in steps) and takes minutes.
WARPSIGHT_DAMAGE=all:2/4 makes the second of four parts of these cuts; the first part has the random damage too.
"""

import os
import random
import resource
import shutil
import signal
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warpsight.formats import registry
from warpsight.formats.errors import FormatError
from warpsight.formats.importing import read_into
from warpsight.formats.source import Source
from warpsight.formats.target import Target
from warpsight.model import TraceWriter

GOLDEN = Path(__file__).parents[2] / "golden" / "formats"
FILES = sorted(
    path.relative_to(GOLDEN).as_posix()
    for form in registry.READERS
    for path in (GOLDEN / form).rglob("*")
    if path.is_file()
)
CHOSEN, _, _PART = os.environ.get("WARPSIGHT_DAMAGE", "").partition(":")
ALL = CHOSEN == "all"
#: Which part of the cuts of :func:`places`, of how many.
PART, PARTS = map(int, _PART.split("/")) if ALL and _PART else (1, 1)
#: Seconds of processor time per file for cuts, and for random damage.
SHARE = 0.35
#: Processor time of one reading of a file of a few kB; a hang is an alarm.
LIMIT_S = 20
SMALL = 20_000
#: Formats that say where they end: a part never passes for the whole.
CLOSED = ("kineto", "chrome")


class Nowhere(TraceWriter):
    """A writer that checks rows as the real one does and keeps none."""

    def __init__(self):
        self.path = Path("nowhere")
        super().__init__(self.path)

    def _write(self, table, process, data):
        pass

    def close(self):
        self.definitions.take()


@pytest.fixture(autouse=True)
def _without_folders(monkeypatch):
    monkeypatch.setattr(
        Path,
        "mkdir",
        lambda self, *a, **k: os.makedirs(self, exist_ok=True) if self.name != "nowhere" else None,
    )


def alarm(number, frame):
    raise AssertionError(f"still reading after {LIMIT_S} s of processor time")


def attempt(form, path):
    """Read a file as a format; returns None, or the error that a user would see."""
    previous = signal.signal(signal.SIGPROF, alarm)
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    try:
        with Source(path) as source, Target(Nowhere()) as target:
            target.begin("0:damaged")
            try:
                read_into(target, source, form, {})
            finally:
                marked = source.truncated
            target.close()
        return None, marked or any(row["severity"] != "note" for row in target.losses), target.rows
    except FormatError as error:
        return error, True, {}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


def check(form, path):
    error, marked, rows = attempt(form, path)
    if error is not None:
        assert error.file and error.problem
    return error, marked, rows


def places(size):
    """Every place of a file, far apart ones first."""
    step = 1 if size <= SMALL else size // SMALL + 1
    listed = list(range(0, size, step))
    random.Random(size).shuffle(listed)
    return listed[PART - 1 :: PARTS]


@pytest.fixture
def copy(tmp_path):
    """A file beside nothing else, with its own name."""

    def make(name):
        source = GOLDEN / name
        target = tmp_path / source.name
        shutil.copy(source, target)
        return source.read_bytes(), target

    return make


@pytest.mark.parametrize("name", FILES)
def test_the_whole_file_is_read(name, copy):
    _, path = copy(name)
    error, _, rows = attempt(name.split("/")[0], path)
    assert error is None
    assert sum(rows.values()) > 0


@pytest.mark.parametrize("name", FILES)
def test_a_file_cut_anywhere_gives_an_error_or_a_part(name, copy):
    data, path = copy(name)
    form = name.split("/")[0]
    _, _, whole = attempt(form, path)
    end = time.process_time() + SHARE
    for number, cut in enumerate(places(len(data))):
        if not ALL and number > 5 and time.process_time() > end:
            break
        path.write_bytes(data[:cut])
        error, marked, rows = check(form, path)
        if error is None and form in CLOSED:
            assert marked or rows == whole, f"{cut} of {len(data)} bytes pass for the whole file"
        if error is None:
            assert all(
                rows.get(table, 0) <= count
                for table, count in whole.items()
                if table not in ("loss", "attribute")
            ), cut


@pytest.mark.skipif(PART > 1, reason="the first part of the cuts has the random damage")
@pytest.mark.parametrize("name", FILES)
def test_random_damage_gives_an_error_or_rows(name, tmp_path_factory):
    source = GOLDEN / name
    data = source.read_bytes()
    form = name.split("/")[0]
    path = tmp_path_factory.mktemp("damage") / source.name
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    end = time.process_time() + SHARE

    @settings(
        max_examples=2_000 if ALL else 40, deadline=None, database=None, derandomize=True,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(
        st.lists(
            st.tuples(st.integers(0, len(data) - 1), st.sampled_from(["set", "insert", "delete", "repeat"]),
                      st.binary(min_size=1, max_size=8)),
            min_size=1, max_size=6,
        )
    )  # fmt: skip
    def damage(changes):
        if not ALL and time.process_time() > end:
            return
        damaged = bytearray(data)
        for place, what, content in changes:
            if what == "set":
                damaged[place : place + len(content)] = content
            elif what == "insert":
                damaged[place:place] = content
            elif what == "delete":
                del damaged[place : place + len(content) * 4]
            else:
                damaged[place:place] = damaged[place : place + 64] * 4
        path.write_bytes(damaged)
        check(form, path)

    damage()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    assert grown < 700, f"{grown} MiB for a file of {len(data)} bytes"
