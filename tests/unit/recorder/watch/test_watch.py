"""The watch of a program, look by look, with a recorder that is told what it has seen; no thread runs here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from warpsight.recorder.drain.target import Ending
from warpsight.recorder.inspect import look
from warpsight.recorder.ring.progress import Outstanding
from warpsight.recorder.watch import coredump
from warpsight.recorder.watch import watch as module
from warpsight.recorder.watch.event import Incident
from warpsight.recorder.watch.suspicion import StallLimits, Suspicion, Watched
from warpsight.recorder.watch.watch import Watch, WatchOptions

NS = 1_000_000_000


class Ring:
    """A ring recorder: what each process has shown, and triggers that end at once."""

    def __init__(self) -> None:
        self.progress: dict[str, Any] = {}
        self.on_ending: list[Callable[[Ending], None]] = []
        self.triggers: list[str] = []

    def follow_progress(self) -> None:
        """Nothing to follow here."""

    def trigger(self, reason: str, at: int = 0) -> Any:
        self.triggers.append(reason)
        return SimpleNamespace(
            done=SimpleNamespace(wait=lambda seconds: True), path=Path("/t.warp"), error=None
        )


class Watching:
    """A watch, what it said, and what it reported."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
        self.ring, self.said, self.reports = Ring(), [], []
        server: Any = SimpleNamespace(ring=self.ring, targets=[], own_processes=set())
        limits = StallLimits(hang_after=options.pop("hang_after", 60.0))
        self.watch = Watch(server, WatchOptions(limits, options.pop("on_hang", "report"), **options),
                           self.said.append, self.reports.append)  # fmt: skip
        monkeypatch.setattr(look, "descendants", lambda root, proc=None: [root])
        self.waiting: frozenset[Any] = frozenset()
        self.looked: list[list[int]] = []

        def looked(pids: Any, seconds: float) -> list[dict[str, Any]]:
            self.looked.append(list(pids))
            return [{"pid": pid, "threads": []} for pid in pids]

        monkeypatch.setattr(look, "look", looked)
        monkeypatch.setattr(look, "waits", lambda processes: iter(self.waiting))

    def process(self, pid: int, arena: str, *, since: float = 0.0, **shown: Any) -> Watched:
        one = self.watch._watched[arena] = Watched(pid, arena, since=since, heard=since)
        if shown:
            self.show(arena, **shown)
        return one

    def show(self, arena: str, *, completions: int = 0, launches: int = 0, last_end: float = 0.0, heard_at: float = 0.0,
             outstanding: Outstanding | None = None) -> None:  # fmt: skip
        self.ring.progress[arena] = SimpleNamespace(
            completions=completions, launches=launches, last_end=int(last_end * NS), heard_at=heard_at,
            outstanding=lambda: outstanding,
        )  # fmt: skip


@pytest.fixture
def watching(monkeypatch: pytest.MonkeyPatch) -> Watching:
    return Watching(monkeypatch)


OPEN = Outstanding(1, 5 * NS, 6 * NS, 1, 5 * NS)


def test_launches_and_completions_are_signs_of_progress() -> None:
    shown: Any = SimpleNamespace(completions=3, launches=4)
    assert (module._shown(shown), module._shown(None)) == (7, 0)


def test_processes_that_are_stuck_about_as_long_are_suspects_together(watching: Watching) -> None:
    """A rank that fell silent half as long ago is one, too; one that went on is not, nor one that waits for nothing."""
    watching.process(1, "a", launches=9, last_end=100, completions=5, outstanding=OPEN)
    watching.process(2, "b", launches=1, last_end=130, outstanding=OPEN)
    watching.process(3, "c", launches=1, last_end=131, outstanding=OPEN)
    watching.process(4, "d", launches=1, last_end=100)
    watching.process(5, "e").waits = frozenset({"wait"})
    found = watching.watch._suspects(160.0, Suspicion("hang", 100.0, OPEN, 60.0))
    assert [(one.pid, one.quiet_s, one.completions) for one in found] == [
        (1, 60.0, 5),
        (2, 30.0, 0),
        (5, 160.0, 0),
    ]
    assert [one.outstanding for one in found] == [OPEN, OPEN, None]
    told = {one.pid: (one.told_at, one.told_quiet) for one in watching.watch._watched.values()}
    assert told == {1: (14, 160.0), 2: (1, 160.0), 3: (None, 0.0), 4: (None, 0.0), 5: (0, 160.0)}


