"""`warpsight record --capsule`: work cut out of the program that is recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from warpsight.errors import UsageError, WarpsightError
from warpsight.ui.render import terminal

if TYPE_CHECKING:
    from warpsight.recorder.options.settings import Settings
    from warpsight.recorder.ring.progress import Outstanding
    from warpsight.recorder.ring.recorder import RingRecorder
    from warpsight.replay.capsule.recording import CapsuleChoice

_TRIGGER = "trigger"


@contextmanager
def cutting(
    choice: CapsuleChoice | None, out: Path, program: Sequence[str], ring: RingRecorder | None, *, force: bool
) -> Iterator[dict[str, str]]:
    """Yield variables that have work cut out of the program; at the end, make the capsules and report on them.

    Triggers of `ring` are passed on to the program's processes.
    """
    if choice is None:
        yield {}
        return
    from warpsight.inside.capsules import REQUEST
    from warpsight.replay.capsule import recording
    from warpsight.ui.cli.capsule.record import summarize

    with recording.left_by_processes(out) as folder:

        def pass_on(pid: int, hung: Outstanding | None) -> None:
            with suppress(OSError):  # it has exited, or uses no GPU
                if hung is not None:
                    (folder / str(pid) / "hung").write_text(f"{hung.oldest} {hung.returned} {hung.thread}\n")
            recording.trigger(folder, pid)

        if ring is not None:
            ring.on_trigger = pass_on
        yield {REQUEST: recording.request(choice, folder)}
        try:
            summarize(recording.collect(folder, choice, out, program, 0, replace=force))
        except WarpsightError as error:
            terminal.warning(str(error))


def chosen(what: str, settings: Settings) -> CapsuleChoice | None:
    """The meaning of `--capsule`: step:N, frame:N, or the step after a trigger; None if not given.

    Raises:
        UsageError: when it is none of these, or does not fit the recording's settings.
    """
    if not what:
        return None
    from warpsight.inside.capsules import FRAME, STEP
    from warpsight.recorder.ring import triggers
    from warpsight.replay.capsule.recording import CapsuleChoice

    if settings.delay or settings.on_trigger or settings.leave_cupti or settings.capture_range != "off":
        raise UsageError(
            "--capsule needs a recording from the program's start on: not --delay, --on-trigger, --yield or --capture-range"
        )
    if what == _TRIGGER:
        if not settings.ring:
            raise UsageError(
                "--capsule trigger needs --ring: it cuts out the first step after a trigger, or what hangs"
            )
        hang_s = triggers.parse(settings.triggers).hang_s
        patience = hang_s or CapsuleChoice.patience
        return CapsuleChoice(range=STEP, trigger=True, hangs=bool(hang_s), patience=patience)
    subject, _, text = what.partition(":")
    least = {"step": 1, "frame": 0}.get(subject)
    if least is None or not text.isdecimal() or int(text) < least:
        raise UsageError(
            f"--capsule {what}: write step:N (from 1), frame:N (from 0) or trigger; warpsight capsule record takes more"
        )
    number = int(text) - least
    return CapsuleChoice(launches=(number, number + 1), range=STEP if subject == "step" else FRAME)
