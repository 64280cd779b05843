"""Files that only their owner reads; nothing but a file is replaced."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from warpsight.model import private_files


def test_a_file_is_made_for_its_owner_and_emptied_or_refused_when_it_exists(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for new, before in ((True, None), (False, "old text")):
        if before:
            path.write_text(before)
        with os.fdopen(private_files.create(path, new=new), "w") as file:
            file.write("new")
        assert path.read_text() == "new" and stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        private_files.create(path, new=True)
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(OSError, match="link"):
        private_files.create(tmp_path / "link", new=False)
    assert path.read_text() == "new"


def test_folders_and_devices_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert (
        private_files.unreplaceable(tmp_path / "file") == private_files.unreplaceable(tmp_path / "none") == ""
    )
    assert private_files.unreplaceable(tmp_path) == "is a folder"
    assert private_files.unreplaceable(Path(os.devnull)) == "is a device or a pipe, which no file replaces"
