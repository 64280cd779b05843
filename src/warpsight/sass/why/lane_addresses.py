"""Addresses that the lanes of a warp access, relative to each other, read from the code alone.

The slice that computes an address is evaluated for one warp. Values that all lanes share but the code does not give (arguments,
the block's number, values loaded from one address) are represented by one aligned number, which shifts all lanes equally. Values
loaded from different addresses per lane are unknown, and so are addresses computed from them. A loop-carried value is taken from
the first iteration: `in[row * 64 + k]` with `row` from the thread's number gives lanes 256 bytes apart, whatever `k`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from warpsight.device_code.decoded import Decoded
from warpsight.device_code.registers import bits, register
from warpsight.sass.events.memory import bank_passes, requested_sectors
from warpsight.sass.why.dependencies import Dependencies

Lanes = npt.NDArray[np.int64]
#: Placeholder for numbers unknown from the code: large, so that rows are far apart, and aligned.
_SHARED = 1 << 13
_LANE = np.arange(32, dtype=np.int64)
_ALL = np.ones((1, 32), bool)
_WORD = 0xFFFFFFFF
#: Stands for a value that is being evaluated; and how many are at most.
CARRIED: Lanes = np.empty(0, np.int64)
_DEEPEST = 64
_TERM = re.compile(r"^(-?)(?:(U?R)(\d+|Z)((?:\.\w+)*)|(0x[0-9a-f]+))$")
_PREDICATE = re.compile(r"^!?U?P(\d|T)$")
_OPERAND = re.compile(r"^([-~|]*)(U?R)(\d+|Z)\b")


class LaneAddresses:
    """The addresses of accesses in one section of code.

    Args:
        dependencies: dependencies of the section; width: threads of a block in x, 0 if unknown.
    """

    def __init__(self, dependencies: Dependencies, width: int = 0) -> None:
        self._dependencies = dependencies
        self._instructions = dependencies.graph.instructions
        self._known: dict[tuple[int, int], Lanes | None] = {}
        self._width = width or 1 << 10
        self._depth = 0
        self._count, self._unknown = 32, _SHARED

    def _all(self, value: int) -> Lanes:
        """A value that all share."""
        return np.full(self._count, value, np.int64)

    def parts(self, index: int) -> tuple[int, int] | None:
        """Sectors of global memory or passes over the banks of shared memory that an access takes, and the fewest for its bytes.

        None if its addresses are unknown. All lanes are assumed to take part.
        """
        one = self._instructions[index]
        if one.kind.space not in ("global", "shared") or not one.kind.bits:
            return None
        lanes = self.of(index)
        if lanes is None:
            return None
        if not np.ptp(lanes):
            return 1, 1
        addresses = (lanes - lanes.min() + (lanes.min() % 128)).astype(np.uint64)[None, :]
        size = np.array([one.kind.bits // 8], np.uint8)
        count = requested_sectors if one.kind.space == "global" else bank_passes
        taken, fewest, _ = count(addresses, _ALL, size)
        return int(taken[0]), max(int(fewest[0]), 1)

    def taken(self, index: int) -> tuple[float, float] | None:
        """The shares of lanes that take a branch and that do not, if lanes differ; None if they agree or it is unknown.

        Half is assumed if data decides, that is, if the branch depends on loaded values that differ between lanes. Lanes that
        jump through a table are assumed to be spread evenly over its targets.
        """
        one = self._instructions[index]
        if one.operation == "BRX":
            targets = self._targets(index)
            return None if targets < 2 else (1 / targets, 1 / targets)
        if one.operation != "BRA" or not one.access.guard:
            return None
        for producer in self._dependencies.producers(index):
            setter = self._instructions[producer.index]
            if producer.registers & one.access.guard:
                share = self._holds(setter)
                if share is None or not 0 < share < 1:
                    return None
                return (1 - share, share) if one.access.negated else (share, 1 - share)
        return None

    def _targets(self, index: int) -> int:
        for producer in self._dependencies.producers(index):
            load = self._instructions[producer.index]
            if load.kind.space == "constant":
                lanes = self.of(load.index)
                return 2 if lanes is None else len(np.unique(lanes))
        return 0

    def _holds(self, setter: Decoded) -> float | None:
        """The share of lanes for which an instruction sets its predicate; None when it is unknown."""
        sources = [
            text for text in setter.access.operands[setter.access.results :] if not _PREDICATE.match(text)
        ]
        values = [self._source(setter.index, text) for text in sources]
        known = [value for value in values if value is not None and value is not CARRIED]
        compare = COMPARISONS.get(setter.access.modifiers[0]) if setter.access.modifiers else None
        if len(known) < len(values):
            return 0.5
        if setter.operation == "LOP3" and len(known) == 4:
            return float((_looked_up(setter, known) != 0).mean())
        if setter.operation != "ISETP" or compare is None or len(known) < 2:
            return None
        holds, differ = float(compare(known[0], known[1]).mean()), known[0] - known[1]
        if setter.access.modifiers[0] in ("EQ", "NE") and np.ptp(differ):
            one = 1 / len(np.unique(differ))  # of as many values, which one is not always known
            return max(holds, one) if setter.access.modifiers[0] == "EQ" else min(holds, 1 - one)
        return holds

    def of(self, index: int) -> Lanes | None:
        """The address of each lane, up to a shared offset; None if unknown."""
        operand = next((text for text in self._instructions[index].access.operands if "[" in text), "")
        if not operand.endswith("]"):
            return None
        total = self._all(0)
        for term in operand[operand.rindex("[") + 1 : -1].split("+"):
            found = _TERM.match(term.strip())
            if found is None:
                return None
            sign, file, number, suffix, constant = found.groups()
            value = self._all(int(constant, 16)) if constant else self._register(index, file, number)
            if value is None or value is CARRIED:
                return None
            scale = int(suffix.split("X")[-1]) if suffix and ".X" in suffix else 1
            total = total + value * scale * (-1 if sign else 1)
        return total

    def _register(self, index: int, file: str, number: str) -> Lanes | None:
        if number == "Z":
            return self._all(0)
        (bit,) = bits(register(file, int(number)))
        key = (index, bit)
        if key not in self._known:
            if self._depth == _DEEPEST:
                return None
            self._known[key] = CARRIED  # while it is evaluated: a value carried around a loop leads back here
            self._depth += 1
            self._known[key] = self._value(index, bit)
            self._depth -= 1
        return self._known[key]

    def _value(self, index: int, bit: int) -> Lanes | None:
        """The value of a register: that of its producers, unknown if any of them is."""
        if bit >= register("UR", 0).bit_length() - 1:
            return self._all(self._unknown)
        producers = [one for one in self._dependencies.producers(index) if one.registers >> bit & 1]
        if not producers:
            return self._all(self._unknown)
        chosen: Lanes | None = CARRIED
        for one in producers:
            found = self._result(self._instructions[one.index], bit)
            if found is None:
                return None
            chosen = found if chosen is CARRIED else chosen
        return chosen

    def _result(self, one: Decoded, bit: int) -> Lanes | None:
        name, results = self._named(one), one.access.results
        if name == "S2R":
            return self._special("".join(one.access.operands[results:]))
        if bit - min(bits(one.access.writes)) > 0 and not one.kind.load:
            return self._all(0)  # the upper half of an address
        if one.kind.space == "local" and one.kind.load:
            return self._spilled(one)
        if one.kind.load:
            addresses = self.of(one.index)
            return None if addresses is None or np.ptp(addresses) else self._all(self._unknown)
        values = []
        for text in one.access.operands[results:]:
            if not _PREDICATE.match(text):
                value = self._source(one.index, text)
                if value is None:
                    return None
                values.append(value)
        if any(value is CARRIED for value in values):
            return CARRIED
        if name not in _ARITHMETIC or (name == "IMAD" and "HI" in one.access.modifiers):
            return None if any(np.ptp(value) for value in values) else self._all(self._unknown)
        try:
            return np.asarray(_ARITHMETIC[name](one, values), np.int64)
        except (IndexError, ValueError):
            return None

    def _spilled(self, load: Decoded) -> Lanes | None:
        """The value that a store put into the same place of local memory."""
        place, chosen = load.access.operands[-1], None
        for one in self._instructions:
            if one.operation == "STL" and one.access.operands[0] == place and not one.access.modifiers:
                found = self._source(one.index, one.access.operands[1])
                if found is not None and (chosen is None or chosen is CARRIED):
                    chosen = found
        return chosen

    def _source(self, index: int, text: str) -> Lanes | None:
        found = _OPERAND.match(text)
        if found is not None:
            signs, file, number = found.groups()
            value = self._register(index, file, number)
            if value is None or value is CARRIED:
                return value
            value = abs(value) if "|" in signs else value
            return -value if "-" in signs else ~value if "~" in signs else value
        try:
            return self._all(int(text, 16))
        except ValueError:
            return self._all(self._unknown)

    def _named(self, one: Decoded) -> str:
        """The operation, by which its result is computed."""
        return one.operation

    def _special(self, name: str) -> Lanes:
        if "TID.X" in name and "CTAID" not in name:
            return _LANE % self._width
        if "TID.Y" in name and "CTAID" not in name:
            return _LANE // self._width
        return _LANE if "LANEID" in name else self._all(0 if "TID.Z" in name else self._unknown)


def _scaled_sum(one: Decoded, values: list[Lanes]) -> Lanes:
    """LEA: shifted by the last operand and added; LEA.HI adds the upper bits."""
    first, second, shift = values[0], values[1], values[-1]
    if "HI" in one.access.modifiers:
        return (first >> (32 - shift)) + second
    return (first << (shift & 31)) + second


def _shifted(one: Decoded, values: list[Lanes]) -> Lanes:
    """SHF: a funnel of two registers, of which one is mostly zero."""
    low, shift, high = values[:3]
    if "L" in one.access.modifiers:
        return high << (shift & 31) if "HI" in one.access.modifiers and not low.any() else low << (shift & 31)
    return (high if "HI" in one.access.modifiers else low) >> (shift & 31)


def _looked_up(_: Decoded, values: list[Lanes]) -> Lanes:
    """LOP3: any function of three bits, by its table.

    An unknown shared by all lanes counts as all ones: masks of a size keep most bits.
    """
    table = int(values[3][0])
    a, b, c = (np.where(value == _SHARED, _WORD, value & _WORD) for value in values[:3])
    found = np.zeros(len(a), np.int64)
    for row in range(8):
        if table >> row & 1:
            found |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
    return found & _WORD


_ARITHMETIC: dict[str, Callable[[Decoded, list[Lanes]], Lanes]] = {
    "HFMA2": lambda _, values: values[2] * 0 if not values[2].any() and not values[3].any() else values[2] * 0 + _SHARED,
    "MOV": lambda _, values: values[0],
    "IABS": lambda _, values: abs(values[0]),
    "SEL": lambda _, values: values[0],
    "IMNMX": lambda _, values: values[0],
    "VIMNMX": lambda _, values: values[0],
    "IADD": lambda _, values: values[0] + values[1],
    "VIADD": lambda _, values: values[0] + values[1],
    "IADD3": lambda _, values: values[0] + values[1] + values[2],
    "IMAD": lambda _, values: values[0] * values[1] + values[2],
    "LEA": _scaled_sum,
    "SHF": _shifted,
    "LOP3": _looked_up,
}  # fmt: skip
COMPARISONS: dict[str, Callable[[Lanes, Lanes], npt.NDArray[np.bool_]]] = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal,
}  # fmt: skip
