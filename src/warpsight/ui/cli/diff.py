"""`warpsight diff`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from warpsight.errors import UsageError
from warpsight.ui.cli import options, output

if TYPE_CHECKING:
    from warpsight.analysis.diff.compare import Difference

_TABLES = ("summary", "kernel", "role", "stack", "range", "operator", "sequence", "pairs")


def command(
    before: Annotated[str, typer.Argument(help="The trace to compare with.", metavar="BEFORE")],
    after: Annotated[str, typer.Argument(help="The trace that is judged.", metavar="AFTER")],
    by: Annotated[
        str | None,
        typer.Option(
            help="Show one table: summary, kernel, role, stack, range, operator, sequence or pairs."
        ),
    ] = None,
    process: options.Process = None,
    device: options.Device = None,
    top: Annotated[int | None, typer.Option(help="Rows of a table, 0 for all.", min=0)] = None,
    fail: Annotated[
        bool, typer.Option("--fail-if-slower", help="Exit with 1 when the second is slower, beyond noise.")
    ] = False,
    as_json: options.AsJson = False,
    out: options.Out = None,
    force: options.Force = False,
) -> None:
    """Compare two traces: what changed, and whether it is more than noise.

    Both are compared per iteration of their steady state: by kernel, role, stack, range, operator and order. A change counts
    when a rank test over the iterations says so and it is 1 % at least. Traces of different vendors compare by role.
    """
    if by is not None and by not in _TABLES:
        raise UsageError(f"--by is one of {', '.join(_TABLES)}, not {by!r}")
    from warpsight.api.trace import open as open_trace

    with open_trace(before) as one, open_trace(after) as two:
        found = two.diff(one, process=process or (), device=device or ())
        paths = {"before": one.path, "after": two.path}
        if by is not None and by not in found.result.tables:
            raise UsageError(
                f"neither trace has what --by {by} asks for; there is: {', '.join(found.result.tables)}"
            )
        with output.text(out, force) as target:
            if as_json:
                target.write(output.json_text({**paths, **_content(found, by, top)}))
            else:
                _print(found, by, top, target)
        from warpsight.ui.render import loss

        for trace in (one, two):
            loss.warn(trace)
    if fail and found.verdict == "slower":
        raise typer.Exit(1)


def _content(found: Difference, by: str | None, top: int | None) -> dict[str, object]:
    from dataclasses import replace

    tables = {n: t.slice(0, top) if top else t for n, t in found.result.tables.items() if by in (None, n)}
    result = replace(found.result, tables=tables)
    return {"headline": found.headline, "verdict": found.verdict, **result.to_json()}


def _print(found: Difference, by: str | None, top: int | None, target: object) -> None:
    from typing import IO, cast

    from warpsight.ui.render import differences, loss

    limit = (None if top == 0 else top) if top is not None else (20 if by else None)
    differences.show(found, cast(IO[str], target), by=by, top=limit)
    loss.findings(found.result.findings)
