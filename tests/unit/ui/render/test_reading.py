"""The line that shows how far the reading of a file is."""

from __future__ import annotations

import gzip
import os
import pty
import subprocess
import sys
from pathlib import Path

from warpsight.formats.source import Source
from warpsight.ui.render import reading


def test_the_words_say_share_rate_and_time_left() -> None:
    assert (
        reading.line(Path("x/a.json"), 250 << 20, 1000 << 20, 5.0)
        == "reading a.json: 25% of 1000 MiB, 52.4 MB/s, 15 s left"
    )
    for taken in (0, 1000 << 20):  # a reader that seeks, and one that has read everything
        assert reading.line(Path("a.db"), taken, 1000 << 20, 7.2) == "reading a.db (1000 MiB): 7 s"


def test_a_source_knows_how_far_it_was_read(tmp_path: Path) -> None:
    data = os.urandom(300_000)
    (tmp_path / "plain").write_bytes(data)
    (tmp_path / "packed.gz").write_bytes(gzip.compress(data))
    for name in ("plain", "packed.gz"):
        with Source(tmp_path / name) as source, source.open() as file:
            assert file.read() == data
            assert source.taken == source.size


def test_it_is_drawn_on_a_terminal_and_gone_afterwards(tmp_path: Path) -> None:
    program = """
import sys, threading
from warpsight.formats.source import Source
from warpsight.ui.render import reading
reading._PATIENCE_S = reading._EVERY_S = 0.01
drawn = threading.Event()
write = sys.stderr.write
sys.stderr.write = lambda text: (write(text), drawn.set() if "reading" in text else None)
with Source(sys.argv[1]) as source, reading.shown(source):
    assert drawn.wait(60)
"""
    (tmp_path / "a.json").write_bytes(b"x")
    command = [sys.executable, "-c", program, str(tmp_path / "a.json")]
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stderr=theirs)
    os.close(theirs)
    assert process.wait(60) == 0
    shown = os.read(ours, 65536)
    os.close(ours)
    assert b"reading a.json (1 B): 0 s" in shown and shown.endswith(b"\r\x1b[K")
    quiet = subprocess.run(
        [*command[:2], program.replace("assert drawn.wait(60)", "pass"), command[3]], capture_output=True
    )
    assert (quiet.returncode, quiet.stderr) == (0, b"")
