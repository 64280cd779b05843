"""A file of JSON lines with durable appends, so that an experiment survives a kill at any moment."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from warpsight.errors import WarpsightError
from warpsight.formats.errors import FormatError
from warpsight.model.sharing import secrets
from warpsight.race.plan import sync_folder

try:
    import fcntl
except ImportError:  # where no experiment can be run either
    fcntl = None  # type: ignore[assignment]


class ExperimentJournal:
    """The lines of an experiment in a folder; the first describes it, and one process at a time has it open.

    Attributes:
        lines: the lines already in the file, after the first.
    """

    def __init__(self, path: Path, experiment: dict[str, Any]) -> None:
        """Begin a journal, or go on with one of the same experiment. A last line that was cut off is dropped.

        Raises:
            WarpsightError: when the journal is of another experiment, in use, or cannot be written.
            FormatError: when it is damaged.
        """
        self._path = path
        try:
            self._file = os.open(
                path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
            )
        except OSError as error:
            raise WarpsightError(
                f"{path} cannot be written: {(error.strerror or str(error)).lower()}"
            ) from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise WarpsightError(f"{path.parent} is in use: the same experiment is running") from None
        try:
            self.lines = self._begun(experiment)
        except BaseException:
            self.close()
            raise

    def _begun(self, experiment: dict[str, Any]) -> list[dict[str, Any]]:
        with open(self._path, "rb") as file:
            data = file.read()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            os.ftruncate(self._file, whole)
        found: list[dict[str, Any]] = []
        for number, text in enumerate(data[:whole].splitlines(), 1):
            try:
                found.append(msgspec.json.decode(text, type=dict[str, Any]))
            except msgspec.DecodeError as error:
                raise FormatError(str(self._path), f"is damaged: {error}", line=number) from None
        experiment = secrets.plain(msgspec.json.decode(msgspec.json.encode(experiment)))
        if not found:
            self.append(experiment)
            sync_folder(self._path.parent)
        elif found[0] != experiment:
            changed = ", ".join(
                sorted(key for key in {*experiment, *found[0]} if experiment.get(key) != found[0].get(key))
            )
            raise WarpsightError(
                f"{self._path.parent} holds another experiment ({changed} differs); -f replaces it, -o chooses another folder"
            )
        return found[1:]

    def append(self, line: dict[str, Any]) -> None:
        """Write a line; when this returns it is on the disk."""
        os.write(self._file, msgspec.json.encode(line) + b"\n")
        os.fsync(self._file)

    def close(self) -> None:
        """Let others open it."""
        os.close(self._file)

    def __enter__(self) -> ExperimentJournal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()
