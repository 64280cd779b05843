"""Options of `race stress` and `race reduce` about the program: when a run counts as failed, and how plans are passed to it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsight.errors import UsageError
from warpsight.ui.cli.options import SIDES

if TYPE_CHECKING:
    from warpsight.race.experiment import Experiment

_OPTIONS, _FAILS, _RUNS = "Options", "When a run has failed", "Runs"

ExpectExit = Annotated[int, typer.Option("--expect-exit", metavar="CODE", rich_help_panel=_FAILS,
                       help="Exit code of success; 125 always means that the run cannot be judged.")]  # fmt: skip
SameOutput = Annotated[bool, typer.Option("--same-output", rich_help_panel=_FAILS,
                       help="Standard output must equal that of a run without delays.")]  # fmt: skip
SameFile = Annotated[list[str] | None, typer.Option("--same-file", metavar="PATH", rich_help_panel=_FAILS,
                     help="So must this file that each run writes (.npy: as an array); repeatable.")]  # fmt: skip
Tolerance = Annotated[float, typer.Option("--tolerance", min=0, metavar="T", rich_help_panel=_FAILS,
                      help="Allow numbers in these and in ws.race.output to differ by T · (1 + |value|).")]  # fmt: skip
Timeout = Annotated[float, typer.Option("--timeout", metavar="S", rich_help_panel=_FAILS,
                    help="Do not judge a run that takes longer, in seconds.")]  # fmt: skip
Hang = Annotated[float, typer.Option("--hang-after", metavar="S", rich_help_panel=_FAILS,
                 help="A run that is silent for this many seconds counts as hung, and as failed.")]  # fmt: skip
InProcess = Annotated[int, typer.Option("--in-process", min=1, metavar="N", rich_help_panel=_RUNS,
                      help="Call functions marked @ws.race.trial N times per process, up to the first "
                           "failure.")]  # fmt: skip
Inject = Annotated[str, typer.Option("--inject", metavar="HOW", rich_help_panel=_RUNS,
                   help="sanitizer: patch the kernels; none: the program delays itself by the plan in "
                   "WARPSIGHT_RACE_PLAN.")]  # fmt: skip
Gpus = Annotated[str | None, typer.Option("--gpus", metavar="N or LIST", rich_help_panel=_RUNS,
                 help="Run on this many GPUs at once, or on these (as in CUDA_VISIBLE_DEVICES).")]  # fmt: skip
Confidence = Annotated[float, typer.Option("--confidence", min=0.5, max=0.9999, rich_help_panel=_OPTIONS,
                       help="Confidence of the answer.")]  # fmt: skip
Folder = Annotated[Path | None, typer.Option("-o", "--output", metavar="DIR", rich_help_panel=_OPTIONS,
                   help="Folder for the journal, plans and failing runs' output; an interrupted experiment "
                   "continues in it.")]  # fmt: skip
Force = Annotated[bool, typer.Option("-f", "--force", rich_help_panel=_OPTIONS,
                  help="Start over in a folder that holds an experiment.")]  # fmt: skip
AsJson = Annotated[bool, typer.Option("--json", rich_help_panel=_OPTIONS, help="Write JSON.")]


def sides(words: Sequence[str], example: str) -> tuple[Path | None, list[str]]:
    """The plan before `--`, if any, and the program after it.

    Raises:
        UsageError: for anything else; the message gives an example.
    """
    place = words.index(SIDES) if SIDES in words else len(words)
    if place > 1 or place + 1 >= len(words):
        raise UsageError(f"write [PLAN] -- PROGRAM; for example: {example}")
    return (Path(words[0]) if place else None), list(words[place + 1 :])


def experiment(verb: str, program: Sequence[str], folder: Path | None, inject: str, gpus: str | None,
               **oracle: object) -> Experiment:  # fmt: skip
    """The experiment that the options describe."""
    from warpsight.race.experiment import Experiment, visible_gpus

    if inject not in ("sanitizer", "none"):
        raise UsageError(f"--inject {inject}: write sanitizer or none")
    script = next((word for word in program[1:] if word.endswith((".py", ".sh"))), program[0])
    path = folder or Path(f"{Path(script).stem}.{verb}")
    return Experiment.of(program, path, inject=inject == "sanitizer", gpus=visible_gpus(gpus), **oracle)