def test_a_suspicion_of_long_ago_asks_for_half_its_limit(watching: Watching) -> None:
    watching.process(1, "a", launches=1, last_end=900, outstanding=OPEN)
    watching.process(2, "b", launches=1, last_end=976, outstanding=OPEN)
    found = watching.watch._suspects(1_000.0, Suspicion("hang", 0.0, OPEN, 50.0))
    assert [one.pid for one in found] == [1]


@pytest.mark.parametrize(("dumps", "shown", "went"), [
    (False, {"last_end": 200.25}, False), (False, {"last_end": 200.26}, True), (False, {"heard_at": 300.0}, False),
    (True, {"heard_at": 200.25}, False), (True, {"heard_at": 200.26}, True), (True, {"last_end": 300.0}, False),
])  # fmt: skip
def test_a_process_went_on_when_something_happened_after_the_report(
    monkeypatch: pytest.MonkeyPatch, dumps: bool, shown: dict[str, float], went: bool
) -> None:
    """With core dumps armed, calls that return are all there is to see."""
    watching = Watching(monkeypatch, dumps=dumps)
    one = watching.process(1, "a", **shown)
    one.told_quiet = 200.0
    assert watching.watch._went_on(one, watching.ring.progress["a"]) == went
    assert not watching.watch._went_on(one, None)


def test_a_process_that_went_on_is_said_and_may_be_suspected_again(watching: Watching) -> None:
    one = watching.process(1, "a", completions=4, launches=1, last_end=300)
    one.told_at, one.told_quiet = 4, 200.0
    target: Any = SimpleNamespace(arena="a", pid=1)
    assert watching.watch._suspect(target, 301.0) is None
    assert watching.said == ["process 1 continued: work has completed again"] and one.told_at is None
    assert watching.watch._suspect(target, 302.0) is None and len(watching.said) == 1


@pytest.mark.parametrize(("dumps", "quiet"), [(False, 40.0), (True, 70.0)])
def test_since_when_nothing_happened(monkeypatch: pytest.MonkeyPatch, dumps: bool, quiet: float) -> None:
    watching = Watching(monkeypatch, dumps=dumps)
    one = watching.process(1, "a", since=10.0, last_end=40, heard_at=70.0)
    assert watching.watch._quiet(one, watching.ring.progress["a"]) == quiet
    one.paused = 80.0
    assert watching.watch._quiet(one, watching.ring.progress["a"]) == 80.0
    assert watching.watch._quiet(one, None) == 80.0
    one.paused, one.since = 0.0, 90.0
    assert watching.watch._quiet(one, watching.ring.progress["a"]) == watching.watch._quiet(one, None) == 90.0


def asked(watching: Watching, one: Watched, now: float) -> tuple[str, float] | None:
    found = watching.watch._suspect_by_threads(one, watching.ring.progress[one.arena], now)
    return found and (found.kind, found.quiet_since)


def test_threads_are_looked_at_from_half_the_limit_and_must_stay_in_one_wait(watching: Watching) -> None:
    """The limit is 60 s: silent since 100, threads are looked at from 130 on, and the hang is one at 160."""
    one = watching.process(1, "a", launches=1, last_end=100)
    watching.waiting = frozenset({"cuStreamSynchronize"})
    assert asked(watching, one, 129.9) is None and watching.looked == []
    assert asked(watching, one, 130.0) is None and watching.looked == [[1]]
    assert (one.waits, one.waits_since, one.inspect_after) == (watching.waiting, 130.0, 145.0)
    assert asked(watching, one, 159.9) is None
    assert asked(watching, one, 160.0) == ("hang", 100.0)


def test_a_wait_that_outlasts_a_completion_counts_from_it(watching: Watching) -> None:
    one = watching.process(1, "a", launches=1, last_end=100)
    watching.waiting = frozenset({"wait"})
    assert asked(watching, one, 130.0) is None
    watching.show("a", launches=1, last_end=140)
    assert asked(watching, one, 175.0) is None
    assert asked(watching, one, 199.9) is None
    assert asked(watching, one, 200.0) == ("hang", 140.0)


def test_another_wait_begins_anew(watching: Watching) -> None:
    one = watching.process(1, "a", launches=1, last_end=100)
    for now, waiting, suspected in (
        (150.0, {"first"}, False), (165.0, {"second"}, False), (194.9, {"second", "third"}, False),
        (195.0, {"second"}, True),
    ):  # fmt: skip
        watching.waiting = frozenset(waiting)
        assert (asked(watching, one, now) is not None) == suspected, now
    assert one.waits_since == 165.0


