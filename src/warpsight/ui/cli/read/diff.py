"""`warpsight diff`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Annotated

import typer

from warpsight.errors import UsageError
from warpsight.ui.cli import options, output
from warpsight.ui.cli.options import SIDES

if TYPE_CHECKING:
    from warpsight.analysis.diff.answer import Difference

HAS_SIDES = True
#: Exit codes of --fail-if-slower.
SLOWER, CANNOT_TELL = 4, 5
_TABLES = ("summary", "kernel", "role", "stack", "range", "operator", "tree", "sequence", "runs")


def command(
    traces: Annotated[
        list[str],
        typer.Argument(
            help="Runs of each side: traces, other tools' files, or folders of them. Between two arguments -- "
            "is optional.",
            metavar="BEFORE… -- AFTER…",
            show_default=False,
        ),
    ],
    by: Annotated[
        str | None,
        typer.Option(
            help="Show one table: summary, kernel, role, stack, range, operator, tree, sequence or runs."
        ),
    ] = None,
    process: options.Process = None,
    device: options.Device = None,
    top: options.TableRows = None,
    fail_if_slower: Annotated[
        float | None,
        typer.Option(
            "--fail-if-slower",
            help="Exit with 4 if an iteration is slower by this much beyond noise, and with 5 if the runs are "
            "inconclusive.",
            metavar="PERCENT",
        ),
    ] = None,
    untested: Annotated[
        bool,
        typer.Option(
            "--untested",
            help="With --fail-if-slower: judge by the times alone when runs are too few for a test.",
        ),
    ] = False,
    as_json: options.AsJson = False,
    out: options.Out = None,
    force: options.Force = False,
) -> None:
    """Compare runs of two versions: what changed, and whether it is more than the noise between runs.

    Record each version at least four times, better five, in turn (A B A B …): noise is how runs of one version differ. Runs are
    compared per iteration of their steady state, along their common call tree. With fewer runs nothing is tested.
    """
    _check(by, fail_if_slower, untested)
    from warpsight.api.differences import diff

    before, after = _sides(traces)
    found = diff(before, after, by=by, process=process or (), device=device or ())
    limit = None if fail_if_slower is None else fail_if_slower / 100
    if limit is not None and found.verdict == "untested" and not untested:
        raise UsageError(_too_few(found))
    with output.text(out, force) as target:
        if as_json:
            target.write(output.json_text(_content(found, before, after, top)))
        else:
            _print(found, by, top, target)
    _warn_of_loss(found)
    if limit is not None and (code := _exit_code(found, limit)):
        raise typer.Exit(code)


def _check(by: str | None, fail_if_slower: float | None, untested: bool) -> None:
    if by is not None and by not in _TABLES:
        raise UsageError(f"--by must be one of {', '.join(_TABLES)}, not {by!r}")
    if fail_if_slower is not None and not fail_if_slower > 0:
        raise UsageError(f"--fail-if-slower must be a percentage above 0, not {fail_if_slower:g}")
    if untested and fail_if_slower is None:
        raise UsageError("--untested needs --fail-if-slower")


def _sides(traces: Sequence[str]) -> tuple[list[str], list[str]]:
    """The two sides of a command line.

    Raises:
        UsageError: when it does not say which run belongs to which.
    """
    if SIDES in traces:
        place = list(traces).index(SIDES)
        sides = list(traces[:place]), list(traces[place + 1 :])
        if not all(sides) or SIDES in sides[1]:
            raise UsageError("use -- once, between the runs of the first side and those of the second")
        return sides
    if len(traces) != 2:
        raise UsageError(
            "a comparison has two sides; with several runs per side, write -- between them: diff A1 A2 … -- B1 B2 …"
        )
    return [traces[0]], [traces[1]]


def _too_few(found: Difference) -> str:
    one, two = found.runs
    if not found.change:
        return f"--fail-if-slower: {found.headline}"
    return (
        f"--fail-if-slower needs at least four runs per side to separate noise from a change, "
        f"better five; there are {one} and {two}. "
        "--untested judges by the times alone"
    )


def _exit_code(found: Difference, limit: float) -> int:
    """The exit code for --fail-if-slower, and a line that explains it."""
    from warpsight.ui.render import terminal

    if found.change is None:
        raise UsageError(f"--fail-if-slower: {found.headline}")
    if found.low is None or found.high is None:  # too few runs, and --untested
        return SLOWER if found.change >= limit else 0
    if found.verdict == "slower" and found.change >= limit:
        return SLOWER
    if found.high >= limit:
        terminal.warning(
            f"undecided: a slowdown of {limit:.1%} is within the 99% interval, which reaches {found.high:+.1%}; more runs, "
            "taken in turn, narrow it"
        )
        return CANNOT_TELL
    return 0


def _content(
    found: Difference, before: Sequence[str], after: Sequence[str], top: int | None
) -> dict[str, object]:
    from dataclasses import replace

    tables = {name: table.slice(0, top) if top else table for name, table in found.result.tables.items()}
    cut = replace(found, result=replace(found.result, tables=tables))
    return {"before": list(before), "after": list(after), **cut.to_json()}


def _print(found: Difference, by: str | None, top: int | None, target: IO[str]) -> None:
    from warpsight.ui.render import differences, loss

    limit = (None if top == 0 else top) if top is not None else (20 if by else None)
    differences.show(found, target, by=by, top=limit)
    loss.findings(found.result.findings)


def _warn_of_loss(found: Difference) -> None:
    from warpsight.ui.render import terminal

    if found.lost:
        source, cause, count = found.lost[0]
        more = f" and {len(found.lost) - 1} more causes" if len(found.lost) > 1 else ""
        terminal.warning(f"incomplete: {count:,} lost in {source}: {cause}{more} (warpsight info shows all)")
