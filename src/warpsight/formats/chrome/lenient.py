"""Repairs the invalid JSON of trace writers: most build strings by hand, and few escape them."""

from __future__ import annotations

import re

#: Strings as a whole, so that nothing else is looked for within them; words of floats; commas before a closing bracket.
_TOKEN = re.compile(
    rb'"[^"\\]*(?:\\.[^"\\]*)*"|(?<![\w.])-?(?:nan|inf(?:inity)?)(?![\w.])|,(?=\s*[\]}])',
    re.DOTALL | re.IGNORECASE,
)
#: Whole escapes, including surrogate pairs; then everything a string may not contain: half a pair, other escapes, control
#: characters.
_IN_STRING = re.compile(
    rb"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}|\\[\"\\/bfnrt])"
    rb"|(\\u[0-9a-fA-F]{4})|\\|[\x00-\x1f]"
)


def strict(text: bytes) -> bytes:
    r"""The intended value, in strict JSON.

    NaN and Infinity (Python writes them) become null, commas before a closing bracket go; within strings, line breaks and
    backslashes are escaped, and half a surrogate pair becomes U+FFFD.

    >>> strict(b'{"loss": NaN, "path": "C:\Users",}')
    b'{"loss": null, "path": "C:\\\\Users"}'
    """
    return _TOKEN.sub(_token, text)


def _token(found: re.Match[bytes]) -> bytes:
    token = found[0]
    if token[:1] == b'"':
        return _IN_STRING.sub(_in_string, token)
    return b"" if token == b"," else b"null"


def _in_string(found: re.Match[bytes]) -> bytes:
    if found[1]:
        return found[1]
    if found[2]:
        return b"\\ufffd"
    return b"\\\\" if found[0] == b"\\" else b"\\u%04x" % found[0][0]
