"""The PTX text that `-lineinfo` leaves in a cubin, and its information about single instructions.

ptxas writes one row into `.debug_line` where the source line *it works on* changes, so instructions that it moved, and
repeated calls of one inlined function, keep the line of their neighbors. Two further sections are more precise:
`.nv_debug_line_sass` gives the PTX line of every instruction, and `.nv_debug_ptx_txt` holds the PTX itself, its lines
separated by NUL and its `.loc` directives blanked. A stretch of PTX between blank lines therefore has one source position.
Each row of `.debug_line` is at an instruction; that instruction's PTX line anchors its stretch to the row's inline
chain, and every other instruction of the stretch inherits it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable

from warpsight.device_code.debug_info.line_table import LineSequence


def stretches(text: bytes) -> list[int]:
    """For each line of the PTX, counted from 1, the number of its stretch; 0 for lines without an instruction."""
    numbers, current, blank = [0], 0, True
    for line in text.split(b"\0"):
        if not line.strip():
            blank = True
            numbers.append(0)
            continue
        if blank:
            current += 1
            blank = False
        numbers.append(current if _is_instruction(line) else 0)
    return numbers


def _is_instruction(line: bytes) -> bool:
    """Whether a line of PTX can produce instructions; declarations, labels and brackets cannot."""
    text = line.strip()
    return b";" in text and not text.startswith(b".")


def refine(lines: LineSequence, sass: LineSequence, stretch_of: list[int]) -> list[tuple[int, int]]:
    """Better rows for a function's instructions.

    Args:
        lines: the function's rows of `.debug_line`.
        sass: its rows of `.nv_debug_line_sass`.
        stretch_of: see :func:`stretches`.

    Returns:
        (address, index of the row of `lines` to use) for every address where a row of either table begins, ascending.
        The index differs from that of the last row before the address where the PTX says so.
    """
    starts = [row.address for row in lines.rows]
    ptx_starts = [row.address for row in sass.rows]
    if not starts:
        return []

    def stretch_at(address: int) -> int:
        at = bisect_right(ptx_starts, address) - 1
        line = sass.rows[at].line if at >= 0 else 0
        return stretch_of[line] if 0 <= line < len(stretch_of) else 0

    def raw_at(address: int) -> int:
        return max(bisect_right(starts, address) - 1, 0)

    anchors = _anchors(lines, starts, stretch_at)
    result = []
    for address in sorted({*starts, *ptx_starts}):
        if address < starts[0] or address >= lines.end:
            continue
        raw = raw_at(address)
        own = starts[raw] == address
        result.append((address, raw if own else anchors.get(stretch_at(address), raw)))
    return result


_Chain = tuple[tuple[int, int, int], ...]


def _anchors(lines: LineSequence, starts: list[int], stretch_at: Callable[[int], int]) -> dict[int, int]:
    """The row of each stretch of PTX: the most common chain of its anchored instructions; none on a tie."""
    votes: dict[int, Counter[_Chain]] = {}
    example: dict[_Chain, int] = {}
    for index, row in enumerate(lines.rows):
        if index + 1 < len(starts) and starts[index + 1] == row.address:
            continue  # a call site's row: the instruction belongs to the last row at its address
        stretch = stretch_at(row.address)
        if not stretch:
            continue
        chain = tuple((frame.file, frame.line, frame.function) for frame in lines.chain(index))
        votes.setdefault(stretch, Counter())[chain] += 1
        example.setdefault(chain, index)
    found = {}
    for stretch, counter in votes.items():
        (first, count), *rest = counter.most_common(2)
        if not rest or rest[0][1] < count:
            found[stretch] = example[first]
    return found
