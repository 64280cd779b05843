"""Kinds of copies and memory as a trace names them, by CUPTI's numbers (CUpti_ActivityMemcpyKind, CUpti_ActivityMemoryKind)."""

from __future__ import annotations

from types import MappingProxyType

_COPIES = ("HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP")
_MEMORY = ("pageable", "pinned", "device", "array", "managed", "device static", "managed static")
MEMCPY_KINDS = MappingProxyType(dict(enumerate(_COPIES, 1)))
MEMORY_KINDS = MappingProxyType(dict(enumerate(_MEMORY, 1)))
