"""Readable names of device functions: demangling, and the short name without arguments."""

from __future__ import annotations

import ctypes
import ctypes.util
import re
from collections.abc import Callable, Iterable
from functools import lru_cache

#: Longer names are not demangled: the demangler's output can grow exponentially.
MAXIMUM_MANGLED = 16384
#: `void f(int)`, `f()`: a name directly followed by its arguments; `Memcpy HtoD (Pageable)` is not one.
_SIGNATURE = re.compile(r"(?:[\w*&]+ )*\w+\(.*\)")
#: Characters between which matching brackets may appear.
_BRACKET = re.compile(r"[<>(){}\[\]]|operator")
#: What may appear between a function's arguments and the `::` of a name local to it.
_LOCAL = re.compile(r"(?: const| volatile| &&?)*(?=::)")
_OPERATORS = ("<<=", ">>=", "<=>", "->*", "<<", ">>", "<=", ">=", "->", "()", "[]", "<", ">")


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL | None:
    """The C++ runtime that has `__cxa_demangle`, or None."""
    for candidate in (
        "libstdc++.so.6",
        "libc++abi.so.1",
        "libc++abi.dylib",
        ctypes.util.find_library("stdc++"),
    ):
        if not candidate:
            continue
        try:
            library = ctypes.CDLL(candidate)
            library.__cxa_demangle.restype = ctypes.c_void_p
            library.__cxa_demangle.argtypes = [
                ctypes.c_char_p,
                ctypes.c_void_p,
                ctypes.c_void_p,
                ctypes.c_void_p,
            ]
            return library
        except (OSError, AttributeError):
            continue
    return None


@lru_cache(maxsize=1)
def _free() -> Callable[[object], object]:
    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]
    free.restype = None
    return free


def demangle(name: str) -> str:
    """The readable form of an Itanium C++ name; other names stay unchanged."""
    if not name.startswith(("_Z", "__Z")) or len(name) > MAXIMUM_MANGLED:
        return name
    library = _library()
    if library is None:
        return name
    found = _demangled(library, name)
    if found is None and "DF16" in name:
        # Runtimes before GCC 13 do not know these types: substitutes are types that kernels do not use and that `S_` does not
        # count.
        found = _demangled(library, name.replace("DF16_", "De").replace("DF16b", "Df"))
        found = found and found.replace("decimal128", "_Float16").replace("decimal32", "std::bfloat16_t")
    return found or name


def _demangled(library: ctypes.CDLL, name: str) -> str | None:
    status = ctypes.c_int(0)
    result = library.__cxa_demangle(name.encode(), None, None, ctypes.byref(status))
    if not result:
        return None
    try:
        return ctypes.string_at(result).decode("utf-8", "replace")
    finally:
        _free()(result)


def demangle_all(names: Iterable[str]) -> list[str]:
    """:func:`demangle` for several names; repeated names are cached."""
    known: dict[str, str] = {}
    return [known[name] if name in known else known.setdefault(name, demangle(name)) for name in names]


def short(demangled: str) -> str:
    """The name without return type, arguments, template arguments and qualifiers: `at::native::add`.

    Brackets are matched, so lambdas (`f()::{lambda(int)#1}`), `operator<`, `operator()`, `(anonymous namespace)` and
    function-pointer arguments do not confuse it. Names that are not C++ (a Triton kernel, a copy) are returned unchanged.
    """
    text = demangled.strip()
    if not ("::" in text or "<" in text or _SIGNATURE.match(text)):
        return text
    pieces = _top_level(text)
    name = "".join(pieces).strip()
    name = _last_word(name)
    return name or text


def _top_level(text: str) -> list[str]:
    """The part of the string outside brackets, up to the function's own argument list."""
    out: list[str] = []
    i = 0
    while i < len(text):
        operator = _operator_at(text, i) if text[i] == "o" else ""
        if operator:
            out.append(operator)
            i += len(operator)
        elif text[i] == "<":
            i = _closing(text, i)
        elif text[i] == "(":
            end = _closing(text, i)
            inner = text[i:end]
            local = _LOCAL.match(text, end)
            if inner == "(anonymous namespace)":
                out.append(inner.replace(" ", "\0"))
            elif local:  # arguments of the function a local name lives in
                end = local.end()
            elif out and "".join(out).strip():
                break  # the function's own arguments
            else:
                out.append(inner)
            i = end
        elif text[i] == "{":
            end = _closing(text, i)
            out.append(_local(text[i:end]))
            i = end
        elif text[i] == "[":  # [clone .constprop.0], [with T = int]
            i = _closing(text, i)
        else:
            out.append(text[i])
            i += 1
    return out


def _local(braces: str) -> str:
    """`{lambda(int)#1}` → `{lambda#1}`, `{unnamed type#1}` kept, without spaces that would split the name."""
    opening = braces.find("(")
    if opening >= 0:
        braces = braces[:opening] + braces[_closing(braces, opening) :]
    return braces.replace(" ", "\0")


def _operator_at(text: str, i: int) -> str:
    """The operator's name if `operator…` begins here, with its symbol; otherwise empty."""
    if not text.startswith("operator", i) or (i and (text[i - 1].isalnum() or text[i - 1] == "_")):
        return ""
    rest = text[i + 8 :]
    for symbol in _OPERATORS:
        if rest.startswith(symbol):
            return "operator" + symbol
    if rest.startswith(" ") or rest.startswith('""'):  # conversion, new, delete, user-defined literal
        end = next((k for k, c in enumerate(rest) if c in "(<"), len(rest))
        return ("operator" + rest[:end]).replace(" ", "\0")
    return ""


def _closing(text: str, start: int) -> int:
    """Index after the bracket that closes the one at `start`; the end of the string if nothing closes it."""
    pairs = {"(": ")", "<": ">", "{": "}", "[": "]"}
    stack: list[str] = []
    i = start
    while found := _BRACKET.search(text, i):
        i = found.start()
        operator = _operator_at(text, i) if i > start else ""
        if operator:
            i += len(operator)
            continue
        c = text[i]
        if c in pairs:
            stack.append(pairs[c])
        elif c == ">" and text[i - 1] == "-":
            pass  # part of ->
        elif stack and c == stack[-1]:
            stack.pop()
            if not stack:
                return i + 1
        elif c in ")}]" and c in stack:  # an unbalanced < inside, e.g. a comparison in a template argument
            while stack.pop() != c:
                pass
            if not stack:
                return i + 1
        i += 1
    return len(text)


def _last_word(name: str) -> str:
    """Drop the return type and leading words: the last word at the top level is the name."""
    for suffix in (" const", " volatile", " &&", " &", " noexcept"):
        name = name.removesuffix(suffix)
    return name.split(" ")[-1].lstrip("*&").replace("\0", " ") if name else name
