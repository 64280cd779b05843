"""A record of finished conversions: a crash at any point neither loses a row nor writes one twice.

A round is: write parts numbered above the last commit, commit, delete the segments that went into them. After
a crash parts above the committed number are removed (their segments are still there), and segments the commit
names are deleted (their parts are complete). Definition segments stay until the trace is finished, because ids
refer back to them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.model.storage import manifest, store

Array = npt.NDArray[Any]


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


class Journal:
    """The commits of one recording, in its `raw` folder."""

    def __init__(self, raw: Path) -> None:
        self._raw = raw
        self._file = raw / "journal.json"

    def load(self) -> tuple[Commit, dict[str, dict[str, Array]]]:
        """The last commit and the arrays of each arena, empty before the first conversion."""
        try:
            commit = Commit(**json.loads(self._file.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return Commit(), {}
        states: dict[str, dict[str, Array]] = {}
        with np.load(self._raw / commit.arrays, allow_pickle=False) as stored:
            for key in stored.files:
                arena, _, name = key.partition("/")
                states.setdefault(arena, {})[name] = stored[key]
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

    def commit(self, commit: Commit) -> None:
        """Commit a round whose arrays and parts are on disk, then remove the old arrays.

        Raises:
            OSError: when it cannot be written; the commit before it stays in force.
        """
        manifest.write_json(self._file, vars(commit))
        for old in self._raw.glob("journal-*.npz"):
            if old.name < commit.arrays:
                old.unlink(missing_ok=True)

    def roll_back(self, root: Path, commit: Commit) -> None:
        """Remove parts of rounds that were not committed, and segments of rounds that were."""
        for path in root.glob("table=*/**/*.parquet"):
            if path.name.startswith(".") or store.part_number(path) > commit.part:
                path.unlink(missing_ok=True)
        for name in commit.converted:
            (self._raw / name).unlink(missing_ok=True)
