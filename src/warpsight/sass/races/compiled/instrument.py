"""A module's PTX with checks at each access, barrier and fence.

    @!%p1 bra $ws_1;                              // the instruction's own guard
    { … @%ws_off bra $ws_1;                       // this launch is not checked
      call ws_compiled_global, (launch, facts, address, what); }
    $ws_1:
    @%p1 st.global.u32 [%rd1+4], %r1;

Accesses have numbers, their sites: those of functions come first, then those of each kernel, since a kernel may call them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from warpsight.sass.races.compiled.instructions import (
    SCOPE,
    Arrival,
    Fence,
    NoKernelsError,
    Order,
    PtxAccess,
    UnsuitableModuleError,
    meaning,
)
from warpsight.sass.races.compiled.lines import SourceLines
from warpsight.sass.races.compiled.statements import PtxStatement, statements, without_comments

#: Of a kernel and the functions of its module; 0 is for accesses that are not looked at (race_layout.h).
_SITES = 2048
_NAMED = re.compile(r"\.(entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)")
_REGISTERS = re.compile(r"\.reg\s+\.\w*?(\d+|pred)\s+(.*)")
_ADDRESS = re.compile(r"([%\w$]+)\s*(?:([+-])\s*(-?\w+))?")
_HEADER = re.compile(r"^\s*\.(?:version|target|address_size)\b.*\n?", re.MULTILINE)
_VERSION = re.compile(r"\.version\s+(\d+)\.(\d+)")
#: Directives that limit a kernel's registers, so that its blocks still fit.
_BOUNDED = (".maxntid", ".reqntid", ".maxnreg")
_OLDEST_TARGET = 75


@dataclass(frozen=True)
class Site:
    """An access.

    Attributes:
        number: in its kernel; facts: its word in race_layout.h; text: the instruction.
        frames: function, file and line, innermost first.
    """

    number: int
    facts: int
    text: str
    frames: tuple[tuple[str, str, int], ...]


@dataclass(frozen=True)
class Instrumented:
    """A module with checks.

    Attributes:
        ptx: the text; kernels: the sites of each, with those of functions it may call.
        one_way: bit n is set if there are arrivals at named barrier n that do not wait.
        bounded: whether all kernels state how large their blocks are.
    """

    ptx: str
    kernels: dict[str, tuple[Site, ...]]
    one_way: int
    bounded: bool


def instrumented(ptx: str, checks: str, wanted: Callable[[str], bool] = lambda _: True) -> Instrumented:
    """Add the checks to a module.

    Args:
        ptx: The module's PTX.
        checks: What they call (native/sanitizer/compiled_checks.ptx).
        wanted: Whether a kernel gets checks, by its mangled name. Functions that kernels may call always do.

    Raises:
        NoKernelsError: when it has none of these.
        UnsuitableModuleError: when the module has an instruction whose effect on memory is not known here, or a loop that may
            wait for other threads.
    """
    plain = without_comments(ptx)
    functions = _functions(plain)
    functions = [function for function in functions if not function.kernel or wanted(function.name)]
    if not any(function.kernel for function in functions):
        raise NoKernelsError("no kernels to check")
    if ".address_size 32" in plain:
        raise UnsuitableModuleError("addresses of 32 bits")
    if _waits(functions):
        raise UnsuitableModuleError("a loop that may wait for other threads")
    lines = SourceLines(plain)
    writer = _Writer(plain, lines)
    for function in functions:
        if not function.kernel:
            writer.write(function, 1 + len(writer.sites))
    shared = tuple(writer.sites)
    kernels = {}
    for function in functions:
        if function.kernel:
            writer.sites = []
            writer.write(function, 1 + len(shared))
            kernels[function.name] = (*shared, *writer.sites)
    text = writer.text()
    bounded = all(any(one in function.head for one in _BOUNDED) for function in functions if function.kernel)
    return Instrumented(_with(text, checks), kernels, writer.one_way, bounded)


@dataclass
class _Function:
    """A function with a body: its head, and the statements from the opening brace on."""

    name: str
    kernel: bool
    head: str
    body: list[PtxStatement] = field(default_factory=list)


def _functions(plain: str) -> list[_Function]:
    found: list[_Function] = []
    depth = 0
    for statement in statements(plain):
        if statement.kind == "function":
            named = _NAMED.search(statement.text)
            if named is None:
                raise UnsuitableModuleError(f"function {statement.text[:80]}")
            found.append(_Function(named[2], named[1] == "entry", statement.text))
            depth = 0
        if statement.kind == "open":
            depth += 1
        if found and depth > 0:
            found[-1].body.append(statement)
        if statement.kind == "close":
            depth -= 1
    return found


def _waits(functions: Sequence[_Function]) -> bool:
    """Whether a loop may wait for other threads: it reads what they may change meanwhile, itself or in a function it calls.

    With checks whose lanes returned one after another, a scan of CUB whose blocks wait for those before them did not end on an
    H200: a lane stayed in the check while the rest of its warp went on. Since lanes leave together, 2,700 scans have ended; but
    why the lane stayed is not known, and with patches all end.
    """
    calls = False
    called = False
    for function in functions:
        labels: dict[str, int] = {}
        reads: list[int] = []
        calling: list[int] = []
        for at, statement in enumerate(function.body):
            if statement.kind == "label":
                labels[statement.text] = at
            elif statement.kind == "instruction" and statement.operation.startswith("call"):
                calling.append(at)
            elif statement.kind == "instruction" and _reads_others(statement):
                reads.append(at)
        loops = [
            (labels.get(statement.arguments, at), at)
            for at, statement in enumerate(function.body)
            if statement.kind == "instruction" and statement.operation.startswith("bra")
        ]
        if any(first < at < last for first, last in loops for at in reads):
            return True
        calls |= any(first < at < last for first, last in loops for at in calling)
        called |= not function.kernel and bool(reads)
    return calls and called


def _reads_others(statement: PtxStatement) -> bool:
    """Whether an instruction is an atomic, or a load that other threads' stores become visible to."""
    words = statement.operation.split(".")
    strong = {"volatile", "relaxed", "acquire", "mmio"} & set(words)
    return words[0] == "atom" or (words[0] == "ld" and bool(strong))