def test_threads_that_wait_for_nothing_are_looked_at_ever_more_seldom(watching: Watching) -> None:
    one = watching.process(1, "a", launches=1, last_end=100)
    pauses = []
    for now in (200.0, 300.0, 400.0, 500.0, 600.0):
        assert asked(watching, one, now) is None
        pauses.append(one.inspect_after - now)
    assert pauses == [30.0, 60.0, 120.0, 240.0, 300.0]
    watching.show("a", launches=1, last_end=595)
    assert asked(watching, one, 610.0) is None and one.pause == 0.0  # it went on


def test_rows_of_any_kind_show_that_threads_go_on(watching: Watching) -> None:
    one = watching.process(1, "a", launches=1, last_end=100, heard_at=150.0)
    watching.waiting = frozenset({"wait"})
    assert asked(watching, one, 179.9) is None and watching.looked == []
    asked(watching, one, 180.0)
    assert watching.looked == [[1]]


def test_threads_of_a_process_that_did_nothing_on_a_device_are_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watching = Watching(monkeypatch)
    one = watching.process(1, "a", last_end=0)
    assert asked(watching, one, 9_000.0) is None and watching.looked == []
    armed = Watching(monkeypatch, dumps=True)  # without CUPTI nothing else is seen
    other = armed.process(1, "a", last_end=0)
    asked(armed, other, 9_000.0)
    assert armed.looked == [[1]]
    off = Watching(monkeypatch, hang_after=0.0)
    assert asked(off, off.process(1, "a", launches=1), 9_000.0) is None and off.looked == []


def incident(watching: Watching, kind: str, outstanding: Outstanding | None, **more: Any) -> Incident:
    return watching.watch._gather(
        Suspicion(kind, module.time.monotonic() - 61, outstanding, 60.0), ["why"], []
    )


@pytest.mark.parametrize(
    ("kind", "outstanding", "on_hang", "reason", "ends"),
    [
        ("hang", OPEN, "report", "kernel running for 61 s, nothing completed since", False),
        ("hang", None, "report", "host threads wait for the device for 61 s, nothing completed since", False),
        ("hang", OPEN, "kill", "kernel running for 61 s, nothing completed since", True),
        ("kernel-timeout", OPEN, "report", "a kernel has been running for 61 s (--kernel-timeout 60)", True),
        (
            "no-data-timeout",
            OPEN,
            "report",
            "no data for 61 s while a kernel runs (--no-data-timeout 60)",
            True,
        ),
    ],
)
def test_a_report_says_why_and_whether_the_program_is_ended(
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    outstanding: Outstanding | None,
    on_hang: str,
    reason: str,
    ends: bool,
) -> None:
    watching = Watching(monkeypatch, on_hang=on_hang)
    event = incident(watching, kind, outstanding)
    assert (event.kind, event.reason, event.ends, event.evidence) == (kind, reason, ends, ["why"])
    assert (event.trace, watching.ring.triggers) == (Path("/t.warp"), [f"{kind}: {reason}"])


def ended(watching: Watching, pid: int, text: str, at: float = 0.0) -> None:
    watching.watch._ended.put((at, Ending(pid, f"a{pid}", text, 7)))


@pytest.mark.parametrize(
    ("text", "reported"),
    [("signal 6", True), ("signal 11", True), ("signal 15", False), ("signal 2", False), ("exit 1", False)],
)
def test_a_process_that_ended_by_a_signal_of_its_own_crashed(
    watching: Watching, text: str, reported: bool
) -> None:
    ended(watching, 3, text)
    found = watching.watch.crash()
    assert (found is not None) == reported
    if found is not None:
        assert (found.kind, found.pid, found.exit, found.time) == ("crash", 3, text, 7)
        assert found.reason == f"crash: process 3 ended by {text}"


def test_a_crash_is_reported_once_and_not_when_we_ended_the_program(watching: Watching) -> None:
    ended(watching, 3, "signal 6")
    ended(watching, 4, "signal 11")
    first = watching.watch.crash()
    assert first is not None and first.pid == 3
    watching.watch.events.append(first)
    second = watching.watch.crash()
    assert second is not None and second.pid == 4
    watching.watch.events.append(second)
    assert watching.watch.crash() is None
    other = Watch.__new__(Watch)
    other.__dict__.update(watching.watch.__dict__, events=[], _ended_by_us=True)
    assert other.crash() is None


