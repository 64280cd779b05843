"""Names, paths and arguments are bytes to the system and text in a trace; bytes that are not UTF-8 are shown in hexadecimal."""

from __future__ import annotations


def decoded(data: bytes) -> str:
    """Text of bytes in any encoding; different bytes stay different."""
    return data.decode("utf-8", "backslashreplace")


def storable(text: str) -> str:
    """The same for Python strings, in which surrogates stand for bytes that are not UTF-8."""
    try:
        return decoded(text.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:  # a surrogate that does not represent a byte
        return text.encode("utf-8", "backslashreplace").decode()