class _Writer:
    """Text to insert, by place."""

    def __init__(self, plain: str, lines: SourceLines) -> None:
        self._plain = plain
        self._lines = lines
        self._inserted: list[tuple[int, str]] = []
        self._labels = 0
        self.sites: list[Site] = []
        self.one_way = 0

    def text(self) -> str:
        """The module with everything that was inserted."""
        parts, at = [], 0
        for place, text in sorted(self._inserted, key=lambda one: one[0]):
            parts += [self._plain[at:place], text]
            at = place
        return "".join([*parts, self._plain[at:]])

    def write(self, function: _Function, first: int) -> None:
        """Instrument a function, whose accesses count from `first` on."""
        scopes: list[dict[str, int]] = []
        strong = _expected(function.body)
        place = None
        count = 0
        for at, statement in enumerate(function.body):
            if statement.kind == "open":
                scopes.append({})
                if len(scopes) == 1:
                    self._inserted.append((statement.end, _BEGIN))
            elif statement.kind == "close":
                scopes.pop()
            elif statement.kind == "directive":
                _declare(statement.text, scopes[-1])
                if statement.text.startswith(".loc"):
                    place = self._lines.place(statement.text)
            elif statement.kind == "instruction":
                found = meaning(statement.operation, statement.arguments)
                number = 0
                if isinstance(found, PtxAccess):
                    number = first + count if first + count < _SITES else 0
                    count += 1
                    facts = found.facts | number
                    if at in strong:
                        facts |= strong[at] << SCOPE
                    if number:
                        frames = tuple(self._lines.chain(place, function.name))
                        self.sites.append(Site(number, facts, statement.text, frames))
                    self._access(statement, found, facts, scopes)
                elif found is not None:
                    self._order(statement, found, scopes)

    def _access(
        self, statement: PtxStatement, access: PtxAccess, facts: int, scopes: Sequence[dict[str, int]]
    ) -> None:
        what = access.flags | access.size << 8
        registers = [_wide("%ws_a", access.address, scopes)]
        given = [("b64", "%ws_launch"), ("b32", str(facts)), ("b64", "%ws_a")]
        if access.space == "copy":
            registers.append(_wide("%ws_b", access.source, scopes))
            given = [*given[:2], ("b64", "%ws_b"), ("b64", "%ws_a"), ("b32", str(access.size))]
        else:
            given.append(("b32", str(what)))
        if access.space == "matrices":
            given.append(("b32", str(access.count)))
        self._call(statement, statement.begin, f"ws_compiled_{access.space}", given, registers)
        if access.after:
            fence = [("b64", "%ws_launch"), ("b32", str(access.after))]
            self._call(statement, statement.end, "ws_compiled_fence", fence)

    def _order(
        self, statement: PtxStatement, found: Order | Fence | Arrival, scopes: Sequence[dict[str, int]]
    ) -> None:
        launch = ("b64", "%ws_launch")
        if isinstance(found, Fence):
            self._call(statement, statement.begin, "ws_compiled_fence", [launch, ("b32", str(found.facts))])
        elif isinstance(found, Arrival):
            known = found.number.isdecimal()
            self.one_way |= 1 << (int(found.number) & 15) if known else 0xFFFF
            self._call(statement, statement.begin, "ws_compiled_arrive", [launch, ("b32", found.number)])
        else:
            for place, calls in ((statement.begin, found.before), (statement.end, found.behind)):
                for kind, first, second in calls:
                    given = [launch, ("b32", str(kind)), ("b64", "%ws_a"), ("b32", second)]
                    self._call(statement, place, "ws_compiled_order", given, [_wide("%ws_a", first, scopes)])

    def _call(
        self,
        statement: PtxStatement,
        place: int,
        function: str,
        given: Sequence[tuple[str, str]],
        registers: Sequence[str] = (),
    ) -> None:
        self._labels += 1
        label = f"$ws_{self._labels}"
        text = [""]
        if statement.guard:
            opposite = statement.guard[1:] if statement.guard.startswith("!") else "!" + statement.guard
            text.append(f"@{opposite} bra {label};")
        text += ["{", ".reg .pred %ws_off;", "setp.eq.s64 %ws_off, %ws_launch, 0;", f"@%ws_off bra {label};"]
        text += registers
        for number, (kind, value) in enumerate(given):
            text.append(f".param .{kind} ws_p{number};")
            text.append(f"st.param.{kind} [ws_p{number}], {value};")
        names = ", ".join(f"ws_p{number}" for number in range(len(given)))
        text += [f"call {function}, ({names});", "}", f"{label}:\n"]
        self._inserted.append((place, "\n".join(text)))


