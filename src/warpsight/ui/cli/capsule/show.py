"""`warpsight capsule show`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from warpsight.errors import UsageError
from warpsight.ui.cli import options, output

if TYPE_CHECKING:
    from warpsight.replay.capsule.browsing import Memory, Overview
    from warpsight.replay.capsule.store import Capsule


def command(
    path: options.CapsulePath,
    allocation: Annotated[str | None, typer.Argument(metavar="[ALLOCATION]", help="An allocation or variable: id (a3, g0), "
                          "name, or an address in it.")] = None,
    when: Annotated[str, typer.Option(help="Contents before or after the range.")] = "before",
    begin: Annotated[int, typer.Option("--offset", min=0, metavar="BYTES", help="Show contents from this offset.")] = 0,
    size: Annotated[int, typer.Option("--bytes", min=0, metavar="BYTES", help="Bytes to show.")] = 128,
    verify: Annotated[bool, typer.Option("--verify", help="Check all contents against their hashes.")] = False,
    as_json: options.AsJson = False,
) -> None:  # fmt: skip
    """Say what a capsule holds: its operations, and each allocation with who made it, who wrote it last and what changed.

    Nothing of the capsule is executed.
    """
    from warpsight.replay.capsule import browsing
    from warpsight.replay.capsule.store import Capsule
    from warpsight.ui.render import terminal

    if when not in ("before", "after"):
        raise UsageError(f"--when {when}: write before or after")
    capsule = Capsule.open(path)
    if verify:
        capsule.verify()
        terminal.note(f"{path}: all {len(capsule.blobs):,} chunks are intact")
    whole = browsing.overview(capsule)
    part = browsing.one(whole, allocation) if allocation is not None else None
    with output.text(None) as stream:
        if as_json:
            stream.write(output.json_text(whole if part is None else part))
        else:
            stream.write(_text(whole) if part is None else _details(capsule, part, when, begin, size))


def _text(whole: Overview) -> str:
    from warpsight.ui.render.numbers import size

    lines = [
        f"{whole.path}: {whole.device}, CUDA {whole.driver // 1000}.{whole.driver % 1000 // 10}",
        f"  cut out of: {' '.join(whole.command)}",
        f"  {size(whole.memory_bytes)} of memory (contents: {whole.values}), {size(whole.disk_bytes)} on disk, "
        f"{whole.modules} module{'s' * (whole.modules != 1)}, {whole.graphs} graph{'s' * (whole.graphs != 1)}",
        *(f"  source: {name}" for name in whole.sources),
        *(f"  incomplete: {text}" for text in whole.incomplete),
    ]
    rows = [
        (str(o.index), o.kind, "" if o.stream is None else str(o.stream), _extent(o.grid), _extent(o.block),
         f"{o.device_time / 1000:.1f}" if o.device_time else "", o.what)
        for o in whole.operations
    ]  # fmt: skip
    lines += ["", *_table(("operation", "kind", "stream", "grid", "block", "µs", "what"), rows)]
    # Hundreds of variables are template constants: only those that the range changed are listed.
    shown = [m for m in whole.memory if m.id[0] == "a" or m.changed_bytes]
    places = [
        (m.id, m.kind, f"{m.address:#x}", size(m.size), "" if m.changed_bytes is None else size(m.changed_bytes),
         m.last_writer, m.name or m.reached)
        for m in shown
    ]  # fmt: skip
    lines += [
        "",
        *_table(("memory", "kind", "address", "size", "changed", "last written by", "what"), places),
    ]
    if len(shown) < len(whole.memory):
        lines.append(
            f"and {len(whole.memory) - len(shown):,} unchanged variables of modules (--json lists them)"
        )
    return "\n".join(lines) + "\n"


def _details(capsule: Capsule, part: Memory, when: str, begin: int, size: int) -> str:
    from warpsight.replay.capsule import browsing

    changed = "unknown" if part.changed_bytes is None else f"{part.changed_bytes:,} bytes"
    lines = [f"{part.id}  {part.kind}  {part.name}".rstrip(), f"  {part.size:,} bytes at {part.address:#x}"]
    facts = (("reached by", part.reached), ("made by", part.maker), ("last written by", part.last_writer))
    lines += [f"  {name}: {value}" for name, value in (*facts, ("changed in the range", changed)) if value]
    lines += [f"    {frame}" for frame in part.stack]
    data = browsing.contents(capsule, part, when, begin, size) if begin < part.size and size else b""
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"  {begin + at:#010x}  {row.hex(' ', 4):<36}  {text}")
    return "\n".join(lines) + "\n"


def _extent(extent: tuple[int, int, int] | None) -> str:
    return "×".join(map(str, extent)) if extent else ""


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Columns as wide as their widest cell; the last one is not padded."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    widths[-1] = 0
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, *rows)
    ]
