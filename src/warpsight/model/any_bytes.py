"""Names, paths and arguments are bytes to the system; in a trace they are text, and what is not UTF-8 shows in hexadecimal."""

from __future__ import annotations


def decoded(data: bytes) -> str:
    """Text of bytes in any encoding; different bytes stay different."""
    return data.decode("utf-8", "backslashreplace")


def storable(text: str) -> str:
    """The same of text as Python has it from the system: with surrogates for what is not UTF-8."""
    try:
        return decoded(text.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:  # a surrogate that stands for no byte
        return text.encode("utf-8", "backslashreplace").decode()
