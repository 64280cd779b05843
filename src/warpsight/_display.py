"""Base classes of values that print as text and that notebooks show as HTML.

The modules that draw a value are in higher layers than its class. The package itself knows both, so the classes ask it.
"""

from __future__ import annotations

import warpsight


class HtmlShown:
    """A value that notebooks show as HTML."""

    def _repr_html_(self) -> str:
        """The value in a notebook."""
        return warpsight._drawn(self, "html")


class Shown(HtmlShown):
    """A value that also prints as its verb does."""

    def __str__(self) -> str:
        """The value on a terminal."""
        return warpsight._drawn(self, "text")
