"""Operations that NCCL reports through its profiler interface, and their parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from warpsight.capture.columns import Nullable, enumerated, zero_is_null
from warpsight.capture.segments.segment import Batch
from warpsight.model.naming.collective_names import IN_PARTS, NCCL_TYPES, OPERATIONS

if TYPE_CHECKING:
    from warpsight.capture.arena import Arena

Array = npt.NDArray[Any]
_UNKNOWN = np.iinfo(np.uint64).max
_KINDS = {1: "channel", 2: "proxy operation", 3: "network step"}
_TYPES = {name: short for name, (short, _) in NCCL_TYPES.items()}


def collective(arena: Arena, batch: Batch) -> None:
    """A row for each operation. Its device times are those of its kernel."""
    rows = batch.rows
    operation = _renamed(arena, rows["operation"], OPERATIONS)
    asked = _renamed(arena, rows["call_dtype"], _TYPES)
    item = _item_bytes(arena, rows["dtype"])
    in_parts = pc.is_in(operation.cast("string"), pa.array(IN_PARTS)).to_numpy(zero_copy_only=False)
    parts = np.where(in_parts, rows["ranks"], 1).astype(np.int64)
    call = _renamed(arena, rows["call"], OPERATIONS).cast("string")
    arena.emit(
        "collective",
        len(rows),
        start=rows["start"],
        duration=None,
        operation=pc.fill_null(operation.cast("string"), "unknown").dictionary_encode(),
        bytes=Nullable(rows["count"].astype(np.int64) * item * parts, (item == 0) | (parts < 1)),
        dtype=pc.coalesce(
            asked.cast("string"), _renamed(arena, rows["dtype"], _TYPES).cast("string")
        ).dictionary_encode(),
        ranks=Nullable(rows["ranks"], rows["ranks"] < 1),
        group=_groups(arena, rows),
        correlation=Nullable(
            arena.correlations.full_ids(batch.session, rows["correlation"]), rows["correlation"] == 0
        ),
        process=arena.process_id(),
        sequence=Nullable(rows["sequence"].astype(np.int64), rows["sequence"] == _UNKNOWN),
        members=None,
        **{name: Nullable(rows[name], rows[name] < 0) for name in ("peer", "rank", "root")},
        algorithm=_renamed(arena, rows["algorithm"], {}),
        protocol=_renamed(arena, rows["protocol"], {}),
        channels=zero_is_null(rows["channels"]),
        call=pc.if_else(
            pc.fill_null(pc.equal(call, operation.cast("string")), False), None, call
        ).dictionary_encode(),
        id=rows["id"],
    )


def part(arena: Arena, batch: Batch) -> None:
    """A row for each channel, proxy operation and network step."""
    rows = batch.rows
    waits = ("wait_device", "wait_peer", "wait_network")
    direction = np.where(rows["flags"] == 0, 2, rows["flags"].astype(np.int64) - 1)
    arena.emit(
        "collective_part",
        len(rows),
        start=rows["start"],
        duration=rows["duration"],
        kind=enumerated(rows["kind"], _KINDS),
        collective=zero_is_null(rows["operation"]),
        channel=rows["channel"],
        peer=Nullable(rows["peer"], rows["peer"] < 0),
        direction=pa.DictionaryArray.from_arrays(
            pa.array(direction, pa.int32(), mask=direction > 1), ["send", "receive"]
        ),
        step=Nullable(rows["step"], rows["step"] < 0),
        bytes=zero_is_null(rows["bytes"]),
        **{name: Nullable(rows[name], rows["kind"] != 3) for name in waits},
        process=arena.process_id(),
    )


def _renamed(arena: Arena, ids: Array, known: Mapping[str, str]) -> pa.DictionaryArray:
    """NCCL's words as the trace has them; words that are not known in lower case."""
    texts = arena.local.texts(ids)
    words = [known.get(word, word.lower()) for word in texts.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(texts.indices, pa.array(words, pa.string()))


def _item_bytes(arena: Arena, ids: Array) -> Array:
    """Bytes of an element of each row's type, 0 unknown."""
    texts = arena.local.texts(ids)
    sizes = [NCCL_TYPES.get(word, ("", 0))[1] for word in texts.dictionary.to_pylist()]
    found: Array = np.array([*sizes, 0], np.int64)[texts.indices.fill_null(-1).to_numpy()]
    return found


def _groups(arena: Arena, rows: Array) -> pa.DictionaryArray:
    """Communicators: NCCL's hash, behind the name that the program gave."""
    pairs, place = np.unique(
        np.stack([rows["communicator"], rows["name"].astype(np.uint64)]), axis=1, return_inverse=True
    )
    names = arena.local.texts(pairs[1].astype(np.uint32)).to_pylist()
    keys = [f"{name or ''} {key:#x}".strip() for key, name in zip(pairs[0].tolist(), names, strict=True)]
    return pa.DictionaryArray.from_arrays(pa.array(place.ravel().astype(np.int32)), keys)
