"""`warpsight core`: explains a GPU core dump."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from warpsight.errors import UsageError, WarpsightError
from warpsight.formats.errors import decoding
from warpsight.ui.cli import options, output

if TYPE_CHECKING:
    from warpsight.debug.gpucore import GpuCore
    from warpsight.debug.gpucore.summary import SummaryOptions
    from warpsight.debug.gpucore.thread import Selector


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A GPU core dump, possibly gzipped.")],
    top: options.Top = 12,
    device: Annotated[int | None, typer.Option(help="A thread on this device.")] = None,
    sm: Annotated[int | None, typer.Option("--sm", help="… on this multiprocessor.")] = None,
    warp: Annotated[int | None, typer.Option(help="… in this hardware warp.")] = None,
    lane: Annotated[int | None, typer.Option(help="… in this lane.")] = None,
    grid: Annotated[int | None, typer.Option(help="… of this grid.")] = None,
    block: Annotated[str | None, typer.Option(metavar="X[,Y[,Z]]", help="… of this block.")] = None,
    thread: Annotated[str | None, typer.Option(metavar="X[,Y[,Z]]", help="… with this index.")] = None,
    memory: Annotated[int, typer.Option(metavar="BYTES", min=0, help="Bytes of shared and local memory to show.")] = 0,
    warps: Annotated[bool, typer.Option("--warps", help="List warps with their lanes.")] = False,
    modules: Annotated[bool, typer.Option("--modules", help="List code modules.")] = False,
    extract: Annotated[Path | None, typer.Option(metavar="DIR",
                       help="Write each module's code to this folder, as a cubin.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Compare with an installed cuda-gdb.")] = False,
    source: options.Sources = None,
    ptx: Annotated[list[Path] | None, typer.Option(metavar="PATH",
                   help="PTX (file or folder) with Triton's call sites; by default Triton's cache.")] = None,
    sass: Annotated[bool, typer.Option(help="Show full instructions, with nvdisasm.")] = False,
    as_json: options.JsonFrames = False,
    out: options.Out = None,
    force: options.Force = False,
) -> None:  # fmt: skip
    """Explain a GPU core dump: the fault or hang, and where every lane is.

    Needs no GPU, CUDA or debugger. Any of --device … --thread shows one thread: registers, predicates, calls, parameters,
    memory. --sass needs nvdisasm (wheel nvidia-cuda-nvdisasm, or a toolkit).
    """
    from warpsight.debug.gpucore import GpuCore
    from warpsight.debug.gpucore.summary import SummaryOptions
    from warpsight.debug.gpucore.thread import Selector
    from warpsight.device_code.disassembly import find_tool
    from warpsight.ui.render.dump import lists, summary
    from warpsight.ui.render.dump.thread import show_thread

    selector = Selector(device, sm, warp, lane, grid, _triple(block, "--block"), _triple(thread, "--thread"))
    if sum([warps, modules, extract is not None, check, not selector.empty]) > 1:
        raise UsageError("--warps, --modules, --extract, --check and a thread exclude each other")
    with decoding(str(file)):
        core = GpuCore.open(file)
    if sass and find_tool("nvdisasm") is None:
        raise WarpsightError(
            "--sass needs nvdisasm: pip install nvidia-cuda-nvdisasm, or install the CUDA toolkit"
        )
    if extract is not None:
        return _extract(core, extract, force)
    if check:
        return _check(core, as_json, out, force)
    chosen = SummaryOptions(sass, tuple(source or ()), tuple(ptx or ()), None if as_json else top or None)
    document = _document(core, chosen, selector, warps)
    with output.text(out, force) as stream:
        if as_json:
            stream.write(output.json_text(document))
        elif warps:
            lists.show_warps(document["warps"], stream)
        elif modules:
            lists.show_modules(document["modules"], stream)
        elif not selector.empty:
            show_thread(document["thread"], stream, memory)
        else:
            summary.show(document, stream, top or len(document["places"]))


def _document(core: GpuCore, options: SummaryOptions, selector: Selector, warps: bool) -> dict[str, Any]:
    """The JSON: the summary, with one thread or all warps on request."""
    from warpsight.debug.gpucore.details import details, warp_list
    from warpsight.debug.gpucore.summary import View
    from warpsight.debug.gpucore.thread import select

    with decoding(str(core.path)):
        view = View(core, options)
        document = view.document()
        if not selector.empty:
            document["thread"] = details(view, select(core, selector, view.joined)[0])
        if warps:
            document["warps"] = warp_list(view)
    return document


def _triple(text: str | None, option: str) -> tuple[int, int, int] | None:
    if text is None:
        return None
    try:
        values = [int(word) for word in text.strip("() ").split(",")]
    except ValueError:
        values = []
    if not 1 <= len(values) <= 3 or min(values) < 0:
        raise UsageError(f"{option} {text!r} is not an index: write 5 or 5,0,0")
    x, y, z = (*values, 0, 0)[:3]
    return x, y, z


def _extract(core: GpuCore, folder: Path, force: bool) -> None:
    """Write each module's relocated and original code."""
    from warpsight.debug.gpucore.layout import Kind

    folder.mkdir(parents=True, exist_ok=True)
    written = 0
    for module in range(len(core.table(Kind.MODULES))):
        for kind, suffix in ((Kind.RELOCATED_IMAGE, "cubin"), (Kind.IMAGE, "original.cubin")):
            found = core.data_of(kind, module)
            if found is None:
                continue
            path = folder / f"module-{module:03}.{suffix}"
            with output.binary(path, force) as file:
                file.write(found[0])
            cubin = core.cubin(module)
            names = list(cubin.sections.values())[:3] if cubin else []
            print(f"{path}  {len(found[0]):,} bytes  {', '.join(names)}")
            written += 1
    if not written:
        raise WarpsightError(f"{core.path}: the dump holds no code of any module")


def _check(core: GpuCore, as_json: bool, out: Path | None, force: bool) -> None:
    """Compare with cuda-gdb; exit code 1 when they differ."""
    from warpsight.debug.cuda_gdb_check import compare

    differences, report = compare(core)
    with output.text(out, force) as stream:
        if as_json:
            stream.write(output.json_text(report))
        else:
            stream.write("".join(f"{line}\n" for line in report["lines"]))
    if differences:
        raise typer.Exit(1)
