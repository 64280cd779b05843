"""`manifest.json`: a trace's identity, maker and history; written last, so a folder that has it is complete."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

from warpsight.errors import TraceError
from warpsight.model import private_files
from warpsight.model.schema import SCHEMA_VERSION

FILE = "manifest.json"
FORMAT = "warpsight trace"
_NUMBER = (int, float)
_SOURCE = {"kernels": [{"grid": [int], "block": [int]}]}
#: What each value has to be, and that in words: a type; for a list its elements'; for an object those of its keys (`*`: of any);
#: in a tuple, one of them.
_KINDS: dict[str, tuple[Any, str]] = {
    "host": (str, "text"),
    "clocks": ({"wall": (dict, type(None))}, "object of objects"),
    "processes": ([dict], "list of objects"),
    "devices": ([dict], "list of objects"),
    "rows": (dict, "object"),
    "loss": ([dict], "list of objects"),
    "overhead": ({"*": (*_NUMBER, type(None))}, "object of numbers"),
    "settings": (dict, "object"),
    "topology": ({"gpus": [{"uuid": str, "speed": (*_NUMBER, type(None))}]}, "topology"),
    "source": ((str, _SOURCE, [(str, _SOURCE)]), "description of files"),
}
#: Null if unknown.
_UNKNOWN = frozenset({"host", "clocks"})


def version() -> str:
    """The version of warpsight."""
    from warpsight._version import __version__

    return __version__


def write(root: Path, content: dict[str, Any]) -> None:
    """Write the manifest, without secrets, under a temporary name and rename it; format and schema version are added."""
    from warpsight.model.sharing import secrets

    full = {"format": FORMAT, "schema": SCHEMA_VERSION, "warpsight": version(), **content}
    write_json(root / FILE, secrets.plain(full))


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write JSON (mode 0600) atomically: a reader sees the old file or the new one."""
    temporary = path.with_name("." + path.name)
    descriptor = private_files.create(temporary, new=False)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
            json.dump(content, file, indent=1, ensure_ascii=False)
            file.write("\n")
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def around(path: Path) -> Path | None:
    """The trace folder that a path lies in, or None; a folder does not lie in itself."""
    begin = f'"format": "{FORMAT}"'.encode()
    for folder in path.resolve().parents:
        if (folder / FILE).is_file():
            with (folder / FILE).open("rb") as file:
                if begin in file.read(256):  # the first key that is written
                    return folder
    return None


def read(root: Path) -> dict[str, Any]:
    """Read and check the manifest of a trace folder.

    Raises:
        TraceError: when it is missing, is not a manifest, or has a schema that this version cannot read.
    """
    path = root / FILE
    if problem := private_files.unreadable(path):
        raise TraceError(f"{path} {problem}")
    try:
        content = json.loads(
            path.read_text(encoding="utf-8"), parse_constant=lambda _: None, parse_float=_finite
        )
    except FileNotFoundError:
        raise TraceError(_missing(root)) from None
    except NotADirectoryError:
        raise TraceError(f"{root} is a file, not a trace folder") from None
    except PermissionError:
        raise TraceError(f"{path} may not be read: permission denied") from None
    except (OSError, ValueError, RecursionError) as error:
        raise TraceError(
            f"{path} is damaged ({error}); the tables beside it are ordinary Parquet and can be read"
        ) from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise TraceError(f"{path} is not the manifest of a warpsight trace")
    check(path, content.get("schema"))
    for key, (kind, words) in _KINDS.items():
        value = content.get(key)
        if key in content and not _fits(value, kind) and not (value is None and key in _UNKNOWN):
            raise TraceError(
                f"{path} is damaged: {key} is not a {words}; the tables beside it can still be read"
            )
    return content


def check(path: Path, schema: object) -> None:
    """Refuse a schema version this code was not written for."""
    if schema == SCHEMA_VERSION:
        return
    if isinstance(schema, int) and schema > SCHEMA_VERSION:
        raise TraceError(
            f"{path.parent} has trace schema {schema}, newer than {SCHEMA_VERSION}, which this warpsight "
            f"({version()}) reads: install a newer warpsight"
        )
    raise TraceError(
        f"{path.parent} has trace schema {schema!r}; this warpsight ({version()}) reads {SCHEMA_VERSION}: "
        "open it with the warpsight that wrote it"
    )


def _fits(value: object, kind: Any) -> bool:
    """Whether a value is of a kind (:data:`_KINDS`)."""
    if isinstance(kind, tuple):
        return any(_fits(value, one) for one in kind)
    if isinstance(kind, list):
        return isinstance(value, list) and all(_fits(one, kind[0]) for one in value)
    if isinstance(kind, dict):
        kinds = isinstance(value, dict) and [
            (one, kind.get(key, kind.get("*"))) for key, one in value.items()
        ]
        return kinds is not False and all(one is None or _fits(part, one) for part, one in kinds)
    return isinstance(value, kind)


def _finite(text: str) -> float | None:
    """The number, or None if it is not finite: JSON has no infinity."""
    number = float(text)
    return number if math.isfinite(number) else None


def _missing(root: Path) -> str:
    if not root.exists():
        return f"{root} does not exist"
    if (root / "raw").is_dir():
        return f"{root} is a recording that was not finished: wait for it, or run `warpsight recover {root}`"
    return f"{root} is not a warpsight trace: it has no {FILE}"
