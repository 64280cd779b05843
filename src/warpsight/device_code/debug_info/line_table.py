"""The line tables of cubins: DWARF 2 `.debug_line` with NVIDIA's inlining extension, and `.nv_debug_line_sass`.

NVIDIA's tables (written by ptxas from PTX's `.loc … function_name …, inlined_at …`, PTX 7.2 and later) differ from DWARF 2
in three ways, as elfutils and cuda-gdb read them:

* the header ends with four bytes more: the base in `.debug_str` of the names of inlined functions;
* extended opcode 0x90, inlined call: ULEB context, ULEB name offset; 0x91, set function name: ULEB name offset. Both stay
  in the state machine until changed;
* the context is the number of the row of the call site, counted from 1 **within the sequence**; 0 is "not inlined".

Addresses of a cubin that was not relocated come from the relocations of `DW_LNE_set_address`'s operand; those of one
cut out of a running program are GPU addresses. `.nv_debug_line_sass` has the same encoding: one file, whose "lines" are
lines of `.nv_debug_ptx_txt`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from warpsight.device_code.elf import readable

_END, _SET_ADDRESS, _DEFINE_FILE, _INLINED_CALL, _FUNCTION_NAME = 1, 2, 3, 0x90, 0x91
#: Limit that keeps rows and sequences of a damaged table from exhausting memory.
MAXIMUM_ROWS = 50_000_000
#: Limit for call sites that refer to each other in a circle.
MAXIMUM_DEPTH = 256


class LineRow(NamedTuple):
    """One row of the line table: from this address on, instructions belong to this line.

    `context` is the number of the call site's row in the same sequence, 0 when the line is in the function itself;
    `function` the offset of the inlined function's name in `.debug_str`, -1 if there is none.
    """

    address: int
    file: int
    line: int
    column: int
    context: int
    function: int


class _SourceFile(NamedTuple):
    """One entry of a file table."""

    directory: str
    name: str

    @property
    def path(self) -> str:
        """Folder and name as the compiler saw them."""
        return (
            self.name if self.name.startswith("/") or not self.directory else f"{self.directory}/{self.name}"
        )


@dataclass(frozen=True)
class LineSequence:
    """The rows of one function, in order; its start address is relocated if the operand at `operand` is.

    Attributes:
        rows: addresses relative to the operand's value.
        operand: offset in the section of the operand of `DW_LNE_set_address`, -1 without one.
        base: the operand's value.
        end: where the last row ends, relative like the rows.
        files: the unit's file table, 1-based: entry 0 is unused.
    """

    rows: tuple[LineRow, ...]
    operand: int
    base: int
    end: int
    files: tuple[_SourceFile, ...]

    def chain(self, index: int) -> tuple[LineRow, ...]:
        """The row and its call sites' rows, innermost first.

        Of each row the file, line and column are the position in that frame, and `function` names the inlined function
        of that frame; the last row's frame is the function itself.
        """
        found = [self.rows[index]]
        while found[-1].context:
            caller = found[-1].context - 1
            if caller >= len(self.rows) or len(found) > MAXIMUM_DEPTH:
                break
            found.append(self.rows[caller])
        return tuple(found)

    def file(self, number: int) -> _SourceFile:
        """An entry of the file table; an empty one for unknown numbers."""
        return self.files[number] if 0 <= number < len(self.files) else _SourceFile("", "")


class DamagedTable(Exception):
    """The table is truncated or inconsistent; earlier rows are valid."""


def sequences(table: bytes, problems: list[str], what: str = ".debug_line") -> Iterator[LineSequence]:
    """Every sequence of every unit of a line table; damage ends it with an entry in `problems`."""
    offset = 0
    while offset + 10 <= len(table):
        length = int.from_bytes(table[offset : offset + 4], "little")
        end = offset + 4 + length
        if length < 6 or end > len(table):
            problems.append(
                f"{what}: the unit at {offset} claims {length:,} bytes, but {len(table) - offset - 4:,} are present"
            )
            end = len(table)
        try:
            yield from _Unit(table, offset, end).sequences()
        except (DamagedTable, IndexError, ValueError) as error:
            problems.append(f"{what}: the unit at {offset} is damaged ({error})")
        offset = end


def sequence_at(
    table: bytes, operand: int, problems: list[str], what: str = ".debug_line"
) -> LineSequence | None:
    """The sequence whose `DW_LNE_set_address` operand is at that offset, or None.

    Every sequence begins with that instruction, three bytes before its operand, so one function's rows can be read from a large
    module without decoding the others.
    """
    offset = 0
    while offset + 10 <= len(table):
        end = offset + 4 + int.from_bytes(table[offset : offset + 4], "little")
        if offset < operand < end <= len(table) and table[operand - 3 : operand] == b"\0\x09\x02":
            try:
                return next(_Unit(table, offset, end).sequences(operand - 3), None)
            except (DamagedTable, IndexError, ValueError) as error:
                problems.append(f"{what}: the rows at {operand} are damaged ({error})")
                return None
        if end <= offset:
            break
        offset = end
    problems.append(f"{what}: no rows begin at {operand}")
    return None


class _Unit:
    """The decoder of one unit."""

    def __init__(self, table: bytes, offset: int, end: int) -> None:
        self.table, self.end = table, end
        version = int.from_bytes(table[offset + 4 : offset + 6], "little")
        if not 2 <= version <= 4:
            raise DamagedTable(f"version {version} is not known")
        self.at = offset + 10 + int.from_bytes(table[offset + 6 : offset + 10], "little")
        at = offset + 10
        self.minimum_length, at = table[at], at + 1
        if version >= 4:
            at += 1  # operations per instruction, of VLIW machines
        at += 1  # default of is_stmt, which breakpoints use
        self.line_base = table[at] - 256 if table[at] > 127 else table[at]
        self.line_range, self.opcode_base = table[at + 1], table[at + 2]
        if self.line_range == 0 or self.opcode_base == 0:
            raise DamagedTable("its header is invalid")
        self.lengths = table[at + 3 : at + 2 + self.opcode_base]
        self.files = self._files(at + 2 + self.opcode_base)

    def _files(self, at: int) -> tuple[_SourceFile, ...]:
        directories = [""]
        while self.table[at]:
            text, at = self._text(at)
            directories.append(text)
        at += 1
        files = [_SourceFile("", "")]
        while self.table[at]:
            name, at = self._text(at)
            directory, at = self._unsigned(at)
            _, at = self._unsigned(at)
            _, at = self._unsigned(at)
            files.append(_SourceFile(directories[directory] if directory < len(directories) else "", name))
        at += 1
        # The extension's base of names is between the tables and the program, when there is room for it.
        self.names = int.from_bytes(self.table[at : at + 4], "little") if self.at - at == 4 else 0
        return tuple(files)

    def _text(self, at: int) -> tuple[str, int]:
        end = self.table.index(b"\0", at, self.end)
        return readable(self.table[at:end]), end + 1

    def _unsigned(self, at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            byte = self.table[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value, at
            shift += 7
            if shift > 70:
                raise DamagedTable("a number does not end")

    def _signed(self, at: int) -> tuple[int, int]:
        start = at
        value, at = self._unsigned(at)
        bits = 7 * (at - start)
        return (value - (1 << bits) if value >> (bits - 1) & 1 else value), at

    def sequences(self, start: int | None = None) -> Iterator[LineSequence]:
        """Run the line program, from its start or from the first instruction of a sequence."""
        table, base, span = self.table, self.opcode_base, self.line_range
        at, total = self.at if start is None else start, 0
        while at < self.end:
            state = _State(self.files)
            while at < self.end:
                opcode = table[at]
                at += 1
                if opcode >= base:
                    opcode -= base
                    state.address += opcode // span * self.minimum_length
                    state.line += self.line_base + opcode % span
                    state.emit()
                elif opcode:
                    at = self._standard(state, opcode, at)
                else:
                    length, at = self._unsigned(at)
                    finished = self._extended(state, table[at], at + 1, at + length)
                    at += length
                    if finished:
                        yield state.finish()
                        break
                if len(state.rows) + total > MAXIMUM_ROWS:
                    raise DamagedTable("it has no end")
            total += len(state.rows)

    def _standard(self, state: _State, opcode: int, at: int) -> int:
        if opcode == 1:
            state.emit()
        elif opcode == 2:
            value, at = self._unsigned(at)
            state.address += value * self.minimum_length
        elif opcode == 3:
            value, at = self._signed(at)
            state.line += value
        elif opcode == 4:
            state.file, at = self._unsigned(at)
        elif opcode == 5:
            state.column, at = self._unsigned(at)
        elif opcode == 8:
            state.address += (255 - self.opcode_base) // self.line_range * self.minimum_length
        elif opcode == 9:
            state.address += int.from_bytes(self.table[at : at + 2], "little")
            at += 2
        else:  # its operands are all ULEBs, and the header says how many
            for _ in range(self.lengths[opcode - 1]):
                _, at = self._unsigned(at)
        return at

    def _extended(self, state: _State, opcode: int, at: int, end: int) -> bool:
        """Execute one extended opcode; returns whether it ends the sequence."""
        if end > self.end:
            raise DamagedTable("an instruction extends past its end")
        if opcode == _SET_ADDRESS:
            if not state.rows:
                state.operand, state.base = at, int.from_bytes(self.table[at:end], "little")
                state.address = 0
            else:  # again within a sequence: relative to the first
                state.address = int.from_bytes(self.table[at:end], "little") - state.base
        elif opcode == _INLINED_CALL:
            state.context, at = self._unsigned(at)
            name, at = self._unsigned(at)
            state.function = self.names + name if state.context else -1
        elif opcode == _FUNCTION_NAME:
            name, at = self._unsigned(at)
            state.function = self.names + name
        return opcode == _END


class _State:
    """The state machine's registers and the rows it has produced."""

    def __init__(self, files: tuple[_SourceFile, ...]) -> None:
        self.files = files
        self.rows: list[LineRow] = []
        self.operand, self.base = -1, 0
        self.address, self.file, self.line, self.column, self.context, self.function = 0, 1, 1, 0, 0, -1

    def emit(self) -> None:
        self.rows.append(
            LineRow(self.address, self.file, self.line, self.column, self.context, self.function)
        )

    def finish(self) -> LineSequence:
        return LineSequence(tuple(self.rows), self.operand, self.base, self.address, self.files)
