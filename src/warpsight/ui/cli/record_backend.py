"""`warpsight record --backend nsys|rocm|metal|maca|ascend`: a vendor's recorder, its recording imported.

Of AMD's and MetaX' GPUs warpsight has recorders of its own too, taken where ROCm's or MACA's library for tools is; `--recorder`
chooses.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from warpsight.errors import UsageError, WarpsightError
from warpsight.recorder.settings import Settings
from warpsight.ui.render import numbers, terminal

if TYPE_CHECKING:
    from warpsight.formats.importing import Imported

#: Values of --recorder: ours where it can run, ours or nothing, the vendor's.
RECORDERS = ("auto", "own", "vendor")
#: What a vendor's recorder may take over; all other options are those of warpsight's own recorders.
_SHARED = ("backend", "duration", "delay")


def is_vendors(backend: str, recorder: str = "auto", *, only_vendors: bool = False) -> bool:
    """Whether a vendor's recorder is to run; `only_vendors`: options were given that only those have.

    Raises:
        UsageError: when the backend is neither a vendor's nor ours, or has no such recorder.
        WarpsightError: when our own was asked for and what it needs is not here.
    """
    from warpsight.recorder.settings import BACKENDS
    from warpsight.recorder.vendors import VENDORS

    if recorder not in RECORDERS:
        raise UsageError(f"--recorder is one of {', '.join(RECORDERS)}, not {recorder!r}")
    if backend not in VENDORS and backend not in BACKENDS:
        known = dict.fromkeys((*BACKENDS, *VENDORS))
        raise UsageError(f"--backend is one of {', '.join(known)}, not {backend!r}")
    if backend not in VENDORS or backend not in BACKENDS:
        if recorder == ("own" if backend in VENDORS else "vendor"):
            raise UsageError(
                f"--recorder {recorder} goes with --backend rocm or maca; --backend {backend} has one recorder"
            )
        return backend in VENDORS
    if recorder == "vendor" or (recorder == "auto" and only_vendors):
        return True
    return not _takes_own(backend, required=recorder == "own")


def _takes_own(backend: str, *, required: bool) -> bool:
    """Whether what our own recorder needs is here; says which is taken."""
    from warpsight.recorder.vendors import own_recorder, recorder

    own = own_recorder(backend)
    if own.library is not None:
        terminal.note(
            f"{backend}: recording in the process through {own.library}, untested on {own.vendor}'s hardware; "
            f"--recorder vendor runs {recorder(backend).tool}"
        )
        return True
    if required:
        raise WarpsightError(f"--recorder own needs {own.needs}")
    return False


def check(
    settings: Settings, backend: str, *, vendors: bool, arguments: str, keep: bool, template: str
) -> None:
    """Refuse options that the chosen recorder would ignore.

    Raises:
        UsageError: naming one.
    """
    from warpsight.recorder.vendors import VENDORS

    if not vendors:
        for flag, value in (("--backend-args", arguments), ("--keep", keep), ("--template", template)):
            if value and backend in VENDORS:
                raise UsageError(f"{flag} goes with --recorder vendor: warpsight's own recorder takes none")
            if value:
                raise UsageError(f"{flag} goes with --backend {', '.join(VENDORS)}")
        return
    defaults = Settings().to_json()
    for name, value in settings.to_json().items():
        if name not in _SHARED and value != defaults[name]:
            flag = "--" + name.replace("_", "-")
            raise UsageError(
                f"{flag} is an option of warpsight's own recorders, not of --backend {backend}: "
                "give its recorder's with --backend-args"
            )


def record(backend: str, path: Path, program: Sequence[str], settings: Settings, *, arguments: str, keep: bool,
           template: str, force: bool, strict: bool) -> int:  # fmt: skip
    """Record through the vendor's recorder and say what came out; the program's exit code, 3 under `strict` after losses."""
    from warpsight.recorder.vendors import recorder, running

    chosen = recorder(backend)
    try:
        extra = shlex.split(arguments)
    except ValueError as error:
        raise UsageError(f"--backend-args {arguments!r}: {error}") from None
    request = running.request_of(
        chosen, duration=settings.duration, delay=settings.delay, template=template, arguments=extra
    )
    done = running.record(backend, program, path, request, keep=keep, force=force)
    if done.kept is not None:
        terminal.note(f"{done.kept}: what {chosen.tool} wrote")
    if done.imported is None:
        terminal.error(f"{path} was not made: {done.problem}")
        return done.exit_code or 1
    lost = _tell(done.imported)
    return 3 if strict and lost and done.exit_code == 0 else done.exit_code


def _tell(made: Imported) -> int:
    """One line for the trace and one for each thing that is missing; how many rows are lost."""
    kernels = made.rows.get("kernel", 0)
    rest = sum(made.rows.values()) - kernels
    size = numbers.size(sum(file.bytes for file in made.files))
    terminal.note(f"{made.path}: {kernels:,} kernels and {rest:,} other rows, imported from {size}")
    lost = 0
    for row in made.losses:
        if row["severity"] == "lost":
            lost += max(int(row["count"]), 1)
            terminal.warning(f"incomplete: {row['count']:,} lost: {row['cause']}")
        elif terminal.verbosity() > 0:
            terminal.note(row["cause"])
    return lost
