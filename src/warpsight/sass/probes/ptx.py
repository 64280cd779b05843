"""Device code of probes: PTX that replaces `ws_record` in the patches of event traces.

It is PTX rather than CUDA because the patches need only ptxas then, and no compiler, which a machine with a driver and PyTorch
may lack. All numbers are .b64, .f64 or .pred, and floats are never contracted, so the interpreter yields the same.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence

from warpsight.formats.events.kinds import KINDS
from warpsight.sass.probes.arithmetic import integer
from warpsight.sass.probes.definition import Translated, maps_of
from warpsight.sass.probes.maps import SCOPES, Map
from warpsight.sass.probes.tree import (
    Assign,
    Constant,
    Expression,
    Field,
    For,
    If,
    Local,
    Operation,
    Read,
    Return,
    Statement,
    Update,
)

_FUNCTION = re.compile(
    r"^\.visible \.func +\(\.param \.b32 \w+\) (ws_\w+)\(.*?^}\n", re.MULTILINE | re.DOTALL
)
_HEADER = re.compile(r"^\.(?:version|target|address_size) .*\n", re.MULTILINE)
_PREFIX = {"int": "%rd", "float": "%fd", "bool": "%p", "word": "%r", "single": "%f", "half": "%rs"}
_DECLARED = {"%rd": ".b64", "%fd": ".f64", "%p": ".pred", "%r": ".b32", "%f": ".f32", "%rs": ".b16"}
_INTEGER = {
    "add": "add.s64", "sub": "sub.s64", "mul": "mul.lo.s64", "and": "and.b64", "or": "or.b64", "xor": "xor.b64",
    "min": "min.s64", "max": "max.s64", "neg": "neg.s64", "abs": "abs.s64",
}  # fmt: skip
_FLOAT = {
    "add": "add.rn.f64", "sub": "sub.rn.f64", "mul": "mul.rn.f64", "truediv": "div.rn.f64", "min": "min.f64", "max": "max.f64",
    "neg": "neg.f64", "abs": "abs.f64",
}  # fmt: skip
_TRUTH = {"land": "and.pred", "lor": "or.pred", "ne": "xor.pred", "not": "not.pred"}
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
_UPDATES = {"sum", "or", "min", "max", "last", "top"}


def module(patches: str, runtime: str, probes: Sequence[Translated]) -> str:
    """The PTX of the patches that these probes need, including the calls of the probes.

    Args:
        patches: the patches of event traces (patches.ptx), which call ws_record and some ws_set_predicates.
        runtime: functions that probes call (probes.ptx).
        probes: the probes, in the order of their bits.
    """
    texts = {found[1]: found[0] for found in _FUNCTION.finditer(patches)}
    kinds = dict.fromkeys(where.kind for one in probes for where in one.probe.where)
    used = "".join(texts[name] for name in ("ws_set_predicates", *(KINDS[kind].patch for kind in kinds)))
    header = "".join(_HEADER.findall(patches))
    return header + _HEADER.sub("", runtime) + _Writer(probes).function() + used


class _Writer:
    """The function under construction: its lines, and the registers taken so far."""

    def __init__(self, probes: Sequence[Translated]) -> None:
        self._probes = probes
        self._numbers = {id(known): number for number, known in enumerate(maps_of(probes))}
        self._lines: list[str] = []
        self._taken = dict.fromkeys(_DECLARED, 0)
        self._labels = 0
        self._fields: dict[str, str] = {}
        self._locals: dict[str, str] = {}
        self._end = ""

    def function(self) -> str:
        """The PTX of ws_record."""
        self._begin()
        for number, one in enumerate(self._probes):
            self._probe(number, one)
        self._lines += ["$done:", "st.param.b32 [func_retval0+0], 0;", "ret;"]
        kinds = ("b64", "b64", "b32", "b64", "b64", "b64")
        parameters = ",\n".join(f"\t.param .{kind} ws_record_param_{i}" for i, kind in enumerate(kinds))
        registers = [f".reg {_DECLARED[name]} {name}<{count + 1}>;" for name, count in self._taken.items()]
        body = "\n".join(line if line.endswith(":") else "\t" + line for line in registers + self._lines)
        return f".visible .func (.param .b32 func_retval0) ws_record(\n{parameters}\n)\n{{\n{body}\n}}\n"

    # The parts of every function.

    def _begin(self) -> None:
        kinds = ("int", "int", "word", "int", "int", "int")
        self._user, self._pc, self._what, self._a, self._b, self._data = (self._new(kind) for kind in kinds)
        for i, register in enumerate((self._user, self._pc, self._what, self._a, self._b, self._data)):
            self._put(f"ld.param.{'u32' if i == 2 else 'u64'} {register}, [ws_record_param_{i}];")
        self._user = self._call("wsp_launch", [("b64", self._user), ("b64", self._pc)], "b64")
        unused, chosen, together = self._new("bool"), self._new("bool"), self._new("word")
        self._put(
            f"setp.eq.s64 {unused}, {self._user}, 0;", f"@{unused} bra $done;", f"activemask.b32 {together};"
        )
        given = [("b64", self._user), ("b64", self._pc), ("b32", self._what), ("b64", self._a)]
        self._enabled = self._call("wsp_enabled", given, "b32")
        self._lanes = self._new("word")
        self._put(f"setp.ne.s32 {chosen}, {self._enabled}, 0;",
                  f"vote.sync.ballot.b32 {self._lanes}, {chosen}, {together};", f"@!{chosen} bra $done;")  # fmt: skip

    def _probe(self, number: int, one: Translated) -> None:
        self._end, self._fields, self._locals = self._label(), {}, {}
        bit, enabled = self._new("word"), self._new("bool")
        self._put(
            f"and.b32 {bit}, {self._enabled}, {1 << number};",
            f"setp.eq.s32 {enabled}, {bit}, 0;",
            f"@{enabled} bra {self._end};",
        )
        self._put(f"@!{self._here(one)} bra {self._end};")
        for name in sorted(one.fields):
            self._fields[name] = self._field(name)
        if one.probe.level == "warp":
            below, mine, first = self._new("word"), self._new("word"), self._new("bool")
            self._put(f"mov.u32 {below}, %lanemask_lt;", f"and.b32 {mine}, {below}, {self._lanes};",
                      f"setp.eq.s32 {first}, {mine}, 0;", f"@!{first} bra {self._end};")  # fmt: skip
        self._block(one.body)
        self._put(f"{self._end}:")
        self._put(f"bar.warp.sync {self._lanes};")

    def _here(self, one: Translated) -> str:
        """Whether the probe sees events of this kind and these flags."""
        what, made = self._wide(self._what), self._bool(False)
        for where in one.probe.where:
            mask, wanted = 255, where.kind
            if where.operation is not None:
                mask, wanted = mask | where.mask << 8, wanted | where.operation << 8
            bits = self._binary("and", what, self._integer(mask))
            same = self._compare("eq", bits, self._integer(wanted), "s64")
            self._put(f"or.pred {made}, {made}, {same};")
        return made

    def _field(self, name: str) -> str:
        user, data = ("b64", self._user), ("b64", self._data)
        match name:
            case "address" | "a":
                return self._a
            case "b":
                return self._b
            case "value" | "value_high":
                return self._call(
                    "wsp_value", [data, ("b32", self._what), ("b32", str(int(name != "value")))], "b64"
                )
            case "sectors":
                return self._call("wsp_sectors", [("b32", self._lanes), ("b64", self._a)], "b64")
            case "pc":
                return self._call("wsp_pc", [user, ("b64", self._pc)], "b64")
            case "block" | "thread" | "block_threads" | "grid_blocks":
                return self._call(f"wsp_{name}", [], "b64")
            case "warp":
                return self._binary("shr", self._call("wsp_thread", [], "b64"), self._integer(5))
            case "active":
                return self._wide(self._lanes)
            case "lane" | "sm":
                return self._wide(self._special("laneid" if name == "lane" else "smid", "word"))
            case "clock" | "time":
                return self._special("clock64" if name == "clock" else "globaltimer", "int")
            case "kind" | "size":
                shifted = self._binary(
                    "shr", self._wide(self._what), self._integer(0 if name == "kind" else 16)
                )
                return self._binary("and", shifted, self._integer(255))
        flags = self._binary(
            "and", self._wide(self._what), self._integer(0xB00 if name == "is_load" else 0x300)
        )
        wanted = {"is_load": 0x100, "is_store": 0x200, "is_atomic": 0x300}[name]
        return self._compare("eq", flags, self._integer(wanted), "s64")

    # Statements.

    def _block(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            match statement:
                case Assign(name, value):
                    self._assign(name, value)
                case Update():
                    self._update(statement)
                case Return():
                    self._put(f"bra {self._end};")
                case If(condition, body, other):
                    after, otherwise = self._label(), self._label()
                    self._put(f"@!{self._value(condition)} bra {otherwise};")
                    self._block(body)
                    self._put(f"bra {after};", f"{otherwise}:")
                    self._block(other)
                    self._put(f"{after}:")
                case For(name, values, body):
                    self._loop(name, values, body)

    def _assign(self, name: str, value: Expression) -> None:
        made = self._value(value)
        target = self._locals.setdefault(name, self._new(value.type))
        self._put(f"mov.{_mov(value.type)} {target}, {made};")

    def _loop(self, name: str, values: range, body: Sequence[Statement]) -> None:
        if not values:
            return
        counter, begin = self._new("int"), self._label()
        self._put(f"mov.b64 {counter}, {values.start};", f"{begin}:")
        self._put(f"mov.b64 {self._locals.setdefault(name, self._new('int'))}, {counter};")
        self._block(body)
        more = self._new("bool")
        self._put(f"add.s64 {counter}, {counter}, {values.step};", f"setp.ne.s64 {more}, {counter}, {values[-1] + values.step};",
                  f"@{more} bra {begin};")  # fmt: skip

    def _update(self, update: Update) -> None:
        known, values = update.map, [self._value(value) for value in update.values]
        if update.how == "row":
            self._row(known, update.values, values)
            return
        after = self._label()
        given, value = update.values[-1], values[-1]
        if given.type == "float":
            value = self._bits(value)
            if update.how in ("min", "max"):
                self._put(f"@{self._test('notanumber', values[-1])} bra {after};")
                value = self._ordered(value)
        assert update.how in _UPDATES
        self._call(f"wsp_{update.how}", [*self._place(known), ("b64", values[0]), ("b64", value)], "")
        self._put(f"{after}:")

    def _row(self, known: Map, given: Sequence[Expression], values: list[str]) -> None:
        after, none = self._label(), self._new("bool")
        more = [("b64", self._integer(len(values))), ("b32", str(int(known.wraps)))]
        row = self._call("wsp_row", [*self._place(known), *more], "b64")
        self._put(f"setp.eq.s64 {none}, {row}, 0;", f"@{none} bra {after};")
        for number, (expression, value) in enumerate(zip(given, values, strict=True)):
            self._put(f"st.{'f64' if expression.type == 'float' else 'u64'} [{row}+{8 * number}], {value};")
        self._put(f"{after}:")

    def _place(self, known: Map) -> list[tuple[str, str]]:
        return [("b64", self._user), ("b32", str(self._numbers[id(known)])), ("b32", str(SCOPES[known.per])),
                ("b64", self._integer(known.words))]  # fmt: skip

    # Expressions.

    def _value(self, value: Expression) -> str:
        match value:
            case Constant(number, "float"):
                made = self._new("float")
                self._put(f"mov.f64 {made}, 0d{struct.pack('>d', number).hex().upper()};")
                return made
            case Constant(number, "bool"):
                return self._bool(bool(number))
            case Constant(number, _):
                return self._integer(int(number))
            case Local(name, _):
                return self._locals[name]
            case Field(name, _):
                return self._fields[name]
            case Read(known, key, kind):
                found = self._call("wsp_get", [*self._place(known), ("b64", self._value(key))], "b64")
                if kind != "float":
                    return found
                return self._one("mov.b64", "float", found)
        return self._operation(value)

    def _operation(self, value: Operation) -> str:
        name, kind = value.name, value.operands[-1].type
        if name in ("floordiv", "mod"):
            return self._divide(name, value.operands[0], value.operands[1])
        a, *others = (self._value(operand) for operand in value.operands)
        if name == "select":
            return self._select(a, others[0], others[1], value.type)
        if kind == "bool":
            if name == "to_int":
                return self._select(a, self._integer(1), self._integer(0), "int")
            if name == "eq":
                return self._one("not.pred", "bool", self._two("xor.pred", "bool", a, others[0]))
            made = self._new("bool")
            self._put(f"{_TRUTH[name]} {made}, {', '.join((a, *others))};")
            return made
        if name in _COMPARISONS:
            unordered = kind == "float" and name == "ne"
            return self._compare(
                "neu" if unordered else name, a, others[0], "f64" if kind == "float" else "s64"
            )
        if name in ("shl", "shr"):
            return self._shift(name, a, others[0])
        table = _FLOAT if kind == "float" else _INTEGER
        if name in table:
            made = self._new(value.type)
            self._put(f"{table[name]} {made}, {', '.join((a, *others))};")
            return made
        return self._convert(name, a)

    def _convert(self, name: str, a: str) -> str:
        match name:
            case "to_float":
                return self._one("cvt.rn.f64.s64", "float", a)
            case "truncate":
                made, nan = self._one("cvt.rzi.s64.f64", "int", a), self._test("notanumber", a)
                return self._select(nan, self._integer(-(1 << 63)), made, "int")
            case "isnan" | "isinf":
                return self._test("notanumber" if name == "isnan" else "infinite", a)
            case "popcount":
                return self._wide(self._one("popc.b64", "word", a))
            case "bits":
                return self._binary("sub", self._integer(64), self._wide(self._one("clz.b64", "word", a)))
            case "as_float64":
                return self._one("mov.b64", "float", a)
            case "as_float16":
                return self._one("cvt.f64.f16", "float", self._one("cvt.u16.u64", "half", a))
            case "as_bfloat16":
                a = self._binary("shl", a, self._integer(16))
        single = self._one("mov.b32", "single", self._one("cvt.u32.u64", "word", a))
        return self._one("cvt.f64.f32", "float", single)

    def _divide(self, name: str, left: Expression, right: Expression) -> str:
        """Floor division as in Python, and 0 if the divisor is 0."""
        a = self._value(left)
        if isinstance(right, Constant) and right.value > 0 and int(right.value) & (int(right.value) - 1) == 0:
            shift = int(right.value).bit_length() - 1
            if name == "mod":
                return self._binary("and", a, self._integer(int(right.value) - 1))
            return self._binary("shr", a, self._integer(shift))
        b = self._value(right)
        zero, minus = (
            self._compare("eq", b, self._integer(0), "s64"),
            self._compare("eq", b, self._integer(-1), "s64"),
        )
        usual = self._select(self._two("or.pred", "bool", zero, minus), self._integer(1), b, "int")
        quotient = self._two("div.s64", "int", a, usual)
        rest = self._binary("sub", a, self._binary("mul", quotient, usual))
        signs = self._compare("lt", self._binary("xor", rest, usual), self._integer(0), "s64")
        below = self._two("and.pred", "bool", self._compare("ne", rest, self._integer(0), "s64"), signs)
        floor = self._binary("sub", quotient, self._select(below, self._integer(1), self._integer(0), "int"))
        floor = self._select(minus, self._one("neg.s64", "int", a), floor, "int")
        found = floor if name == "floordiv" else self._binary("sub", a, self._binary("mul", floor, b))
        return self._select(zero, self._integer(0), found, "int")

    def _shift(self, name: str, a: str, b: str) -> str:
        """A shift by 64 or more, or by a negative number, shifts out all bits."""
        amount = self._two("min.u64", "int", b, self._integer(64))
        word = self._one("cvt.u32.u64", "word", amount)
        return self._two("shl.b64" if name == "shl" else "shr.s64", "int", a, word)

    # Instructions.

    def _put(self, *lines: str) -> None:
        self._lines += lines

    def _new(self, kind: str) -> str:
        prefix = _PREFIX[kind]
        self._taken[prefix] += 1
        return f"{prefix}{self._taken[prefix]}"

    def _label(self) -> str:
        self._labels += 1
        return f"$probe_{self._labels}"

    def _one(self, instruction: str, kind: str, a: str) -> str:
        made = self._new(kind)
        self._put(f"{instruction} {made}, {a};")
        return made

    def _two(self, instruction: str, kind: str, a: str, b: str) -> str:
        return self._one(instruction, kind, f"{a}, {b}")

    def _binary(self, name: str, a: str, b: str) -> str:
        return self._shift(name, a, b) if name in ("shl", "shr") else self._two(_INTEGER[name], "int", a, b)

    def _integer(self, number: int) -> str:
        return self._one("mov.b64", "int", str(integer("add", 0, number)))

    def _bool(self, value: bool) -> str:
        return self._compare("eq" if value else "ne", self._integer(0), self._integer(0), "s64")

    def _compare(self, name: str, a: str, b: str, kind: str) -> str:
        return self._two(f"setp.{name}.{kind}", "bool", a, b)

    def _select(self, condition: str, a: str, b: str, kind: str) -> str:
        if kind == "bool":
            first = self._two("and.pred", "bool", condition, a)
            second = self._two("and.pred", "bool", self._one("not.pred", "bool", condition), b)
            return self._two("or.pred", "bool", first, second)
        return self._one(f"selp.{_mov(kind)}", kind, f"{a}, {b}, {condition}")

    def _test(self, what: str, a: str) -> str:
        return self._one(f"testp.{what}.f64", "bool", a)

    def _wide(self, word: str) -> str:
        return self._one("cvt.u64.u32", "int", word)

    def _bits(self, value: str) -> str:
        return self._one("mov.b64", "int", value)

    def _ordered(self, bits: str) -> str:
        sign = self._binary("shr", bits, self._integer(63))
        return self._binary("xor", bits, self._binary("and", sign, self._integer((1 << 63) - 1)))

    def _special(self, name: str, kind: str) -> str:
        made = self._new(kind)
        self._put(f"mov.{'u32' if kind == 'word' else 'u64'} {made}, %{name};")
        return made

    def _call(self, name: str, given: Sequence[tuple[str, str]], result: str) -> str:
        self._put("{")
        names = []
        for number, (kind, value) in enumerate(given):
            names.append(f"given{number}")
            self._put(f".param .{kind} given{number};", f"st.param.{kind} [given{number}], {value};")
        if not result:
            self._put(f"call {name}, ({', '.join(names)});", "}")
            return ""
        made = self._new("word" if result == "b32" else "int")
        self._put(f".param .{result} answer;", f"call (answer), {name}, ({', '.join(names)});",
                  f"ld.param.{result} {made}, [answer];", "}")  # fmt: skip
        return made


def _mov(kind: str) -> str:
    return {"int": "b64", "float": "f64", "bool": "pred"}[kind]
