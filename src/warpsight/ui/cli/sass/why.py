"""`warpsight sass why`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warpsight.ui.cli import output


def command(
    trace: Annotated[Path, typer.Argument(help="A trace with samples of program counters.", metavar="TRACE")],
    kernel: Annotated[
        str | None,
        typer.Argument(help="A kernel, by name or a part of it; the one with most samples by default.", metavar="[KERNEL]"),
    ] = None,
    everything: Annotated[bool, typer.Option("-a", "--all", help="Leave nothing out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
    out: Annotated[Path | None, typer.Option("-o", "--output", help="Write to this new file.")] = None,
    force: Annotated[bool, typer.Option("-f", "--force", help="Replace an existing file.")] = False,
) -> None:  # fmt: skip
    """Say which instructions make a kernel's warps stall, and what to change.

    Each sampled stall is blamed on its cause: the load whose result is waited for rather than the addition that waits. Each
    estimated speedup is of the kernel, not of the program, and for one change alone.
    """
    from warpsight.model import open as open_trace
    from warpsight.sass import recorded
    from warpsight.sass.why.answer import why
    from warpsight.ui.render.sass import why as sass_why

    with open_trace(trace) as opened:
        chosen = recorded.choose(recorded.sampled_kernels(opened), kernel, str(trace))
        assert chosen.code is not None
        answer = why(
            chosen.code, chosen.samples, recorded.launch_of(opened, chosen.name, chosen.samples.total)
        )
    with output.text(out, force) as stream:
        if as_json:
            stream.write(output.json_text(answer.to_json()))
        else:
            sass_why.show(answer, stream, everything)
