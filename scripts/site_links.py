"""A hook of MkDocs: links that leave `docs/` become plain text, because their files are not part of the site."""

from __future__ import annotations

import re
from typing import Any


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page without those links."""
    return re.sub(r"\[([^\]]+)\]\(\.\./\.\./[^)]*\)", r"\1", markdown)
