"""Runs a program in virtual time: host threads take their steps in turn, streams work off what is enqueued."""

from __future__ import annotations

import random
from heapq import heappop, heappush
from itertools import count

from tests.truth import program as p
from tests.truth.execution import (
    CallLog,
    Execution,
    Item,
    Overhead,
    ThreadLog,
)
from tests.truth.running import Running, Wait
from tests.truth.streams import Streams


class World:
    """One run of one program."""

    def __init__(self, program: p.Program) -> None:
        self.program = program
        self.machine = program.machine
        self.draw = random.Random(f"world {program.seed}")
        self.streams = Streams(program.machine, self.draw)
        self.calls: list[CallLog] = []
        self.overheads: list[Overhead] = []
        self.events: dict[tuple[int, str], Item] = {}
        self.recorded_from = 0
        self._correlations = {process: count(self.draw.randint(1, 300)) for process in program.processes}
        self._signals: dict[tuple[int, str], int] = {}
        self._awaiting: dict[tuple[int, str], list[Running]] = {}
        self._turns: list[tuple[int, int, Running]] = []
        self._order = count()

    def run(self) -> Execution:
        """Take every step of every thread."""
        threads = [Running(self, thread) for thread in self.program.threads]
        for thread in threads:
            self._push(thread)
        while self._turns:
            _, _, thread = heappop(self._turns)
            wait = thread.advance()
            if not thread.finished:
                self._park(thread, wait)
        assert all(thread.finished for thread in threads), f"seed {self.program.seed}: threads wait forever"
        return self._execution([thread.log for thread in threads])

    def correlation(self, process: int) -> int:
        """The next correlation id of a process."""
        return next(self._correlations[process])

    def around(self, usual: int) -> int:
        """A time near the usual one."""
        spread = self.machine.jitter
        return max(1, round(usual * self.draw.uniform(1 - spread, 1 + spread)))

    def signal(self, process: int, name: str, now: int) -> None:
        """Wake the threads that await a name."""
        self._signals[process, name] = now
        for thread in self._awaiting.pop((process, name), ()):
            self._push(thread)

    def signalled(self, process: int, name: str) -> int | None:
        """When a name was signalled."""
        return self._signals.get((process, name))

    def _push(self, thread: Running) -> None:
        heappush(self._turns, (thread.now, next(self._order), thread))

    def _park(self, thread: Running, wait: Wait) -> None:
        if wait is None:
            self._push(thread)
        elif isinstance(wait, Item):
            self.streams.when_known(wait, lambda: self._push(thread))
        elif (thread.process, wait) in self._signals:
            self._push(thread)
        else:
            self._awaiting.setdefault((thread.process, wait), []).append(thread)

    def _execution(self, logs: list[ThreadLog]) -> Execution:
        items = self.streams.items()
        for call in self.calls:
            call.seen = call.seen and call.begin >= self.recorded_from
        for item in items:
            item.visible = item.visible and (item.start or 0) >= self.recorded_from
        calls = sorted(self.calls, key=lambda call: call.begin)
        return Execution(self.program, logs, calls, items, self.overheads, self.recorded_from)


def run(program: p.Program) -> Execution:
    """Run a program."""
    return World(program).run()
