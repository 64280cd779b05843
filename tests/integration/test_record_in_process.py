"""`with ws.record(...)` inside a program, and `warpsight demo`; each case is a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.opencl_recording import require_pocl
from tests.integration.recorded import TIMEOUT, Recorded, environment, launcher


def run(library: Path, tmp_path: Path, text: str, *, code: int = 0) -> str:
    """Run a program that imports warpsight as ws; its output."""
    program = [sys.executable, "-c", "import os, sys\nimport warpsight as ws\n" + text]
    done = subprocess.run(program, env=environment(library), cwd=tmp_path, capture_output=True, text=True,
                          timeout=TIMEOUT, check=False)  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_three_recordings_one_after_another(library: Path, tmp_path: Path) -> None:
    run(library, tmp_path, "for i in range(3):\n"
        "    with ws.record(f'{i}.warp'):\n"
        "        for j in range(10):\n"
        "            with ws.annotate('outer', j=j), ws.annotate('inner'): ws.counter('c', j)\n"
        "            ws.emit(f'recording {i}')\n"
        "    assert ws.open(f'{i}.warp').sql('SELECT count(*) FROM user_event').fetchall() == [(10,)]\n")  # fmt: skip
    for number in range(3):
        trace = Recorded(0, "", "", tmp_path / f"{number}.warp")
        assert trace.sql("SELECT DISTINCT name FROM user_event") == [(f"recording {number}",)]
        assert trace.sql("SELECT name, depth, count(*) FROM marker GROUP BY ALL ORDER BY depth") == [
            ("outer", 0, 10), ("inner", 1, 10),
        ]  # fmt: skip
        assert trace.sql("SELECT count(*) FROM counter WHERE name = 'c'") == [(10,)]


def test_a_schedule_records_the_chosen_steps(library: Path, tmp_path: Path) -> None:
    run(library, tmp_path, "with ws.record('a.warp', skip=3, steps=2):\n"
        "    for i in range(10):\n        ws.emit(f'in step {i}', kind='work'); ws.step()\n")  # fmt: skip
    trace = Recorded(0, "", "", tmp_path / "a.warp")
    assert trace.sql("SELECT name FROM user_event WHERE kind = 'work' ORDER BY start") == [
        ("in step 3",),
        ("in step 4",),
    ]


def test_statistics_and_children(library: Path, tmp_path: Path) -> None:
    run(library, tmp_path, "import subprocess\n"
        "with ws.record('a.warp') as recording:\n"
        "    ws.emit('parent')\n"
        "    subprocess.run([sys.executable, '-c', 'import warpsight as ws; ws.emit(\"child\")'], check=True)\n"
        "    found = ws.statistics()\n"
        "assert found['kept'] >= 1 and found['dropped'] == 0 and found['processes'] == 2, found\n"
        "assert ws.statistics() == {}\n"
        "assert not [name for name in os.environ if name == 'WARPSIGHT_SOCKET']\n")  # fmt: skip
    names = Recorded(0, "", "", tmp_path / "a.warp").sql("SELECT name FROM user_event ORDER BY start")
    assert names == [("parent",), ("child",)]


def test_reported_memory_has_category_and_stack(library: Path, tmp_path: Path) -> None:
    run(library, tmp_path, "with ws.record('a.warp'):\n"
        "    ws.memory.allocate(4096, 512, allocator='pool', tag='kv', category='cached')\n"
        "    ws.memory.free(4096, allocator='pool')\n")  # fmt: skip
    rows = Recorded(0, "", "", tmp_path / "a.warp").sql(
        "SELECT operation, address, bytes, allocator, tag, category, device, stack IS NOT NULL FROM memory ORDER BY time"
    )
    assert rows[0] == ("allocate", 4096, 512, "pool", "kv", "cached", None, True)
    assert rows[1][:2] == ("free", 4096)


def test_record_under_the_launcher_joins_it(library: Path, tmp_path: Path) -> None:
    text = "import warpsight as ws\nwith ws.record('inner.warp'): ws.emit('joined')\nws.emit('behind')"
    done = subprocess.run(launcher("-q", "-o", "outer.warp", "--", sys.executable, "-c", text), env=environment(library),
                          cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT, check=True)  # fmt: skip
    assert "recorded from outside" in done.stderr
    assert not (tmp_path / "inner.warp").exists()
    names = Recorded(0, "", "", tmp_path / "outer.warp").sql("SELECT name FROM user_event ORDER BY start")
    assert names == [("joined",), ("behind",)]


def test_a_program_killed_inside_a_recording_leaves_a_complete_trace(library: Path, tmp_path: Path) -> None:
    import time

    run(
        library,
        tmp_path,
        "ws.start('a.warp')\nfor i in range(100): ws.emit('x')\nos.kill(os.getpid(), 9)",
        code=-9,
    )
    deadline = time.monotonic() + TIMEOUT
    while not (tmp_path / "a.warp" / "manifest.json").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert Recorded(0, "", "", tmp_path / "a.warp").sql("SELECT count(*) FROM user_event") == [(100,)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ws.record('a.warp', stack='python')", "no option stack"),
        ("ws.record('a.warp', skip=-1)", "skip and steps"),
        ("ws.start('no/such/place.warp')", "does not exist"),
        ("ws.start('a.warp'); ws.start('b.warp')", "is being recorded into"),
        ("ws.start('a.warp'); ws.stop(); ws.start('b.warp', stacks='off')", "cannot change after the first"),
    ],
)
def test_mistakes_are_errors_that_say_what_to_do(
    library: Path, tmp_path: Path, text: str, message: str
) -> None:
    assert message in run(
        library, tmp_path, f"try:\n    {text}\nexcept ws.WarpsightError as error:\n    print(error)\n"
    )


def test_everything_is_silent_when_nothing_records(library: Path, tmp_path: Path) -> None:
    text = "with ws.annotate('a'): ws.emit('e'); ws.counter('c', 1); ws.mark('m'); ws.step(); ws.memory.free(1)\n"
    assert (
        run(library, tmp_path, text + "assert 'numpy' not in sys.modules and 'duckdb' not in sys.modules")
        == ""
    )


def test_the_demo_records_kernels_with_stacks(library: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "warpsight.ui.cli", "demo", "--device", "opencl"], env=environment(library),
                          cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT, check=False)  # fmt: skip
    if "OpenCL" in done.stderr and done.returncode:
        pytest.skip("no OpenCL device")
    assert done.returncode == 0, done.stderr
    trace = Recorded(0, done.stdout, done.stderr, tmp_path / "demo.warp")
    assert trace.sql("SELECT name, count(*) FROM kernel GROUP BY 1 ORDER BY 2 DESC")[0] == ("heat_step", 300)
    assert trace.sql("SELECT count(*) FROM launch WHERE stack IS NULL") == [(0,)]
    assert trace.sql("SELECT count(*) FROM marker WHERE name = 'report'") == [(6,)]
    assert "heat_step" in done.stderr


#: A queue, and a function that does work on it, without more than a loader.
_OPENCL = """
import ctypes
cl = ctypes.CDLL(ctypes.util.find_library("OpenCL"))
def begin():
    platform, device, code = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
    cl.clGetPlatformIDs(1, ctypes.byref(platform), None)
    cl.clGetDeviceIDs(platform, ctypes.c_ulong(0xFFFFFFFF), 1, ctypes.byref(device), None)
    cl.clCreateContext.restype = cl.clCreateCommandQueue.restype = cl.clCreateBuffer.restype = ctypes.c_void_p
    context = ctypes.c_void_p(cl.clCreateContext(None, 1, ctypes.byref(device), None, None, ctypes.byref(code)))
    queue = ctypes.c_void_p(cl.clCreateCommandQueue(context, device, ctypes.c_ulong(0), ctypes.byref(code)))
    buffer = ctypes.c_void_p(cl.clCreateBuffer(context, ctypes.c_ulong(1), ctypes.c_size_t(64), None, ctypes.byref(code)))
    return queue, buffer
