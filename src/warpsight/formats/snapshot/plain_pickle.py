"""Pickles of plain data, read without executing anything in the file."""

from __future__ import annotations

import pickle

from warpsight.errors import TraceError


def _itself(items: object) -> object:
    return items


class PlainData(pickle.Unpickler):
    """Builds lists, dictionaries, texts and numbers, and nothing that has to be looked up by name.

    The one exception are PyTorch's marks of typed lists, for which a function of our own stands that returns the list.
    """

    def find_class(self, module: str, name: str) -> object:
        """Refuse objects that the file names."""
        if module == "torch.jit._pickle" and name.startswith("build_") and name.endswith("list"):
            return _itself
        raise TraceError(
            f"it refers to {module}.{name}, but it should hold plain data only; nothing was executed"
        )

    def persistent_load(self, pid: object) -> object:
        """Refuse objects outside the file."""
        raise TraceError("it refers to objects outside of the file")