_BEGIN = """
.reg .b64 %ws_launch;
{
.param .b64 ws_r;
call (ws_r), ws_compiled_launch;
ld.param.b64 %ws_launch, [ws_r];
}
"""


def _declare(text: str, scope: dict[str, int]) -> None:
    """Note the bits of registers that a directive declares: by name, or by `prefix<`."""
    found = _REGISTERS.match(text)
    if found is None or found[1] == "pred":
        return
    for name in found[2].split(","):
        prefix, dots, _ = name.strip().partition("<")
        scope[prefix + dots] = int(found[1])


def _bits(name: str, scopes: Sequence[dict[str, int]]) -> int:
    """Of a register; 0 for a name of memory."""
    for scope in reversed(scopes):
        if name in scope:
            return scope[name]
        prefix = name.rstrip("0123456789")
        if prefix + "<" in scope and prefix != name:
            return scope[prefix + "<"]
    return 0


def _wide(target: str, operand: str, scopes: Sequence[dict[str, int]]) -> str:
    """Code that declares a register and puts an address or a number, as in `%rd1+4`, into it."""
    found = _ADDRESS.fullmatch(operand)
    if found is None:
        raise UnsuitableModuleError(f"operand {operand}")
    base, sign, offset = found[1], found[2], found[3]
    bits = _bits(base, scopes)
    move = f"cvt.u64.u32 {target}, {base};" if bits == 32 else f"mov.u64 {target}, {base};"
    code = f".reg .b64 {target}; {move}"
    if not offset:
        return code
    return f"{code} {'add' if sign == '+' else 'sub'}.s64 {target}, {target}, {offset};"


