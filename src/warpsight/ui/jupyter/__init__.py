"""Notebook support: traces, results and flame graphs display themselves, and `%%warpsight` records a cell.

`%load_ext warpsight` adds the magic; the displays only need an import of warpsight.
"""

from __future__ import annotations


def load_ipython_extension(shell: object) -> None:
    """What `%load_ext warpsight` calls: adds `%%warpsight`."""
    from warpsight.ui.jupyter.magic import register

    register(shell)
