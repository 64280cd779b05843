"""CLP archives of an instruction trace, unpacked and made by `clp-s` of the CLP project (wheel `yscope-clp-core`, extra `clp`).

CUTracer's `kernel.clp` is the output of `clp-s c --single-file-archive`: a folder with one archive file, or that file. The layout
changes with clp-s, so clp-s itself reads it; `--ordered` gives the records in the order in which they were written.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import tempfile
from pathlib import Path

from warpsight.errors import WarpsightError
from warpsight.formats.source import Source

#: First bytes of a single-file archive.
MAGIC = b"\xfd\x2f\xc5\x30"
_HELP = "needs clp-s: pip install 'warpsight[clp]' (Linux), or put clp-s of the CLP project on PATH"
_TIMEOUT_S = 3600


def source_of(path: Path | str) -> Source:
    """A source of a trace's records; an archive is unpacked to a private temporary folder, which is removed when it is closed.

    Raises:
        FormatError: when nothing is found, or an archive cannot be unpacked.
    """
    source = Source(path)
    archive = _archive(source)
    return source if archive is None else _Unpacked(source, archive)


def is_archive(source: Source) -> bool:
    """Whether a source is a CLP archive."""
    return _archive(source) is not None


def pack(records: Path, archive: Path, name: str = "") -> None:
    """Pack an NDJSON file into an archive; errors refer to it as `name`.

    Raises:
        WarpsightError: when clp-s is missing or fails.
    """
    name = name or str(archive)
    tool = _tool()
    if tool is None:
        raise WarpsightError(f"{name}: writing a CLP archive {_HELP}")
    with tempfile.TemporaryDirectory(prefix="warpsight-") as folder:
        problem = _run(tool, "c", "--single-file-archive", folder, str(records))
        made = [file for file in Path(folder).iterdir() if file.is_file()]
        if problem or len(made) != 1:
            raise WarpsightError(f"{name}: clp-s: {problem or 'made no archive'}")
        shutil.move(made[0], archive)


def _archive(source: Source) -> Path | None:
    """The archive file of a source: itself, or the only file of its folder."""
    path = source.path
    if source.is_directory:
        files = [file for file in path.iterdir() if not file.name.startswith(".")][:2]
        if len(files) != 1 or not files[0].is_file():
            return None
        path = files[0]
    with path.open("rb") as file:
        return path if file.read(4) == MAGIC else None


class _Unpacked(Source):
    """The records of an archive, under the archive's name."""

    def __init__(self, archive: Source, file: Path) -> None:
        tool = _tool()
        if tool is None:
            raise archive.error(f"is a CLP archive; reading one {_HELP}")
        folder = tempfile.TemporaryDirectory(prefix="warpsight-")
        problem = _run(tool, "x", "--ordered", str(file), folder.name)
        made = sorted(Path(folder.name).iterdir())
        if problem or len(made) != 1:
            folder.cleanup()
            raise archive.error(f"the CLP archive cannot be unpacked: {problem or 'it holds no records'}")
        super().__init__(made[0])
        self.name = archive.name
        self._temporary = folder


def _run(tool: str, *arguments: str) -> str:
    """Run clp-s; returns its last words if it failed, otherwise ""."""
    try:
        done = subprocess.run(
            [tool, *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"clp-s took longer than {_TIMEOUT_S} s"
    if not done.returncode:
        return ""
    said = (done.stderr or done.stdout).strip().splitlines()
    return said[-1] if said else f"exit code {done.returncode}"


def _tool() -> str | None:
    if found := shutil.which("clp-s"):
        return found
    spec = importlib.util.find_spec("yscope_clp_core")
    inside = Path(spec.origin).parent / "bin" / "clp-s" if spec and spec.origin else None
    return str(inside) if inside and inside.is_file() else None