def test_crashes_wait_a_moment_for_their_dump_while_others_go_on(watching: Watching) -> None:
    ended(watching, 3, "signal 6", at=100.0)
    watching.watch._take_endings()
    watching.watch._look_for_crashes(101.4)
    assert watching.reports == []
    watching.watch._look_for_crashes(101.5)
    assert [one.pid for one in watching.reports] == [3] and watching.watch._crashes == []
    ended(watching, 4, "exit 0", at=100.0)
    watching.watch._take_endings()
    watching.watch._look_for_crashes(200.0)
    assert len(watching.reports) == 1 and watching.watch._crashes == []


def test_only_the_latest_endings_are_kept(watching: Watching) -> None:
    for pid in range(300):
        ended(watching, pid, "exit 0")
    watching.watch._take_endings()
    assert [ending.pid for _, ending in watching.watch._crashes] == list(range(44, 300))


def test_a_dump_that_was_there_before_is_nobodys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "core.3").write_bytes(b"old")
    watching = Watching(monkeypatch, template=f"{tmp_path}/core.%p")
    ended(watching, 3, "exit 1")
    assert watching.watch.crash() is None
    (tmp_path / "core.4").write_bytes(b"new")
    ended(watching, 4, "exit 1")
    found = watching.watch.crash()
    assert found is not None and found.reason == "crash: process 4 ended by exit 1, after a GPU core dump"
    assert [(dump.pid, dump.path, dump.problem) for dump in found.dumps] == [
        (4, tmp_path / "core.4", "the dump is not complete")
    ]


def test_a_dump_of_a_process_that_never_connected_is_a_crash(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    watching = Watching(monkeypatch, template=f"{tmp_path}/core.%p")
    assert watching.watch.crash() is None
    (tmp_path / "core.9").write_bytes(b"new")
    found = watching.watch.crash()
    assert found is not None and found.reason == "crash: a GPU core dump was written"
    assert [dump.path for dump in found.dumps] == [tmp_path / "core.9"]
    watching.watch.events.append(found)
    assert watching.watch.crash() is None


def test_the_second_interrupt_ends_the_program_once_it_was_reported(
    watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    why: list[str] = []
    monkeypatch.setattr(watching.watch, "end_tree", why.append)
    watching.watch.interrupt()
    first = watching.watch._interrupted
    assert first > 0 and why == []
    watching.watch.interrupt()  # nothing is reported yet: the first one counts
    assert watching.watch._interrupted == first and why == []
    watching.watch._reported_interrupt = True
    watching.watch.interrupt()
    assert why == ["interrupted again"]


def test_an_interrupt_of_a_stuck_program_is_reported_after_a_second(watching: Watching) -> None:
    watching.process(5, "a", launches=1, last_end=1, outstanding=OPEN)
    watching.watch._interrupted = 100.0
    watching.waiting = frozenset({look._HostWait(5, 8, "cuCtxSynchronize", ())})
    watching.watch._look_after_interrupt(100.9)
    assert watching.reports == []
    watching.watch._look_after_interrupt(101.0)
    (event,) = watching.reports
    assert (event.kind, event.ends) == ("interrupt", False)
    assert event.evidence == ["thread 8 of process 5 waits in cuCtxSynchronize"]
    assert [one.pid for one in event.suspects] == [5]


def test_an_interrupt_of_a_program_that_waits_for_nothing_is_its_own_matter(watching: Watching) -> None:
    watching.process(5, "a", launches=1)
    watching.watch._interrupted = 100.0
    watching.watch._look_after_interrupt(102.0)
    assert watching.reports == [] and watching.watch._interrupted == 0.0


def test_dumps_are_taken_of_the_first_suspects_and_compressed_when_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    watching = Watching(monkeypatch, on_hang="dump", gzip=True)
    for number in range(10):
        watching.process(number, str(number), launches=1, outstanding=OPEN)
    monkeypatch.setattr(coredump, "pipe_of", lambda pid: Path("/pipe") if pid == 1 else None)
    monkeypatch.setattr(coredump, "compress", lambda path: path.with_name(path.name + ".gz"))
    monkeypatch.setattr(coredump, "take", lambda pid, seconds, say: coredump.CoreDump(
        pid, Path(f"/core.{pid}") if pid else None, "cut" if pid == 2 else ""))  # fmt: skip
    event = incident(watching, "hang", OPEN)
    paths = [dump.path and str(dump.path) for dump in event.dumps]
    assert paths == [None, "/core.1.gz", "/core.2", *(f"/core.{n}.gz" for n in range(3, 8))]
    assert len(watching.said) == 1 and watching.said[0].startswith("taking the GPU core dump of process 1:")
