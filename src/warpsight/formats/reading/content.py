"""Recognizes files that no reader supports, so that the message names the kind of file instead of listing formats."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from warpsight.formats.reading.databases import SQLITE_MAGIC
from warpsight.model.sharing.pack import is_packed

if TYPE_CHECKING:
    from warpsight.formats.source import Source

#: First bytes → what such a file is.
_KINDS = (
    (b"\x7fELF", "is an ELF file (a program, library or cubin), not a trace"),
    (b"PK", "is a zip archive, not a packed trace: unpack it and name the file inside"),
    (b"%PDF", "is a PDF, not a trace"),
    (b"\x89PNG", "is a picture (PNG), not a trace"),
    (b"PAR1", "is a Parquet file: name the folder that holds all tables of the export"),
    (b"ARROW1", "is an Arrow file: name the folder that holds all tables of the export"),
    (b"\xfd7zXZ\0", "is compressed with xz, which is not read: unpack it first"),
    (b"BZh", "is compressed with bzip2, which is not read: unpack it first"),
    (b"\x1f\x8b", "is compressed more than once: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "is compressed more than once: unpack it first"),
)
_UNKNOWN = (
    "in no known format (`warpsight import --formats` lists the formats; `import --from FORMAT` forces one)"
)
#: Identifies one of our own traces.
TRACE = "is a warpsight trace already: every verb reads it as it is"
_LONGEST_PATH = 4096
#: Columns of every table of rocprof 1, among the definitions that a database begins with.
_ROCPROF_1 = (b"BeginNs", b"EndNs", b"DurationNs")
#: Maximum keys of a JSON object named in a message.
_MOST_KEYS = 6


def described(source: Source) -> str:
    """The content's likely kind, as a clause that follows the file's name."""
    if source.is_directory:
        return "is a folder without files in any known format"
    head = source.head
    if head.startswith(SQLITE_MAGIC):
        return _database(source)
    if head.startswith(b"PK") and is_packed(source.path):
        return TRACE
    for magic, size_text in _KINDS:
        if head.startswith(magic):
            return size_text
    if stands_for := _pointer(head, source.size):
        return stands_for
    if not head.strip(b"\0"):
        return "holds zero bytes only"
    try:
        text = head[: head.rfind(b"\n") + 1 or len(head)].decode()
    except UnicodeDecodeError:
        return f"holds binary data {_UNKNOWN}"
    if any(character < " " and character not in "\t\n\r\f\x1b" for character in text):
        return f"holds binary data {_UNKNOWN}"
    if text.lstrip("\ufeff \t\r\n")[:1] in ("{", "["):
        return _json(head)
    if text.lstrip().startswith(("<!DOCTYPE html", "<html")):
        return "is an HTML page, not a trace"
    return f"holds {'text' if text.isprintable() or chr(10) in text else 'data'} {_UNKNOWN}"


def _pointer(head: bytes, size: int) -> str:
    """The placeholder text that stands in for a missing file in a checkout; empty for real files."""
    if head.startswith(b"version https://git-lfs.github.com/"):
        found = re.search(rb"^size (\d{1,15})$", head, re.MULTILINE)
        size_text = f" of {int(found[1]):,} bytes" if found else ""
        return f"is Git LFS's pointer to a file{size_text} that was not fetched: run `git lfs pull`"
    if size > _LONGEST_PATH:
        return ""
    text = head.decode(errors="replace").strip()
    if "/annex/objects/" in text and "\n" not in text:
        return "is git-annex's pointer to a file that was not fetched: run `git annex get` on it"
    if (
        text.isprintable()
        and re.fullmatch(r"(?:\.{0,2}/)?(?:[^/{}<>;,]+/)*[^/\s{}<>;,]+\.\w+", text)
        and "/" in text
    ):
        return f"is not a trace but a text of {size} bytes that names another file, {text!r}: a symbolic link copied as text?"
    return ""


def _database(source: Source) -> str:
    """SQLite's header contains the size: bytes 16-17 of a page (1 means 65,536), bytes 28-31 the number of pages."""
    head = source.head
    page = int.from_bytes(head[16:18], "big")
    whole = (65_536 if page == 1 else page) * int.from_bytes(head[28:32], "big")
    size = len(head) if source.compression else source.size
    if whole and not source.compression and size < whole:
        return f"is a damaged SQLite database: only {size:,} of its {whole:,} bytes are present; copy or export it again"
    if all(column in head for column in _ROCPROF_1):
        return (
            "is the database that rocprof 1 works with: name the .json or .csv file that it wrote beside it"
        )
    if of_nvprof(head):
        return "is a profile of nvprof or the Visual Profiler, which warpsight cannot read: record again, with warpsight or nsys"
    return "is a damaged SQLite database, or not one that a known profiler writes"


def _json(head: bytes) -> str:
    try:
        found = json.loads(head)
    except (ValueError, RecursionError):
        return f"looks like JSON that is cut off, damaged, or {_UNKNOWN}"
    if isinstance(found, dict):
        keys = ", ".join(f"{key[:40]!r}" for key in list(found)[:_MOST_KEYS]) or "none"
        return f"is JSON (its keys: {keys}) {_UNKNOWN}"
    return f"is JSON {_UNKNOWN}"


def of_nvprof(head: bytes) -> bool:
    """Whether a SQLite database has the tables of nvprof, which shares some with Nsight Systems."""
    return b"CUPTI_ACTIVITY_KIND_" in head and re.search(rb'CREATE TABLE "?StringTable\b', head) is not None
