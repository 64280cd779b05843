"""A record of finished conversions: a crash at any point neither loses a row nor writes one twice.

A round is: write parts numbered above the last commit, commit, delete the segments that went into them. After
a crash parts above the committed number are removed (their segments are still there), and segments the commit
names are deleted (their parts are complete). Definition segments stay until the trace is finished, because ids
refer back to them.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.errors import TraceError
from warpsight.model import private_files
from warpsight.model.storage import manifest, store

Array = npt.NDArray[Any]
_PART = re.compile(r"part-\d+(-\d+)?\.parquet")
#: Path of a file of the recording below `raw`.
_OWN_FILE = re.compile(r"(?!\.)[\w.-]+(/(?!\.)[\w.-]+)?")


@dataclass
class Commit:
    """The state after a round."""

    part: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    processes: dict[str, int] = field(default_factory=dict)
    devices: list[dict[str, Any]] = field(default_factory=list)
    losses: list[dict[str, Any]] = field(default_factory=list)
    converted: list[str] = field(default_factory=list)
    arrays: str = ""


def damaged(path: Path, error: BaseException) -> TraceError:
    """The error for a journal whose contents are impossible."""
    reason = str(error).strip().partition("\n")[0] or type(error).__name__
    return TraceError(
        f"{path} is damaged ({reason}), so the rest of the recording cannot be joined to what was converted; the files in the "
        "folders table=… are ordinary Parquet and can be read"
    )


def _commit(content: dict[str, Any]) -> Commit:
    """The commit that was stored, whose names are of files in this recording.

    Raises:
        KeyError, TypeError, ValueError: when it is damaged.
    """
    commit = Commit(**content)
    for name, value in vars(Commit()).items():
        if type(getattr(commit, name)) is not type(value):
            raise TypeError(f"{name} is not a {type(value).__name__}")
    if any(_OWN_FILE.fullmatch(name) is None for name in (*commit.converted, commit.arrays)):
        raise ValueError("it names files in another place")
    if not all(type(n) is int for n in (*commit.rows.values(), *commit.processes.values())):
        raise TypeError("a count is not a number")
    for row in commit.devices:
        _ = row["uuid"] + "", row["device"] + 0
    for row in commit.losses:
        _ = [row[key] for key in ("source", "cause", "kind", "severity", "process")], row["count"] + 0
    return commit


class Journal:
    """The commits of one recording, in its `raw` folder."""

    def __init__(self, raw: Path) -> None:
        self._raw = raw
        self._file = raw / "journal.json"

    def load(self) -> tuple[Commit, dict[str, dict[str, Array]]]:
        """The last commit and the arrays of each arena, empty before the first conversion.

        Raises:
            TraceError: when the journal is damaged.
        """
        try:
            commit = _commit(json.loads(self._file.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return Commit(), {}
        except (OSError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise damaged(self._file, error) from None
        states: dict[str, dict[str, Array]] = {}
        try:
            with np.load(self._raw / commit.arrays, allow_pickle=False) as stored:
                for key in stored.files:
                    arena, _, name = key.partition("/")
                    states.setdefault(arena, {})[name] = stored[key]
        except (OSError, EOFError, TypeError, ValueError, zipfile.BadZipFile) as error:
            raise damaged(self._raw / commit.arrays, error) from None
        return commit, states

    def save(self, commit: Commit, states: dict[str, dict[str, Array]]) -> None:
        """Store the arrays that `commit` will name; the next round may change them from here on.

        Raises:
            OSError: when they cannot be written.
        """
        commit.arrays = f"journal-{commit.part:06d}.npz"
        with (self._raw / commit.arrays).open("wb") as file:
            named: dict[str, Any] = {f"{a}/{n}": v for a, state in states.items() for n, v in state.items()}
            np.savez(file, **named)
            file.flush()
            os.fsync(file.fileno())

    def commit(self, commit: Commit) -> None:
        """Commit a round whose arrays and parts are on disk, then remove the old arrays.

        Raises:
            OSError: when it cannot be written; the previous commit stays valid.
        """
        manifest.write_json(self._file, vars(commit))
        private_files.keep(self._file)
        for old in self._raw.glob("journal-*.npz"):
            if old.name < commit.arrays:
                old.unlink(missing_ok=True)

    def roll_back(self, root: Path, commit: Commit) -> None:
        """Remove parts of rounds that were not committed, and segments of rounds that were."""
        for path in root.glob("table=*/**/*.parquet"):
            if path.name.startswith(".") or (
                _PART.fullmatch(path.name) and store.part_number(path) > commit.part
            ):
                path.unlink(missing_ok=True)
        for name in commit.converted:
            (self._raw / name).unlink(missing_ok=True)