def _expected(body: Sequence[PtxStatement]) -> dict[int, int]:
    """Loads whose value a compare-and-swap in a loop expects, with its scope: together they are one atomic."""
    labels = {statement.text: at for at, statement in enumerate(body) if statement.kind == "label"}
    defined: dict[str, list[int]] = {}
    loops: list[tuple[int, int]] = []
    for at, statement in enumerate(body):
        if statement.kind != "instruction":
            continue
        if statement.operation.startswith("bra"):
            target = labels.get(statement.arguments, at)
            if target < at:
                loops.append((target, at))
        for register in re.findall(r"[%\w$]+", statement.arguments.split("[")[0].split(",")[0]):
            defined.setdefault(register, []).append(at)
    found: dict[int, int] = {}
    for at, statement in enumerate(body):
        if not re.match(r"atom\b.*\.cas\b", statement.operation) or statement.kind != "instruction":
            continue
        if not any(first <= at < last for first, last in loops):
            continue
        access = meaning(statement.operation, statement.arguments)
        assert isinstance(access, PtxAccess)
        waiting, seen = [_operand(statement.arguments, 2)], set()
        while waiting:
            register = waiting.pop()
            if register in seen:
                continue
            seen.add(register)
            for place in defined.get(register, []):
                one = body[place]
                if one.operation.startswith("ld."):
                    found[place] = access.facts >> SCOPE & 3
                elif one.operation.startswith(
                    ("mov.", "cvt.", "prmt.", "and.", "or.", "shr.", "shl.", "bfe.")
                ):
                    waiting += re.findall(r"%[\w$]+", one.arguments.partition(",")[2])
    return found


def _operand(arguments: str, number: int) -> str:
    """An operand without counting commas inside brackets and braces."""
    parts, depth, begin = [], 0, 0
    for at, character in enumerate(arguments):
        depth += (character in "[{(") - (character in "]})")
        if character == "," and depth == 0:
            parts.append(arguments[begin:at].strip())
            begin = at + 1
    parts.append(arguments[begin:].strip())
    return parts[number] if number < len(parts) else ""


def _with(text: str, checks: str) -> str:
    """The module's text behind the checks, under one header."""
    version = max((int(found[1]), int(found[2])) for found in map(_VERSION.search, (text, checks)) if found)
    target = re.search(r"\.target\s+([^\n]*)", text)
    named = target[1].strip() if target else "sm_75"
    number = re.match(r"sm_(\d+)", named)
    if number is not None and int(number[1]) < _OLDEST_TARGET:
        named = re.sub(r"sm_\d+", f"sm_{_OLDEST_TARGET}", named)
    header = f".version {version[0]}.{version[1]}\n.target {named}\n.address_size 64\n"
    own = _HEADER.sub("", checks).replace(".visible .func", ".func")
    own = re.sub(r"^\.global( .*\bws_places;)", r".visible .global\1", own, flags=re.MULTILINE)
    return header + own + _HEADER.sub("", text)
