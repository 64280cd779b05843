"""One event of Chrome's format, loosely typed: every tool writes its own dialect."""

from __future__ import annotations

from typing import Any

import msgspec

NOTHING = msgspec.Raw(b"")


class ChromeEvent(msgspec.Struct, gc=False):
    """An event; fields that no reader needs (colors, thread clocks) are not decoded."""

    ph: Any = ""
    cat: Any = ""
    name: Any = ""
    pid: Any = None
    tid: Any = None
    ts: msgspec.Raw = NOTHING
    dur: msgspec.Raw = NOTHING
    args: msgspec.Raw = NOTHING
    id: Any = None
    id2: Any = None

    def arguments(self) -> dict[str, Any]:
        """The arguments as a dictionary; anything that is not a JSON object counts as a single argument."""
        if not bytes(self.args):
            return {}
        found = msgspec.json.decode(self.args)
        return found if isinstance(found, dict) else {"args": found}


_EVENTS = msgspec.json.Decoder(list[ChromeEvent])


def decode(data: bytes) -> list[ChromeEvent]:
    """Events of a JSON array; anything that is not an object is left out.

    Raises:
        msgspec.DecodeError: when it is not an array.
    """
    try:
        return _EVENTS.decode(data)
    except UnicodeDecodeError:
        return decode(data.decode("utf-8", "replace").encode())
    except msgspec.ValidationError:
        values = msgspec.json.decode(data, type=list[msgspec.Raw])
        objects = [bytes(v) for v in values if bytes(v).lstrip()[:1] == b"{"]
        return _EVENTS.decode(b"[" + b",".join(objects) + b"]")


def text(value: object) -> str:
    """A name or category as a string, whatever its JSON type."""
    return value if isinstance(value, str) else "" if value is None else str(value)
