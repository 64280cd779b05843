"""Stacks in blocks separated by empty lines, split without a loop over samples: distinct stacks are parsed once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


@dataclass(frozen=True)
class Blocks:
    """`head` is the first line of every block, `place[n]` the index of its other lines in `bodies`."""

    head: pa.Array
    place: NDArray[Any]
    bodies: list[str]

    def __len__(self) -> int:
        """Number of blocks."""
        return len(self.head)


def split(data: bytes) -> Blocks:
    """Blocks of a text, separated by empty lines; the first line of each is its header."""
    text = pa.array([data.decode("utf-8", "replace").replace("\r\n", "\n")], pa.large_string())
    blocks = pc.list_flatten(pc.split_pattern_regex(text, r"\n[ \t]*\n")).cast(pa.string())
    blocks = pc.utf8_trim(blocks, "\n")
    blocks = blocks.filter(pc.match_substring_regex(blocks, r"\S"))
    found = pc.extract_regex(blocks, r"(?s)^(?P<head>[^\n]*)\n?(?P<body>.*)$")
    body = found.field("body").dictionary_encode()
    return Blocks(found.field("head"), body.indices.to_numpy().astype(np.int64), body.dictionary.to_pylist())
