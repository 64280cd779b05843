"""A type with the words that a schema says of it."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec


def described(kind: Any, description: str) -> Any:
    """The type, described."""
    return Annotated[kind, msgspec.Meta(description=description)]