def work(queue, buffer):
    data = (ctypes.c_char * 64)()
    assert cl.clEnqueueWriteBuffer(queue, buffer, 1, ctypes.c_size_t(0), ctypes.c_size_t(64), data, 0, None, None) == 0
def told(path):
    trace = ws.open(path)
    return trace.count("memcpy"), [cause for cause, in trace.sql("SELECT cause FROM loss WHERE source = 'opencl'").fetchall()]
"""


def test_opencl_that_began_before_the_recording_is_lost_and_said(library: Path, tmp_path: Path) -> None:
    """A notebook that makes its queue in one cell and records the next got an empty trace that did not say why."""
    require_pocl()
    said = run(library, tmp_path, f"import ctypes.util{_OPENCL}"
               "made = begin()\nwith ws.record('a.warp'): work(*made)\nprint(told('a.warp'))\n")  # fmt: skip
    assert '(0, ["OpenCL was in use before the recording began' in said
    assert "UserWarning: " in said and "first OpenCL call" in said


def test_opencl_that_began_in_a_recording_is_recorded_by_the_next_too(library: Path, tmp_path: Path) -> None:
    require_pocl()
    said = run(library, tmp_path, f"import ctypes.util{_OPENCL}"
               "with ws.record('a.warp'): made = begin(); work(*made)\n"
               "with ws.record('b.warp'): work(*made)\nwith ws.record('c.warp'): pass\n"
               "print(told('a.warp'), told('b.warp'), told('c.warp'))\n")  # fmt: skip
    assert said.strip() == "(1, []) (1, []) (0, [])"


def test_a_loader_alone_is_no_opencl_at_work(library: Path, tmp_path: Path) -> None:
    require_pocl()
    said = run(
        library,
        tmp_path,
        f"import ctypes.util{_OPENCL}with ws.record('a.warp'): pass\nprint(told('a.warp'))\n",
    )
    assert said.strip() == "(0, [])"
