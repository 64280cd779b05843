"""Turning `.nsys-rep` into SQLite: only NVIDIA's own `nsys` can."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from warpsight.formats.source import Source


def nsys() -> list[str] | None:
    """The command that runs nsys: on PATH, or in NVIDIA's package folders, or None."""
    places = ["/usr/local/cuda/bin/nsys", *sorted(glob.glob("/opt/nvidia/nsight-systems*/*/bin/nsys"))[::-1]]
    found = shutil.which("nsys") or next((place for place in places if os.access(place, os.X_OK)), None)
    return [found] if found else None


@contextmanager
def exported(source: Source) -> Iterator[Source]:
    """The report as a SQLite file in a private temporary folder, which is removed afterwards.

    Raises:
        FormatError: when there is no `nsys` on PATH, or it fails.
    """
    tool = nsys()
    if tool is None:
        raise source.error(
            "is an Nsight Systems report, which only nsys can read, and it is not installed: install Nsight Systems, or run "
            f"`nsys export --type=sqlite {source.path.name}` where it is installed and give the .sqlite file"
        )
    with tempfile.TemporaryDirectory(prefix="warpsight-nsys-") as folder:
        out = Path(folder) / "report.sqlite"
        command = [
            *tool, "export", "--type=sqlite", "--force-overwrite=true", f"--output={out}",
            str(source.local().resolve()),
        ]  # fmt: skip
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
        )
        if done.returncode or not out.is_file():
            said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
            raise source.error(
                f"nsys export ended with code {done.returncode}: {said[-1].strip() if said else 'it gave no reason'}; "
                "a report is read by the nsys of its own version or a newer one"
            )
        with Source(out) as export:
            yield export
