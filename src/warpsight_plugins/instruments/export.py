"""Tables of a `.trace` bundle as XML: only Apple's `xctrace` can read one."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from warpsight_plugins.instruments.tables import SCHEMAS

if TYPE_CHECKING:
    from warpsight.formats.source import Source


def xctrace() -> list[str] | None:
    """The command that runs xctrace, or None."""
    if program := shutil.which("xctrace"):
        return [program]
    if program := shutil.which("xcrun"):
        return [program, "xctrace"]
    return None


@contextmanager
def exported(source: Source) -> Iterator[list[Path]]:
    """XML files of the tables we read, in a private temporary folder.

    Raises:
        FormatError: when there is no xctrace, or it fails.
    """
    tool = xctrace()
    if tool is None:
        raise source.error(
            "is a recording of Instruments, which only xctrace can read, and it is not installed: on the Mac run "
            f"`xctrace export --input {source.path.name} --xpath "
            '\'/trace-toc/run[@number="1"]/data/table[@schema="metal-gpu-intervals"]\' > gpu.xml` and give gpu.xml'
        )
    toc = _run(source, [*tool, "export", "--input", str(source.path), "--toc"])
    try:
        tables = ElementTree.fromstring(toc).iter("table")
        there = {str(table.get("schema")) for table in tables}
    except ElementTree.ParseError as error:
        raise source.error(f"xctrace's list of tables is not XML: {error}") from None
    with tempfile.TemporaryDirectory(prefix="warpsight-xctrace-") as folder:
        files = []
        for schema in SCHEMAS:
            if schema in there:
                path = Path(folder) / f"{schema}.xml"
                query = f'/trace-toc/run[@number="1"]/data/table[@schema="{schema}"]'
                _run(
                    source,
                    [*tool, "export", "--input", str(source.path), "--xpath", query, "--output", str(path)],
                )
                if path.is_file():
                    files.append(path)
        yield files


def _run(source: Source, command: list[str]) -> str:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()] or ["it gave no reason"]
        raise source.error(f"xctrace export ended with code {done.returncode}: {said[-1].strip()}")
    return done.stdout
