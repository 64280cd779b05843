"""Names, paths and arguments are bytes to the system and text in a trace; bytes that are not UTF-8 are shown in hexadecimal."""

from __future__ import annotations


def decoded(data: bytes) -> str:
    """Decode bytes in any encoding to text; different bytes stay different."""
    return data.decode("utf-8", "backslashreplace")


def storable(text: str) -> str:
    """Make a Python string storable, whose surrogates stand for bytes that are not UTF-8."""
    try:
        return decoded(text.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:  # a surrogate that does not represent a byte
        return text.encode("utf-8", "backslashreplace").decode()
