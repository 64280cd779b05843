"""`warpsight sass list`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsight.errors import UsageError
from warpsight.ui.cli import options, output

if TYPE_CHECKING:
    from warpsight.sass.code import KernelCode
    from warpsight.sass.counts.kernels import Counts
    from warpsight.sass.listing import Listing
    from warpsight.sass.why.samples import StallSamples

_FORMS = ("text", "html", "svg", "json")


def command(
    source: Annotated[Path, typer.Argument(metavar="CUBIN|TRACE", help="A cubin, or a trace with instruction samples or "
                                           "counts.")],
    kernel: Annotated[str | None, typer.Argument(metavar="[KERNEL]", help="A kernel, by name or part of it, if there are "
                                                 "several.")] = None,
    form: Annotated[str | None, typer.Option("--format", help="text, html, svg (control-flow graph) or json; by default, as the "
                                             "suffix of -o implies.")] = None,
    ptx: Annotated[bool, typer.Option("--ptx", help="Also show PTX lines.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON: the table of instructions.")] = False,
    out: options.Out = None,
    force: options.Force = False,
) -> None:  # fmt: skip
    """List a kernel's instructions beside source lines and PTX, with samples, stall reasons and exact counts in the margin.

    Each instruction has its scheduling fields (wait mask, read and write barrier, yield, stall count) and live registers. The
    page shows source, SASS and PTX side by side, with the control-flow graph.
    """
    chosen = "json" if as_json else form or (out.suffix[1:] if out and out.suffix[1:] in _FORMS else "text")
    if chosen not in _FORMS:
        raise UsageError(f"--format takes {', '.join(_FORMS)}, not {chosen!r}")
    listed = _listing(source, kernel)
    with output.text(out, force) as stream:
        if chosen == "json":
            stream.write(output.json_text(listed.to_json()))
        elif chosen == "html":
            from warpsight.ui.render.sass import page as sass_page

            stream.write(sass_page.page(listed))
        elif chosen == "svg":
            from warpsight.ui.render.sass import flow_picture

            stream.write(flow_picture.svg(listed))
        else:
            from warpsight.ui.render.sass import listing as sass_listing

            sass_listing.show(listed, stream, ptx=ptx)


def _listing(source: Path, kernel: str | None) -> Listing:
    from warpsight.sass.listing import listing

    return listing(*chosen_kernel(source, kernel))


def chosen_kernel(
    source: Path, kernel: str | None
) -> tuple[KernelCode, StallSamples | None, Mapping[int, Counts] | None]:
    """A kernel of a cubin or a trace, and its samples and counts."""
    from warpsight.model.private_files import no_file
    from warpsight.sass import code, recorded
    from warpsight.sass.records.origin import is_trace

    if source.is_dir() or (source.is_file() and is_trace(source)):
        from warpsight.model import open as open_trace

        with open_trace(source) as opened:
            chosen = recorded.choose(recorded.listed_kernels(opened), kernel, str(source))
        assert chosen.code is not None
        return chosen.code, chosen.samples, chosen.counts
    if reason := no_file(source):
        raise UsageError(f"{source}: {reason}")
    from warpsight.device_code.cubin import Cubin

    return code.choose(code.kernels(Cubin.open(source)), kernel, str(source)), None, None
