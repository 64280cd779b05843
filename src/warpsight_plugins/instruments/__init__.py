"""Apple Instruments: the XML of `xctrace export`, a folder of such files, or a `.trace` through an installed `xctrace`.

A cell of the XML that occurs again is only a reference (`<process ref="6"/>`) to one that was written before, anywhere
in the file, also inside another cell. Tables are Instruments' own schemas (metal-gpu-intervals, …); their columns are
looked up by mnemonic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsight.formats.registry import Coverage

if TYPE_CHECKING:
    from pathlib import Path

    from warpsight.formats.registry import Options
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target


def sniff(source: Source) -> bool:
    """XML with a query result of xctrace, a folder of such files, or a .trace bundle."""
    if not source.is_directory:
        return b"<trace-query-result" in source.head[:4096]
    return _is_bundle(source.path) or bool(_files(source.path))


def read(source: Source, target: Target, options: Options) -> None:
    """Read one file, the files of a folder, or a bundle.

    Raises:
        FormatError: for damaged XML, an undefined reference, or a bundle if xctrace is missing.
    """
    from warpsight_plugins.instruments.export import exported
    from warpsight_plugins.instruments.tables import InstrumentsReader

    del options
    reader = InstrumentsReader(target)
    if not source.is_directory:
        reader.read(source)
    elif _is_bundle(source.path):
        with exported(source) as files:
            for path in files:
                with source.member(path) as member:
                    reader.read(member)
    else:
        for path in _files(source.path):
            with source.member(path) as member:
                reader.read(member)
    reader.close()


def _is_bundle(folder: Path) -> bool:
    # Our own folder of Kineto files, one per process, ends alike.
    return folder.name.endswith(".trace") and not folder.name.endswith(".pt.trace")


def _files(folder: Path) -> list[Path]:
    """XML files of a folder that begin as query results."""
    found = []
    for path in sorted(folder.glob("*.xml")):
        with path.open("rb") as file:
            if b"<trace-query-result" in file.read(4096):
                found.append(path)
    return found


COVERAGE = Coverage(
    kept=(
        "Metal GPU intervals as kernels, encoders as launches, submissions as calls; signposts; GPU counters;"
        " samples",
    ),
    lost=("grid sizes, which Instruments does not record; tables of other schemas, named in a note",),
    tested=("files written after exports of Xcode 15 and 16 quoted in public tests",),
)
