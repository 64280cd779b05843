"""Removes private data from strings before a file is shared: users, hosts, private paths, arguments and secrets.

A trace itself keeps what was recorded (it is private, mode 0600), except for secrets (passwords, tokens, keys), which are never
written down. Reports, flame graph pages and other files that people share are redacted unless the user asks otherwise;
secrets are searched for again in any case.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from warpsight.model.sharing import secrets

if TYPE_CHECKING:
    from warpsight.model.trace import StoredTrace

#: Home directories: they contain the user's name.
_HOME = re.compile(
    r"(?:(?<![\w.~…-])/(?:home|Users|export/home)/|[A-Za-z]:\\Users\\)([^/\\\s:;\"'()]+)|(?<![\w/.])/root(?=[/\s:;\"')]|$)"
)
#: From here on, a path names the library, not where it is installed.
_LIBRARY = re.compile(r"^.*/(?:site-packages|dist-packages)/|^.*/lib/(?=python\d)|^.*/(?=lib[\w.+-]+\.so)")
#: An absolute path inside a string.
_PATH = re.compile(r"(?<![\w/.~…])(~?/(?:[\w@%+=,.~-]+/)+[\w@%+=,.~-]+)")
#: Folders whose contents are the same everywhere.
_PUBLIC = ("usr", "dev", "proc")
#: Names too common to identify anybody: replacing them would mangle text.
_NO_NAMES = frozenset(
    {"root", "user", "users", "home", "localhost", "host", "admin", "ubuntu", "runner", "work", "nobody"}
)


@dataclass(frozen=True)
class Redactor:
    """The rules of a redaction. Hosts and users become numbered words; equal names become equal words.

    Attributes:
        names: Host and user names in the trace, and their replacements.
        paths: Shorten private paths.
        arguments: Leave out the arguments of commands.
        environment: Leave out environment variables.
    """

    names: tuple[tuple[str, str], ...] = ()
    paths: bool = True
    arguments: bool = True
    environment: bool = True

    @classmethod
    def of(
        cls, trace: StoredTrace, *, include: Iterable[str] = (), also: Iterable[tuple[str, str]] = ()
    ) -> Redactor:
        """The rules for a trace's own processes, devices and paths.

        Args:
            trace: The trace whose hosts and users are to be hidden.
            include: What to keep: `paths` (with host and user names), `arguments`, `environment`.
            also: More names and their replacements.
        """
        wanted = frozenset(include)
        names: list[tuple[str, str]] = list(also)
        if "paths" not in wanted:
            names += _names(trace)
        return cls(
            tuple(dict(names).items()),
            "paths" not in wanted,
            "arguments" not in wanted,
            "environment" not in wanted,
        )

    def text(self, text: str) -> str:
        """Redact any string: secrets first, then paths, then names."""
        text = secrets.shareable(text)
        if self.paths:
            text = _HOME.sub("~", text)
            text = _PATH.sub(lambda match: self._short(match[1]), text)
        for name, word in self.names:
            text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", word, text)
        return text

    def path(self, path: str) -> str:
        """A path shortened to its library and the path inside it, or else to its last two parts."""
        return self.text(path)

    def command(self, command: str) -> str:
        """A command line as recorded: the program and its script; arguments only if requested."""
        try:
            words = shlex.split(command)
        except ValueError:
            words = command.split()
        words = secrets.arguments(words)
        if not self.arguments:
            return self.text(secrets.joined(words))
        kept = _program(words)
        left = len(words) - len(kept)
        suffix = f" … ({left} {'argument' if left == 1 else 'arguments'} hidden)" if left else ""
        return self.text(" ".join(kept)) + suffix

    def _short(self, path: str) -> str:
        library = _LIBRARY.sub("", path)
        if library != path:
            return library
        parts = PurePosixPath(path).parts
        return path if len(parts) <= 3 or parts[1] in _PUBLIC else "…/" + "/".join(parts[-2:])


def _program(words: list[str]) -> list[str]:
    """The program, and what an interpreter or launcher runs: `python train.py`, `python -m package`."""
    if not words:
        return []
    name = PurePosixPath(words[0]).name
    if not re.match(r"^(?:python|pypy|torchrun|accelerate|deepspeed|mpirun|srun)", name):
        return [name]
    for i, word in enumerate(words[1:], 1):
        if word in ("-m", "--module") and i + 1 < len(words):
            return [name, word, words[i + 1]]
        if word == "-c":
            return [name, word]
        if word.endswith(".py"):
            return [name, PurePosixPath(word).name]
    return [name]


def _names(trace: StoredTrace) -> list[tuple[str, str]]:
    """Hosts and users of a trace."""
    import json

    rows = trace.sql("SELECT host, executable, command, environment FROM process").fetchall()
    hosts = (
        {trace.manifest.get("host")}
        | {row[0] for row in rows}
        | {row[0] for row in trace.sql("SELECT host FROM device").fetchall()}
    )
    users: set[str] = set()
    texts = [text for row in rows for text in row[1:3] if text]
    texts += [
        row[0] for row in trace.sql("SELECT DISTINCT file FROM frame WHERE file IS NOT NULL").fetchall()
    ]
    for text in texts:
        users |= {match[1] for match in _HOME.finditer(text) if match[1]}
    for row in rows:
        try:
            variables = json.loads(row[3]) if row[3] else {}
        except ValueError:
            variables = {}
        users |= {str(variables[key]) for key in ("USER", "LOGNAME", "USERNAME") if variables.get(key)}
    found = []
    for word, names in (("host", hosts), ("user", users)):
        real = sorted(n for n in names if n and len(n) > 2 and n.lower() not in _NO_NAMES)
        # the longest first: a name may hold another
        found += [
            (name, f"{word}-{i}") for i, name in sorted(enumerate(real, 1), key=lambda pair: -len(pair[1]))
        ]
    return found
