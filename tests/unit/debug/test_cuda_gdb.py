"""cuda-gdb's text (13.0, as printed on an H200), and the classification of looks at a live process."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from warpsight.debug import cuda_gdb
from warpsight.debug.cuda_gdb_sampling import sample_process
from warpsight.errors import WarpsightError

UNDER_CUPTI = """[New LWP 5228]
Using host libthread_db library "/lib/x86_64-linux-gnu/libthread_db.so.1".
Timed out waiting for the CUDA API to initialize.
No CUDA kernels.
[Inferior 1 (process 5227) detached]
"""
IDLE = "No CUDA kernels.\n"
KERNELS = """  Kernel Parent Dev Grid Status                             SMs Mask GridDim BlockDim Invocation
{rows}
"""


def looks(*texts: str):  # type: ignore[no-untyped-def]
    """A debugger that prints one text after the other, and what it was asked."""
    asked: list[Sequence[str]] = []
    rest = list(texts)

    def run(commands: Sequence[str], limit: float, pid: int) -> str:
        asked.append(commands)
        return rest.pop(0)

    return run, asked


def one_look(places: list[tuple[int, int]], grid: int = 1, block: int = 1, code: str = "") -> str:
    """A look at one kernel with (PC, threads) in blocks 0 to `block`."""
    rows = f"*      0      -   0    {grid} Active 0x0050000000000000000000000000000000 (2,1,1) (64,1,1) spin(int*) "
    threads = "".join(
        f"*  (0,0,0)   (0,0,0)     ({block},0,0)  (63,0,0)   {count} 0x{pc:016x} /src/spin.cu     9 \n"
        for pc, count in places
    )
    return KERNELS.format(rows=rows) + "Kernel 0\n" + threads + code


def test_a_process_under_cupti_is_not_called_idle() -> None:
    run, _ = looks(UNDER_CUPTI)
    found = sample_process(5227, run=run)
    assert found.verdict == "unavailable"
    assert "warpsight recording" in found.reason


def test_no_kernel_in_any_look_is_no_active_kernel() -> None:
    run, _ = looks(IDLE, IDLE)
    assert sample_process(1, count=2, interval_s=0, run=run).verdict == "no active kernel"


@pytest.mark.parametrize(
    ("before", "at", "verdict"),
    [
        ("BAR.SYNC.DEFER_BLOCKING 0x0", "STG.E [R2], R0", "barrier"),
        ("MOV R1,R2", "UCGABAR_WAIT", "barrier"),
        ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0,[UR6],R0", "@!P0 BRA 0x7f", "barrier"),
        ("LDG.E.STRONG.SYS R0,[R2]", "ISETP.NE.AND P0,PT,R0,RZ,PT", "looping"),
    ],
)
def test_the_instruction_where_threads_stand_tells_waiting_from_looping(
    before: str, at: str, verdict: str
) -> None:
    pc = 0x7F6AAB7A0060
    code = f"   {pc - 16:#x} <spin+80>:\t{before}\n=> {pc:#x} <spin+96>:\t{at}\n"
    run, asked = looks(one_look([(pc, 128)]), one_look([(pc, 128)], code=code))
    found = sample_process(1, count=2, interval_s=0, run=run)
    assert found.verdict == verdict
    assert found.kernels == ("spin(int*)",)
    assert f"x/2i {pc - 16:#x}" in asked[1]


def test_some_waiting_and_some_looping_is_mixed() -> None:
    a, b = 0x1000, 0x2000
    code = f"{a - 16:#x}:\tBAR.SYNC 0x1\n{a:#x}:\tNOP\n{b - 16:#x}:\tMOV R0,R1\n{b:#x}:\tBRA 0x2000\n"
    run, _ = looks(one_look([(a, 96), (b, 32)]), one_look([(a, 96), (b, 32)], code=code))
    found = sample_process(1, count=2, interval_s=0, run=run)
    assert (found.verdict, found.waiting, found.looping) == ("mixed", 96, 32)


@pytest.mark.parametrize("second", [one_look([(0x1000, 64)], grid=2), one_look([(0x1000, 64)], block=7)])
def test_other_grids_or_other_blocks_are_progress(second: str) -> None:
    run, _ = looks(one_look([(0x1000, 64)]), second)
    assert sample_process(1, count=2, interval_s=0, run=run).verdict == "no hang"


def blocks_at(*ranges: tuple[int, int, int]) -> str:
    """A look at one kernel of 16 blocks: (first block, last block, PC) in the order of cuda-gdb."""
    kernel = (
        "*      0      -   0    1 Active 0x0050000000000000000000000000000000 (16,1,1) (64,1,1) spin(int*) "
    )
    rows = "".join(
        f"  ({first},0,0)   (0,0,0)     ({last},0,0)  (63,0,0)   {64 * (last - first + 1)} 0x{pc:016x} /src/spin.cu     9 \n"
        for first, last, pc in ranges
    )
    return KERNELS.format(rows=kernel) + "Kernel 0\n" + rows


def test_a_block_between_the_first_and_the_last_is_progress() -> None:
    looked = [blocks_at((0, 0, 0x1000), (middle, middle, 0x1000), (9, 9, 0x1000)) for middle in (3, 4, 5)]
    run, _ = looks(*looked)
    assert sample_process(1, count=3, interval_s=0, run=run).verdict == "no hang"


def test_the_same_blocks_at_other_places_are_no_progress() -> None:
    run, _ = looks(blocks_at((0, 9, 0x1000)), blocks_at((0, 2, 0x1000), (3, 5, 0x1020), (6, 9, 0x1000)))
    assert sample_process(1, count=2, interval_s=0, run=run).verdict == "looping"


def test_kernels_without_threads_are_no_verdict() -> None:
    run, _ = looks(one_look([]), one_look([]))
    found = sample_process(1, count=2, interval_s=0, run=run)
    assert (found.verdict, found.kernels) == ("unavailable", ("spin(int*)",))


def test_a_debugger_that_does_not_answer_leaves_what_was_seen() -> None:
    first = one_look([(0x1000, 64)])

    def run(commands: Sequence[str], limit: float, pid: int) -> str:
        if len(commands) > 5:
            raise WarpsightError("cuda-gdb did not answer within 3 s")
        return first

    found = sample_process(1, count=3, interval_s=0, run=run)
    assert len(found.samples) == 1 and "did not answer" in found.reason


def test_without_cuda_gdb_the_message_says_where_it_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_gdb, "find", lambda: None)
    with pytest.raises(WarpsightError, match="part of the CUDA toolkit"):
        cuda_gdb.run(["info cuda kernels"], 1)
