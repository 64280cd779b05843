"""Shared parts of `stress` and `reduce`: a folder with a journal, the reference run, runs under plans."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy.typing as npt

from warpsight.errors import UsageError, WarpsightError
from warpsight.race import plan as plans
from warpsight.race.inside import TrialRequest
from warpsight.race.journal import ExperimentJournal
from warpsight.race.oracle import PLAN_VARIABLE, Oracle, RunOutcome, TestedProcess, end_leftovers
from warpsight.race.plan import Plan

#: Variables that make a program execute a plan, and log the delays to a second file if there is one.
_Injection = Callable[[Path, Path | None], Mapping[str, str]]


def programs_own(_: Path, __: Path | None) -> Mapping[str, str]:
    """Inject nothing, for programs that execute the plan themselves."""
    return {}


@dataclass(frozen=True)
class _Kept:
    """A process waiting for further trials, and the plan it started with."""

    process: TestedProcess
    plan: Plan


#: Pause between checks of a process that was already running (s).
_ASKED_PAUSE_S = 0.003
#: The log of delays in the folder of a run.
LOG = "delays"


def control(plan: Plan) -> Plan:
    """The plan for the control arm: the same patched code, without any delay."""
    return msgspec.structs.replace(plan, probability=0.0)


def digest(plan: Plan) -> str:
    """A digest that identifies a plan."""
    return hashlib.sha256(msgspec.json.encode(plan)).hexdigest()


@dataclass
class Experiment:
    """Runs of a program under delay plans, each recorded in a folder.

    Attributes:
        folder: the folder for all files; oracle: the program and its criteria; injection: how plans get into it.
        read_log: the delays of a log as arrays of equal length, point, cta and warp among them, or no delays if the log is
            incomplete; None: there are no logs.
        changes: function that writes a plan for running processes that can change theirs, None if they cannot.
        gpus: GPUs for the runs, by default the first; empty: those that the program sees.
        stop: ends the runs when it is set.
    """

    folder: Path
    oracle: Oracle
    injection: _Injection
    read_log: Callable[[Plan, Path], Mapping[str, npt.NDArray[Any]]] | None = None
    changes: Callable[[Plan], Path | None] = lambda _: None
    gpus: tuple[str, ...] = ()
    stop: threading.Event = field(default_factory=threading.Event)
    _kept: dict[str | None, _Kept] = field(default_factory=dict, init=False)  # by GPU

    @classmethod
    def of(cls, command: Sequence[str], folder: Path | str, *, inject: bool = True, gpus: Sequence[str] = (),
           **oracle: object) -> Experiment:  # fmt: skip
        """Describe an experiment with a program.

        Args:
            command: the program: exit code 0 means success, 125 that the run cannot be judged.
            folder: for the journal, plans and failing runs' output; created if needed.
            inject: patch the program's kernels; otherwise the program reads the plan in WARPSIGHT_RACE_PLAN.
            gpus: GPUs to run on at once, as in CUDA_VISIBLE_DEVICES.
            oracle: other fields of :class:`~warpsight.race.oracle.Oracle`.

        Raises:
            UsageError: for an invalid field of the oracle.
        """
        try:
            judge = msgspec.convert({"command": list(command), **oracle}, Oracle)
        except msgspec.ValidationError as error:
            raise UsageError(f"{error}") from None
        if not inject:
            return cls(Path(folder), judge, programs_own, gpus=tuple(gpus))
        from warpsight.race import delays

        def read_log(plan: Plan, log: Path) -> Mapping[str, npt.NDArray[Any]]:
            return {} if delays.losses(log) else delays.read_log(plan, log)

        return cls(Path(folder), judge, delays.environment, read_log, delays.changed, tuple(gpus))

    def begin(self, what: dict[str, Any], force: bool) -> ExperimentJournal:
        """Create the folder, or continue in it after an interruption.

        Raises:
            UsageError: for an invalid oracle.
            WarpsightError: when the folder holds another experiment or other files.
        """
        if self.oracle.same_files and len(self.gpus) > 1:
            raise UsageError("--same-file: runs on several GPUs would write the same file; use one GPU")
        self.folder = self.folder.absolute()
        journal = self.folder / "journal.jsonl"
        if force and journal.exists():
            shutil.rmtree(self.folder)
        elif (
            self.folder.exists()
            and not journal.exists()
            and (not self.folder.is_dir() or any(self.folder.iterdir()))
        ):
            raise WarpsightError(f"{self.folder} exists and holds no experiment; -o chooses another folder")
        (self.folder / "runs").mkdir(parents=True, exist_ok=True, mode=0o700)
        opened = ExperimentJournal(journal, what)
        end_leftovers(self.folder)
        return opened

    def refer(self, plan: Plan) -> RunOutcome:
        """Run without delays until a run passes, at most three times, and keep its output for comparison; once per experiment."""
        kept = self.folder / "reference.json"
        if kept.exists():
            return msgspec.json.decode(kept.read_bytes(), type=RunOutcome)
        for attempt in range(3):
            shutil.rmtree(self.folder / "reference", ignore_errors=True)
            outcome = self.run(f"reference-{attempt}", control(plan), save=True)
            if self.stop.is_set():
                raise KeyboardInterrupt
            if outcome.kind == "pass":
                break
        plans.replace(kept, msgspec.json.encode(outcome))
        return outcome

    def run(self, name: str, plan: Plan, *, gpu: str | None = None, control_share: float = 1.0, save: bool = False,
            log: bool = False) -> RunOutcome:  # fmt: skip
        """Write the plan, run the program under it, and keep its output until :meth:`forget`; `log` keeps the delays too.

        Trials use the process of an earlier run if one failed and left a process waiting.
        """
        folder = self.folder / "runs" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        path = folder / "plan.json"
        plans.write(plan, path)
        gpu = gpu or (self.gpus[0] if self.gpus else None)
        request = TrialRequest(
            str(folder / "report"), str(self.folder / "reference"), save, self.oracle.tolerance, self.oracle.in_process,
            plan.seed, control_share,
        )  # fmt: skip
        changed = None if save or log or not self._may_keep() else self.changes(plan)
        kept = self._kept.pop(gpu, None)
        outcome = self._asked(kept, folder, plan, request, changed) if kept is not None else None
        if outcome is None:
            variables = {**self.injection(path, folder / LOG if log else None), PLAN_VARIABLE: str(path)}
            if gpu is not None:
                variables["CUDA_VISIBLE_DEVICES"] = gpu
            request = msgspec.structs.replace(request, more=str(folder / "more") if changed else "")
            kept = _Kept(TestedProcess.start(self.oracle, folder, request, variables), plan)
            outcome = kept.process.outcome(folder, self.stop, save=save)
        if kept is not None and kept.process.waits:
            self._kept[gpu] = kept
        return outcome

    def _asked(
        self, kept: _Kept, folder: Path, plan: Plan, request: TrialRequest, changed: Path | None
    ) -> RunOutcome | None:
        """The outcome of trials in a waiting process; None if it ran none and has exited."""
        if changed is not None and set(plan.points) <= set(kept.plan.points):
            kept.process.ask(msgspec.structs.replace(request, plan=str(changed)))
            outcome = kept.process.outcome(folder, self.stop, pause_s=_ASKED_PAUSE_S)
            if outcome.control + outcome.delayed or self.stop.is_set():
                return outcome
        kept.process.end()
        return None

    def _may_keep(self) -> bool:
        """Whether the outcomes of trials alone decide how a run ended."""
        oracle = self.oracle
        return oracle.in_process > 1 and not oracle.same_output and not oracle.same_files

    def end_processes(self) -> None:
        """End the processes that wait for further trials."""
        while self._kept:
            self._kept.popitem()[1].process.end()

    def forget(self, name: str) -> None:
        """Remove a run's output once its result is recorded and its plan can be derived from the journal."""
        shutil.rmtree(self.folder / "runs" / name, ignore_errors=True)


def visible_gpus(text: str | None) -> tuple[str, ...]:
    """`--gpus`: a number of GPUs, or their indices or UUIDs separated by commas, as CUDA_VISIBLE_DEVICES names them.

    Raises:
        UsageError: when it is neither, or names a GPU twice.
    """
    if text is None:
        return ()
    names = [name.strip() for name in text.split(",")]
    visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    if len(names) == 1 and names[0].isdigit() and int(names[0]) > 0:
        count = int(names[0])
        if visible and count > len(visible):
            raise UsageError(f"--gpus {text}: CUDA_VISIBLE_DEVICES has {len(visible)}")
        return tuple(visible[:count] or map(str, range(count)))
    if not all(names) or len(set(names)) != len(names):
        raise UsageError(
            f"--gpus {text}: write a number of GPUs, or different names with commas between them"
        )
    return tuple(names)
