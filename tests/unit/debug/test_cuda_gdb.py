"""Without cuda-gdb, a message says where it comes from; its text is read in tests/golden/cores."""

from __future__ import annotations

import pytest

from warpsight.debug import cuda_gdb
from warpsight.errors import WarpsightError


def test_without_cuda_gdb_the_message_says_where_it_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_gdb, "find", lambda: None)
    with pytest.raises(WarpsightError, match="part of the CUDA toolkit"):
        cuda_gdb.run(["info cuda kernels"], 1)
