"""The messages of `xplane.proto` (openxla/xla, third_party/tsl/tsl/profiler/protobuf) as protobuf classes.

Built by hand from the published field numbers, so neither tensorflow nor generated code is needed. Maps are declared as repeated
entries, as they are on the wire. The lines of a plane stay bytes, so that a plane can be read line by line.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

_PACKAGE = "warpsight.xplane"
#: name: (field, number, type, repeated)
_MESSAGES: dict[str, tuple[tuple[str, int, str, bool], ...]] = {
    "XPlane": (
        ("id", 1, "int64", False),
        ("name", 2, "string", False),
        ("lines", 3, "bytes", True),
        ("event_metadata", 4, "EventEntry", True),
        ("stat_metadata", 5, "StatEntry", True),
        ("stats", 6, "XStat", True),
    ),
    "EventEntry": (("key", 1, "int64", False), ("value", 2, "XEventMetadata", False)),
    "StatEntry": (("key", 1, "int64", False), ("value", 2, "XStatMetadata", False)),
    "XLine": (
        ("id", 1, "int64", False),
        ("name", 2, "string", False),
        ("timestamp_ns", 3, "int64", False),
        ("events", 4, "XEvent", True),
        ("duration_ps", 9, "int64", False),
        ("display_id", 10, "int64", False),
        ("display_name", 11, "string", False),
    ),
    "XEvent": (
        ("metadata_id", 1, "int64", False),
        ("offset_ps", 2, "int64", False),
        ("duration_ps", 3, "int64", False),
        ("stats", 4, "XStat", True),
        ("num_occurrences", 5, "int64", False),
    ),
    "XStat": (
        ("metadata_id", 1, "int64", False),
        ("double_value", 2, "double", False),
        ("uint64_value", 3, "uint64", False),
        ("int64_value", 4, "int64", False),
        ("str_value", 5, "string", False),
        ("bytes_value", 6, "bytes", False),
        ("ref_value", 7, "uint64", False),
    ),
    "XEventMetadata": (
        ("id", 1, "int64", False),
        ("name", 2, "string", False),
        ("metadata", 3, "bytes", False),
        ("display_name", 4, "string", False),
        ("stats", 5, "XStat", True),
    ),
    "XStatMetadata": (("id", 1, "int64", False), ("name", 2, "string", False)),
}
#: Which of these fields is set decides the type of a value.
VALUES = ("double_value", "uint64_value", "int64_value", "str_value", "bytes_value", "ref_value")


class _Messages(NamedTuple):
    """The classes a reader parses with."""

    plane: Any
    line: Any


@lru_cache(maxsize=1)
def messages() -> _Messages:
    """The protobuf classes, made once."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    field_type = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="warpsight/xplane.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        if name == "XStat":
            message.oneof_decl.add(name="value")
        for field, number, kind, repeated in fields:
            one = message.field.add(
                name=field,
                number=number,
                label=field_type.LABEL_REPEATED if repeated else field_type.LABEL_OPTIONAL,
            )
            if kind in _MESSAGES:
                one.type, one.type_name = field_type.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            else:
                one.type = getattr(field_type, f"TYPE_{kind.upper()}")
            if name == "XStat" and field in VALUES:
                one.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    made = {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in ("XPlane", "XLine")
    }
    return _Messages(made["XPlane"], made["XLine"])
