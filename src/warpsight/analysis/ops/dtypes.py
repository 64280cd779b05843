"""Element types: the names that torch's profiler writes, their sizes, and the type of a result."""

from __future__ import annotations

from collections.abc import Iterable

#: Our name → bytes per element. Two fp4 numbers share a byte; a shape counts pairs of them.
SIZES = {
    "bool": 1, "uint8": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8, "fp4x2": 1,
    "fp8": 1, "fp16": 2, "bf16": 2, "fp32": 4, "fp64": 8, "complex32": 4, "complex64": 8, "complex128": 16,
}  # fmt: skip
#: The C++ type names of `Input type` (c10::ScalarType's, on Linux and on Windows) → our name.
_NAMES = {
    "bool": "bool", "unsigned char": "uint8", "signed char": "int8", "char": "int8", "short": "int16", "short int": "int16",
    "int": "int32", "long": "int64", "long int": "int64", "long long": "int64", "__int64": "int64", "unsigned short": "uint16",
    "short unsigned int": "uint16", "unsigned short int": "uint16", "unsigned int": "uint32", "unsigned long": "uint64",
    "long unsigned int": "uint64", "unsigned long int": "uint64", "float": "fp32", "double": "fp64", "c10::Half": "fp16",
    "c10::BFloat16": "bf16", "c10::complex<c10::Half>": "complex32", "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128", "c10::Float8_e4m3fn": "fp8", "c10::Float8_e5m2": "fp8",
    "c10::Float8_e4m3fnuz": "fp8", "c10::Float8_e5m2fnuz": "fp8", "c10::Float8_e8m0fnu": "fp8",
    "c10::Float4_e2m1fn_x2": "fp4x2", "c10::qint8": "int8", "c10::quint8": "uint8", "c10::qint32": "int32",
}  # fmt: skip
#: Numbers of c10::ScalarType (c10/core/ScalarType.h), as arguments name a type.
_NUMBERS = {
    0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "fp16", 6: "fp32", 7: "fp64", 8: "complex32", 9: "complex64",
    10: "complex128", 11: "bool", 12: "int8", 13: "uint8", 14: "int32", 15: "bf16", 23: "fp8", 24: "fp8", 25: "fp8", 26: "fp8",
    27: "uint16", 28: "uint32", 29: "uint64", 44: "fp8", 45: "fp4x2",
}  # fmt: skip
_INTEGERS = ("bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
#: Types in the order of promotion; a category (integer, float, complex) begins where the one before it ends.
_ORDER = (*_INTEGERS, "fp8", "fp16", "bf16", "fp32", "fp64", "complex32", "complex64", "complex128")


def named(text: str) -> str:
    """Our name for a type in `Input type`, "" for an unknown one or one that is not a tensor's."""
    return _NAMES.get(text, "")


def numbered(number: int | None) -> str:
    """Our name for a c10::ScalarType, "" if unknown."""
    return "" if number is None else _NUMBERS.get(number, "")


def size(name: str) -> int | None:
    """Bytes per element, None if the type is unknown."""
    return SIZES.get(name)


def is_complex(name: str) -> bool:
    """Whether the type is complex."""
    return name.startswith("complex")


def is_integer(name: str) -> bool:
    """Whether the type is an integer or boolean."""
    return name in _INTEGERS


def _category(name: str) -> int:
    return 0 if name == "bool" else 1 if name in _INTEGERS else 3 if is_complex(name) else 2


def promoted(tensors: Iterable[str], scalars: Iterable[str]) -> str:
    """The type that PyTorch gives the result of an operator on these types, "" when one is unknown.

    Tensors without dimensions and Python numbers (`scalars`) count only if their category (boolean, integer, float, complex) is
    higher than that of all others.
    """
    main, weak = list(tensors), list(scalars)
    if "" in main:
        return ""
    weak = [name for name in weak if name]
    found = _joined(main)
    if weak and (not main or max(map(_category, weak)) > _category(found)):
        above = _joined(weak)
        # An integer tensor times a Python float has the default type, not the number's own.
        return above if not main or _category(above) < 2 else "complex64" if is_complex(above) else "fp32"
    return found


def _joined(names: list[str]) -> str:
    if not names:
        return ""
    if {"fp16", "bf16"} <= set(names):
        names = [*names, "fp32"]
    return max(names, key=lambda name: _ORDER.index(name) if name in _ORDER else -1)
