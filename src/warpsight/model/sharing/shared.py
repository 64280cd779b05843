"""A trace prepared for sharing: the same rows, with every string that could reveal something private redacted.

Exports are made from it. Tables without private text are read in place; the others are rewritten to a private folder that is
removed when the trace is closed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from warpsight.model.schema import TABLES
from warpsight.model.sharing import secrets
from warpsight.model.sharing.redaction import Redactor
from warpsight.model.storage import manifest, store
from warpsight.model.trace import StoredTrace

if TYPE_CHECKING:
    import pyarrow as pa

#: A string that contains a path contains at least this. Most strings hold neither a path nor a secret, and this check is cheap.
_PATHS = r"[/\\]"
#: What can be kept as recorded; `paths` includes names of users and hosts.
INCLUDABLE = ("paths", "arguments", "environment")


def shared(trace: StoredTrace, include: Iterable[str] = ()) -> StoredTrace:
    """A redacted trace to read instead of `trace`, which must stay open for as long; close it too.

    Args:
        trace: The trace as recorded.
        include: Any of :data:`INCLUDABLE`; secrets are never included.
    """
    wanted = frozenset(include)
    redactor = Redactor.of(trace, include=wanted)
    folder = TemporaryDirectory(prefix="warpsight-shared-")  # mode 0700
    try:
        files = {
            table: parts
            for table in TABLES
            if (parts := _redacted(trace.folder, table, redactor, Path(folder.name)))
        }
        path = trace.path if "paths" in wanted else redactor.text(Path(trace.path.rstrip("/")).name)
        out = StoredTrace(trace.folder, path=path, temporary=folder, instead=files)
    except BaseException:
        folder.cleanup()
        raise
    out.manifest = _plain(trace.manifest, redactor)
    return out


def without_secrets(root: Path, folder: Path) -> tuple[dict[Path, Path], dict[str, Any]]:
    """Replacements for parts and manifest of the trace in `root` that still hold a secret: old part → new part in `folder`.

    Traces written by other tools and older versions may; everything else stays as recorded.
    """
    redactor = Redactor(paths=False, arguments=False, environment=False)
    instead: dict[Path, Path] = {}
    for table in TABLES:
        new = _redacted(root, table, redactor, folder)
        instead |= zip(store.parts(root, table), new, strict=True) if new else ()
    return instead, _plain(manifest.read(root), redactor)


def _redacted(root: Path, table: str, redactor: Redactor, folder: Path) -> list[Path]:
    """New parts of a table, none when nothing in it has to be hidden."""
    import pyarrow.parquet as pq

    parts = list(store.parts(root, table))
    columns = [column.name for column in TABLES[table].columns if column.free or column.word]
    if not columns:
        return []
    changed: list[dict[str, pa.Array]] = []
    for part in parts:
        present = [c for c in columns if c in pq.read_schema(part).names]
        data = pq.read_table(part, columns=present, partitioning=None)
        changed.append(dict(_columns(table, data, redactor)))
    if not any(changed):
        return []
    out = []
    for number, (part, columns_of) in enumerate(zip(parts, changed, strict=True)):
        data = store.read_part(TABLES[table], part)
        for name, values in columns_of.items():
            data = data.set_column(data.column_names.index(name), data.schema.field(name), values)
        out.append(store.part_path(folder, table, None, number))
        store.write_part(out[-1], TABLES[table], data)
    return out


def _columns(table: str, data: pa.Table, redactor: Redactor) -> Iterator[tuple[str, pa.Array]]:
    """The columns of a part that change, with their new values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    pattern = "|".join(
        [_PATHS, secrets.SUSPICIOUS_TO_OTHERS, *(re.escape(name) for name, _ in redactor.names)]
    )
    for name in data.column_names:
        coded = pc.dictionary_encode(data.column(name).cast(pa.string())).combine_chunks()
        if isinstance(coded, pa.ChunkedArray):  # no rows
            continue
        texts = coded.dictionary
        change = _change(table, name, redactor)
        if change is None:
            doubtful = pc.match_substring_regex(texts, pattern, ignore_case=True).to_pylist()
            change = secrets.shareable if name in _words(table) else redactor.text
        else:
            doubtful = [True] * len(texts)
        old = texts.to_pylist()
        new = [change(text) if look else text for text, look in zip(old, doubtful, strict=True)]
        if new != old:
            yield name, pa.array(new, pa.string()).take(coded.indices)


def _change(table: str, column: str, redactor: Redactor) -> Callable[[str], str | None] | None:
    """The new values of a column that needs more than string redaction."""
    if table == "process" and column == "command":
        return redactor.command
    if table == "process" and column == "environment":
        return (lambda text: None) if redactor.environment else redactor.text
    return None


def _words(table: str) -> frozenset[str]:
    """Columns in which a name is not a user's or a host's."""
    return frozenset(column.name for column in TABLES[table].columns if column.word)


def _plain(value: object, redactor: Redactor, key: str = "") -> Any:
    """A manifest's value, redacted."""
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if k != "environment" or not redactor.environment}
        return {k: _plain(v, redactor, k) for k, v in kept.items()}
    if isinstance(value, list):
        if key == "command":
            return [redactor.command(shlex.join(map(str, value)))]
        return [_plain(v, redactor) for v in value]
    if isinstance(value, str):
        return redactor.command(value) if key == "command" else redactor.text(value)
    return value
