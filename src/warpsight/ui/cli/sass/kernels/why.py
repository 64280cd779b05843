"""`warpsight sass why`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warpsight.ui.cli import options, output


def command(
    trace: Annotated[Path, typer.Argument(help="A recording made with --pc-sampling.", metavar="TRACE")],
    kernel: Annotated[str | None, typer.Argument(metavar="[KERNEL]", help="A kernel, by name or part of it; by default the one "
                                                 "with the most samples.")] = None,
    everything: Annotated[bool, typer.Option("-a", "--all", help="Show everything.")] = False,
    as_json: options.Json = False,
    out: options.Out = None,
    force: options.Force = False,
) -> None:  # fmt: skip
    """Say which instructions make a kernel's warps stall, and what to change.

    Blames each sampled stall on its cause: the load rather than the addition that waits for it. Estimated speedups are for the
    kernel, not the program, and for one change alone.
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
