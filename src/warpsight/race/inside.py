"""The calls that a program under test makes: named outputs, and trials repeated inside one process.

    import warpsight as ws

    @ws.race.trial
    def step() -> None:
        ws.race.output("loss", model(batch))

Outside of `race stress` and `race reduce` the decorated function is called once, and outputs are ignored. Under these verbs, each
trial writes a line before and after it, so that a crash or a hang is attributed to the right trial.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar
from urllib.parse import quote

import msgspec

P = ParamSpec("P")
R = TypeVar("R")

#: Holds a :class:`TrialRequest` as JSON in programs that `race` runs.
VARIABLE = "WARPSIGHT_RACE"
#: Number of trials without delays that must pass after a failed one.
_HEALTHY = 2


class TrialRequest(msgspec.Struct, frozen=True):
    """A run's request to the program.

    Attributes:
        report: file to which lines are appended; outputs: folder of reference outputs; save: whether this run creates them.
        tolerance: tolerance of outputs; trials: number of trials; seed: seed of the delays; control_share: fraction of undelayed
            trials, if delays can be switched within the process; 1 in runs without delays.
        more: pipe with further requests, read once a trial has failed; empty: the process ends then.
        plan: the delays from here on, as the library reads them; empty: those with which the process began.
    """

    report: str
    outputs: str
    save: bool
    tolerance: float
    trials: int
    seed: int
    control_share: float
    more: str = ""
    plan: str = ""


class TrialLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of the report.

    Attributes:
        trial: its number; None: outside of trials. ended: whether this is the line after it.
        delayed, seed: whether the trial is delayed, and its seed; None if delays cannot be switched within the process.
        why: how it failed, empty when it did not.
        waits: whether the process waits for another request.
    """

    trial: int | None
    ended: bool
    at: float
    delayed: bool | None = None
    seed: int | None = None
    why: str = ""
    crashed: bool = False
    waits: bool = False


class _State:
    """The state in this process; a program has one."""

    def __init__(self) -> None:
        text = os.environ.get(VARIABLE)
        self.request = msgspec.json.decode(text, type=TrialRequest) if text else None
        self.switch: Callable[[int, bool], object] | None = None
        self.trial: int | None = None
        self.named: Counter[str] = Counter()
        self.differences: list[str] = []

    def say(self, line: TrialLine) -> None:
        """Append to the report in one write, which survives the end of this process."""
        assert self.request is not None
        file = os.open(self.request.report, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(file, msgspec.json.encode(line) + b"\n")
        finally:
            os.close(file)


@functools.lru_cache(maxsize=1)
def _state() -> _State:
    return _State()


def use_switch(switch: Callable[[int, bool], object]) -> None:
    """Register a function for programs that delay themselves; it is called with a seed and whether to delay before each trial."""
    _state().switch = switch


def output(name: str, value: object) -> None:
    """Compare an array or tensor with the run without delays; a difference makes the run (or trial) fail.

    Arrays with the same name are compared in the order of their calls within a trial (or run).
    """
    state = _state()
    if state.request is None:
        return
    import numpy as np

    from warpsight.race.outputs import array_difference, array_of

    array = array_of(value)
    state.named[name] += 1
    path = Path(state.request.outputs, f"{quote(name, safe='')}.{state.named[name]}.npy")
    if state.request.save:
        np.save(path, array, allow_pickle=False)
        return
    if not path.exists():
        difference = "was not produced by the run without delays"
    else:
        difference = array_difference(array, np.load(path, allow_pickle=False), state.request.tolerance)
    if difference and state.trial is None:
        state.say(TrialLine(None, True, time.time(), why=f"{name} {difference}"))
    elif difference:
        state.differences.append(f"{name} {difference}")


def trial(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a function that `--in-process N` calls N times in one process, up to its first failure.

    A trial fails when an output differs, it raises, or it returns False. The last return value is returned.
    """

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        state = _state()
        if state.request is None:
            return function(*args, **kwargs)
        call = functools.partial(function, *args, **kwargs)
        result, line = _trials(state, call)
        if line.why and state.request.more:
            result = _further_trials(state, call, result, line)
        return result  # type: ignore[return-value]

    return run


def _trials(state: _State, call: Callable[[], R]) -> tuple[R | None, TrialLine]:
    """Run the requested trials up to the first that fails: returns the last one's result, and its line."""
    assert state.request is not None
    request, draw = state.request, random.Random(state.request.seed)
    for number in range(1 if request.save else request.trials):
        delayed, seed = draw.random() >= request.control_share, draw.getrandbits(63)
        seed = seed if number else request.seed
        switch = state.switch or _library_switch()  # the library is there from the first call of CUDA on
        if switch is not None:
            switch(seed, delayed)
        line = TrialLine(number, False, time.time(), *((delayed, seed) if switch is not None else ()))
        state.say(line)
        result, why, error = _tried(state, number, call)
        line = msgspec.structs.replace(line, ended=True, at=time.time(), why=why, crashed=error is not None)
        state.say(line)
        if error is not None and request.save:
            raise error
        if why:
            break
    return result, line


def _further_trials(state: _State, call: Callable[[], R], result: R | None, line: TrialLine) -> R | None:
    """Handle further requests in a process that has failed once: starting a process costs more than thousands of trials.

    A failure may have damaged what later trials need, so trials without delays have to be right behind it.
    """
    assert state.request is not None
    library, switch = _library("warpsight_race_plan"), _library_switch()
    if library is None or switch is None or state.switch is not None:
        return result
    with contextlib.suppress(OSError), open(state.request.more, "rb") as pipe:
        while not line.crashed and (not line.why or _is_right_without_delays(state, switch, call)):
            state.say(TrialLine(None, True, time.time(), waits=True))
            if not (text := pipe.readline()):
                break
            state.request = msgspec.json.decode(text, type=TrialRequest)
            if not library.warpsight_race_plan(state.request.plan.encode()):
                break
            result, line = _trials(state, call)
    return result


def _is_right_without_delays(
    state: _State, switch: Callable[[int, bool], object], call: Callable[[], object]
) -> bool:
    switch(0, False)
    return not any(_tried(state, 0, call)[1] for _ in range(_HEALTHY))


def _tried(
    state: _State, number: int, function: Callable[[], R]
) -> tuple[R | None, str, BaseException | None]:
    """What a trial returned, how it failed, and what it raised unless that was a failed assertion."""
    state.trial, state.named, state.differences = number, Counter(), []
    try:
        result = function()
        if (torch := sys.modules.get("torch")) is not None and torch.cuda.is_initialized():
            torch.cuda.synchronize()
    except AssertionError as error:
        return None, f"AssertionError: {error}"[:500], None
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"[:500], error
    finally:
        state.trial = None
    return result, "; ".join(state.differences) or ("returned False" if result is False else ""), None


def _library(name: str) -> ctypes.CDLL | None:
    """The library injected into this process, if it has this function."""
    path = os.environ.get("CUDA_INJECTION64_PATH")
    try:
        library = ctypes.CDLL(path) if path else None
    except OSError:
        return None
    return library if hasattr(library, name) else None


def _library_switch() -> Callable[[int, bool], object] | None:
    """A function that switches the injected library's delays, or None."""
    library = _library("warpsight_race_set")
    if library is None:
        return None
    function = library.warpsight_race_set
    function.argtypes, function.restype = (ctypes.c_uint64, ctypes.c_int), ctypes.c_int
    if not function(0, 0):  # no plan in this process
        return None
    return lambda seed, on: function(seed, int(on))
