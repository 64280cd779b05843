"""Probes: what the language takes and refuses, the device code it becomes, and answers over recorded traces by brute force."""

from __future__ import annotations

import json
import math
import subprocess
import types
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpsight as ws
from tests.golden import event_truth
from warpsight.device_code.disassembly import find_tool
from warpsight.errors import UsageError, WarpsightError
from warpsight.formats.events.kinds import KINDS
from warpsight.sass.events.trace import EventTrace
from warpsight.sass.probes import files, interpreter, ready
from warpsight.sass.probes.arithmetic import OPERATIONS
from warpsight.sass.probes.definition import Probe, translated
from warpsight.sass.probes.files import ProbeFile
from warpsight.sass.probes.results import results
from warpsight.sass.probes.running import device_code
from warpsight.ui.cli import app

ROOT = Path(__file__).parents[3]
TRUTH = ROOT / "tests" / "golden" / "events" / "truth.events.zst"
CLASSES = TRUTH.with_name("classes.events.zst")
LANGUAGE = ROOT / "tests" / "gpu" / "probes.py"

whole = ws.probes.array(4, per="thread")
remembered = ws.probes.array(2, per="thread", reduce="last")
of_warp = ws.probes.array(2, per="warp", reduce="last")
of_cta = ws.probes.array(2, per="cta")
floats = ws.probes.array(1, reduce="min", type=float)
rows = ws.probes.ring(4, a=int, b=float)


def _ready() -> list[Path]:
    return [found for name in ready.listed() if (found := ready.find(name))]


@pytest.mark.parametrize("path", [LANGUAGE, *_ready()], ids=lambda path: path.stem)
def test_device_code_assembles_for_every_architecture(path: Path, tmp_path: Path) -> None:
    tool = find_tool("ptxas")
    if tool is None:
        pytest.skip("no ptxas")
    source = tmp_path / "probes.ptx"
    source.write_text(device_code(translated(ProbeFile.open(path).probes)))
    for architecture in (75, 80, 90, 100):
        command = [
            tool,
            "--compile-as-tools-patch",
            f"-arch=sm_{architecture}",
            source,
            "-o",
            tmp_path / "cubin",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if "is not defined for option 'gpu-name'" in done.stderr:
            continue  # another CUDA's ptxas
        assert (done.returncode, done.stderr) == (0, ""), architecture


BAD: dict[str, tuple[str, str]] = {
    "while": ("while True: pass", "`while True:` cannot be in a probe; a probe may use"),
    "call": ("print(event.lane)", "cannot be in a probe"),
    "unknown": ("x = no_such_name", "no_such_name is not known here"),
    "list": ("x = [1]", "[1] cannot be in a probe"),
    "field": ("x = event.adress", "an event has no numeric field 'adress'"),
    "space": ("x = event.space", "it is compared with a name"),
    "kind": ("x = event.kind == 'barier'", "there is no kind 'barier'"),
    "bounds": ("for i in range(event.lane): pass", "the bounds of a loop must be constants"),
    "steps": ("for i in range(1000):\n  for j in range(1000): pass", "more than 65,536 steps"),
    "becomes": ("x = 1\nx = 2.5", "x is an int and cannot become a float"),
    "unset": ("if event.lane: x = 1\ny = x", "x may have no value here"),
    "after": ("for i in range(0): x = 1\ny = i", "i may have no value here"),
    "integers": ("x = 2.5 // 1", "this operator takes integers"),
    "power": ("x = event.lane ** 2", "this operator cannot be used in a probe"),
    "key": ("whole.add(2.5, 1)", "an integer is needed here"),
    "arguments": ("whole.add(1)", "whole.add(key, value)"),
    "shared": ("x = of_cta[0]", "of_cta is per cta, which other threads change at the same time"),
    "lanes": ("of_warp[0] = 1", "of_warp is per warp, which other threads change"),
    "sums": ("whole[0] = 1", "whole keeps the sum of its values"),
    "last": ("remembered.add(0, 1)", "remembered keeps the last value"),
    "columns": ("rows.push(1)", "rows has the columns a, b"),
    "column": ("rows.push(1, c=2)", "rows has the columns a, b"),
    "no map": ("event.lane.add(1)", "is not a map"),
    "text": ("x = event.lane == 'a'", "only the event's space and kind are compared"),
    "return": ("return 1", "cannot be in a probe"),
    "large": ("x = 1 << 3 + 18446744073709551616", "does not fit 64 bits"),
    "min": ("x = min(1)", "min takes two values or more"),
    "event": ("event = 1", "the event cannot be assigned to"),
}  # fmt: skip


def _file(folder: Path, body: str, decorator: str = "@ws.probe(at='memory.load')") -> Path:
    maps = """
whole = ws.probes.array(4, per="thread")
remembered = ws.probes.array(2, per="thread", reduce="last")
of_warp = ws.probes.array(2, per="warp", reduce="last")
of_cta = ws.probes.array(2, per="cta")
floats = ws.probes.array(1, reduce="min", type=float)
rows = ws.probes.ring(4, a=int, b=float)
"""
    indented = "\n".join("    " + line for line in body.splitlines())
    path = folder / "mine.py"
    path.write_text(f"import warpsight as ws\n{maps}\n{decorator}\ndef mine(event):\n{indented}\n")
    return path


@pytest.mark.parametrize("name", BAD)
def test_what_a_probe_cannot_is_refused_at_its_line(name: str, tmp_path: Path) -> None:
    body, said = BAD[name]
    path = _file(tmp_path, "x0 = 0\n" + body)
    with pytest.raises(UsageError) as refused:
        translated(ProbeFile.open(path).probes)
    first = path.read_text().splitlines().index("    x0 = 0") + 2
    place, _, message = str(refused.value).partition(": ")
    assert place.startswith(f"{path}:")
    assert first <= int(place.rpartition(":")[2]) < first + len(body.splitlines())
    assert said in message


@pytest.mark.parametrize(
    ("decorator", "said"),
    [
        ("@ws.probe(at='memory.lod')", "there is no event 'memory.lod'"),
        ("@ws.probe(at='bariers')", "there is no event 'bariers'"),
        ("@ws.probe(at='memory', level='block')", "the level of a probe must be thread or warp"),
        ("x = ws.probes.array(0)\n@ws.probe(at='memory')", "between 1 and"),
        ("x = ws.probes.array(1, per='block')\n@ws.probe(at='memory')", "a map is per grid, cta, warp, thread"),
        ("x = ws.probes.array(1, reduce='mean')\n@ws.probe(at='memory')", "an array reduces by"),
        ("x = ws.probes.array(1, reduce='last')\n@ws.probe(at='memory')", "an array per grid has no last value"),
        ("x = ws.probes.array(1, type=float)\n@ws.probe(at='memory')", "a sum would depend on the order of threads"),
        ("x = ws.probes.ring(3)\n@ws.probe(at='memory')", "a ring has columns"),
        ("1 / 0\n@ws.probe(at='memory')", "mine.py:10: ZeroDivisionError"),
        ("", "there is no probe in it"),
    ],
)  # fmt: skip
def test_a_wrong_declaration_is_refused(decorator: str, said: str, tmp_path: Path) -> None:
    path = _file(tmp_path, "pass", decorator)
    with pytest.raises(WarpsightError, match=said.replace("(", r"\(")) as refused:
        ProbeFile.open(path)
    assert str(path) in str(refused.value)


def test_probes_at_level_warp_have_no_maps_of_threads(tmp_path: Path) -> None:
    path = _file(tmp_path, "whole.add(0, 1)", "@ws.probe(at='memory', level='warp')")
    with pytest.raises(UsageError, match="whole is per thread, but this probe runs once per warp"):
        translated(ProbeFile.open(path).probes)


def test_constants_of_a_file_can_be_set(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "import warpsight as ws\nWHICH = 1\nTYPE = 'a'\nkept = ws.probes.array(9)\n@ws.probe(at='global.load')\n"
        "def mine(event):\n    if TYPE == 'b':\n        kept.add(WHICH, 1)\n"
    )
    found = ProbeFile.open(path, {"WHICH": "0x4", "TYPE": "b"}).of_trace(TRUTH)["kept"]
    assert set(found["key"].to_pylist()) == {4}
    for constants, said in (
        ({"NONE": "1"}, "the file has no constant NONE"),
        ({"WHICH": "b"}, "WHICH is a int"),
    ):
        with pytest.raises(UsageError, match=said):
            ProbeFile.open(path, constants)


# Answers over recorded traces.


class _Fake:
    """Maps as plain dictionaries, for running a probe's function as Python."""

    def __init__(self) -> None:
        self.owner: dict[str, tuple[int, ...]] = {}
        self.held: dict[str, dict[tuple[int, ...], dict[int, Any]]] = defaultdict(lambda: defaultdict(dict))

    def named(self, known: Any, name: str) -> types.SimpleNamespace:
        reduce = {"sum": lambda a, b: a + b, "min": min, "max": max, "or": lambda a, b: a | b}.get(
            known.reduce
        )
        assert reduce is not None

        def add(*given: Any) -> None:
            key, value = given if len(given) == 2 else (0, *(given or (1,)))
            own = self.held[name][self.owner[known.per]]
            if 0 <= key < known.size and not (isinstance(value, float) and math.isnan(value)):
                own[key] = reduce(own[key], value) if key in own else value

        return types.SimpleNamespace(add=add)


def _as_float(
    kind: type[np.floating[Any]], whole_kind: type[np.unsignedinteger[Any]]
) -> Callable[[int], float]:
    width = np.dtype(whole_kind).itemsize * 8
    return lambda bits: float(whole_kind(bits % (1 << width)).view(kind))


@lru_cache
def _events() -> list[tuple[int, types.SimpleNamespace]]:
    trace, found = EventTrace(TRUTH), []
    for launch in trace.launches.values():
        events = trace.of_launch(launch.number)
        events = events.take(events.is_access)
        addresses, values = events.operand(0), events.values()
        for row, lane in zip(*(part.tolist() for part in np.nonzero(events.active)), strict=True):
            low, high = (int(half) for half in values[row, lane])
            flags, kind = int(events.flags[row]) & 3, KINDS[int(events.kind[row])]
            words = [low & 0xFFFFFFFF, low >> 32, high & 0xFFFFFFFF, high >> 32]
            pc = int(events.pc[row]) - int(launch.said["pc"]) % (1 << 32)
            found.append((launch.number, types.SimpleNamespace(
                address=int(addresses[row, lane]), size=int(events.size[row]), value=low, value_high=high, lane=lane, pc=pc,
                warp=int(events.warp[row]), thread=int(events.warp[row]) * 32 + lane, block=int(events.block[row]),
                active=int(events.lanes[row]), is_load=flags == 1, is_store=flags == 2, is_atomic=flags == 3, space=kind.space,
                kind=kind.name, word=words.__getitem__, block_threads=launch.threads, grid_blocks=int(np.prod(launch.grid)),
            )))  # fmt: skip
    return found


def _brute_force(probe: Probe, launch: int) -> _Fake:
    """The probe's function itself, called for each lane of each access."""
    fake = _Fake()
    names = dict(probe.function.__globals__)
    names |= {name: fake.named(value, name) for name, value in names.items() if isinstance(value, type(whole).__mro__[1])
              and value.kind == "array" and value.reduce != "last"}  # fmt: skip
    names |= {
        "as_float32": _as_float(np.float32, np.uint32), "as_float16": _as_float(np.float16, np.uint16),
        "as_float64": _as_float(np.float64, np.uint64), "popcount": lambda bits: bin(bits).count("1"),
        "as_bfloat16": lambda bits: _as_float(np.float32, np.uint32)((bits & 0xFFFF) << 16),
        "isnan": math.isnan, "isinf": math.isinf,
    }  # fmt: skip
    function = types.FunctionType(probe.function.__code__, names)
    for number, event in _events():
        if number == launch:
            fake.owner = {
                "grid": (),
                "cta": (event.block,),
                "warp": (event.block, event.warp),
                "thread": (event.block, event.thread),
            }
            function(event)
    return fake


def _kept(fake: _Fake, name: str) -> dict[tuple[int, ...], int]:
    return {(*owner, key): value for owner, own in fake.held[name].items() for key, value in own.items()}


def _signed(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def test_the_interpreter_does_what_python_does(tmp_path: Path) -> None:
    body = """
import warpsight as ws
from warpsight.sass.probes import as_bfloat16, as_float16, as_float32, as_float64, isinf, isnan, popcount

whole = ws.probes.array(16, per="thread")
least = ws.probes.array(2, per="cta", reduce="min", type=float)
most = ws.probes.array(1, per="warp", reduce="max")
bits = ws.probes.array(1, reduce="or")


@ws.probe(at="memory")
def mine(event):
    x = event.thread * 7 - 300 + event.pc
    y = event.lane * 2 - 15
    whole.add(0, x // y + x % y)
    whole.add(1, (x & y) - (x | y) ^ ~x)
    whole.add(2, (x << (y & 31)) + (x >> (y + 15)))
    whole.add(3, min(x, y, 3) * max(x, y) - abs(y))
    whole.add(4, popcount(event.active) + x // 8 + x % 8)
    z = as_float32(event.word(0))
    whole.add(5, int(z / 3 * 1e3) if -1e9 < z < 1e9 else 7)
    whole.add(6, int(as_float16(x & 0x3FFF) * 1000) + isnan(as_bfloat16(x)) + isinf(as_float64(event.address)))
    if event.is_load and event.space != "shared" or event.is_atomic:
        whole.add(7, event.block * event.block_threads + event.grid_blocks)
    elif event.is_store:
        whole.add(8, event.size)
        if event.lane > 20:
            return
    total = 0
    for i in range(3):
        for j in range(5, -1, -2):
            total += i * j if j != 3 else event.warp
    whole.add(9, total)
    whole.add(16, 1)
    least.add(event.is_store + 0, as_float32(event.word(0)))
    most.add(0, -x)
    bits.add(0, event.address)
"""
    path = tmp_path / "mine.py"
    path.write_text(body)
    opened = ProbeFile.open(path)
    found = opened.of_trace(TRUTH)
    owners = {
        "whole": ["block", "thread", "key"],
        "least": ["block", "key"],
        "most": ["block", "warp"],
        "bits": [],
    }
    for launch in EventTrace(TRUTH).launches:
        fake = _brute_force(opened.probes[0], launch)
        for name, columns in owners.items():
            told = {tuple(row[c] for c in columns) + (() if "key" in columns else (0,)): row["value"]
                    for row in found[name].to_pylist() if row["launch"] == launch}  # fmt: skip
            wanted = {
                key: value if name == "least" else _signed(int(value))
                for key, value in _kept(fake, name).items()
            }
            if name == "whole":
                wanted = {key: value for key, value in wanted.items() if value}
            assert told == wanted, (name, launch)
    lost = sum(int(note.split()[1].replace(",", "")) for note in found.notes)
    assert lost == sum(1 for _ in _events()) - sum(1 for _, e in _events() if e.is_store and e.lane > 20)


EDGES = [0, 1, -1, 2, -3, 7, 63, 64, -64, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63)]


@pytest.mark.parametrize("name", ["floordiv", "mod", "shl", "shr", "add", "mul", "sub"])
def test_integers_wrap_and_divide_as_said(name: str) -> None:
    def wanted(a: int, b: int) -> int:
        if name in ("floordiv", "mod"):
            return 0 if b == 0 else a // b if name == "floordiv" else a % b
        if name in ("shl", "shr"):
            far = not 0 <= b < 64
            return (0 if far else a << b) if name == "shl" else a >> (63 if far else b)
        return {"add": a + b, "sub": a - b, "mul": a * b}[name]

    for a in EDGES:
        for b in EDGES:
            with np.errstate(all="ignore"):
                told = int(OPERATIONS[name](np.array([a]), np.array([b]))[0])
            assert told == _signed(wanted(a, b)), (a, b)


def test_floats_become_integers_as_said() -> None:
    given = np.array([2.9, -2.9, 1e30, -1e30, float("nan"), float("inf"), 2.0**63, -(2.0**63)])
    most, least = 2**63 - 1, -(2**63)
    assert OPERATIONS["truncate"](given).tolist() == [2, -2, most, least, least, most, most, least]
    assert OPERATIONS["bits"](np.array([0, 1, 2, 3, 4, 2**62, 2**63 - 1])).tolist() == [0, 1, 2, 2, 3, 63, 63]


def test_a_thread_remembers_what_it_saw(tmp_path: Path) -> None:
    body = "\n".join(
        [
            "remembered[0] += 1",
            "if remembered[0] == 2:",
            "    whole.add(0, event.pc - remembered[1])",
            "remembered[1] = event.pc",
        ]
    )
    found = ProbeFile.open(_file(tmp_path, body, "@ws.probe(at='memory')")).of_trace(TRUTH)
    seen: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for launch, event in _events():
        seen[launch, event.block, event.thread].append(event.pc)
    second = {key: pcs[1] - pcs[0] for key, pcs in seen.items() if len(pcs) > 1}
    told = {(row["launch"], row["block"], row["thread"]): row["value"] for row in found["whole"].to_pylist()}
    assert told == {key: value for key, value in second.items() if value}


def test_rings_keep_the_last_rows_of_a_thread_and_the_first_of_a_launch(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "import warpsight as ws\nown = ws.probes.ring(2, per='thread', pc=int)\nfirst = ws.probes.ring(5, pc=int, x=float)\n"
        "@ws.probe(at='memory')\ndef mine(event):\n    own.push(event.pc)\n    first.push(x=event.lane / 2, pc=event.pc)\n"
    )
    found = ProbeFile.open(path).of_trace(TRUTH)
    seen: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for launch, event in _events():
        seen[launch, event.block, event.thread].append(event.pc)
    told: dict[tuple[int, int, int], list[tuple[int, int]]] = defaultdict(list)
    for row in found["own"].to_pylist():
        told[row["launch"], row["block"], row["thread"]].append((row["row"], row["pc"]))
    assert told == {key: list(enumerate(pcs))[-2:] for key, pcs in seen.items()}
    assert Counter(found["first"]["launch"].to_pylist()) == dict.fromkeys(
        {launch for launch, _, _ in seen}, 5
    )
    assert found["first"]["x"].to_pylist()[:3] == [0.0, 0.5, 1.0]
    assert any(note.startswith("first: ") for note in found.notes)


def test_ready_probes_find_what_is_in_the_truth() -> None:
    base = json.loads(TRUTH.with_name("truth.json").read_text())
    accesses = event_truth.EXPECTED["strided"](base)
    requests = _tables("coalescing")["requests"]
    strided = {row["key"]: row["value"] for row in requests if row["kernel"].startswith("strided(")}
    assert strided == {4: 8, 32: 8}  # 33 floats apart: each lane its own sector
    ranges = _tables("value-range")
    stored = [np.uint32(a[6]).view(np.float32) for a in accesses if a[3] == event_truth.STORE]
    for name, wanted in (("least", min(stored)), ("greatest", max(stored))):
        told = [
            row["value"] for row in ranges[name] if row["kernel"].startswith("strided(") and row["key"] == 1
        ]
        assert told == [float(wanted)]
    pages: Counter[int] = Counter()
    for space, _, _, operation, address, size, _ in accesses.elements():
        if (space, operation) == ("global", event_truth.LOAD):
            pages[address // 4096] += size
    loaded = [
        (row["key"], row["weight"])
        for row in _tables("address-histogram")["loaded"]
        if row["kernel"].startswith("strided(")
    ]
    assert loaded == sorted(pages.items(), key=lambda item: (-item[1], item[0]))[:20]
    assert all(row["value"] == 0 for row in _tables("nan-inf")["nan"])


def test_waits_at_barriers_are_those_between_arrival_and_release() -> None:
    trace = EventTrace(CLASSES)
    wanted = 0
    for launch in trace.launches:
        events, arrived = trace.of_launch(launch), {}
        for row in range(len(events)):
            warp, kind = (int(events.block[row]), int(events.warp[row])), KINDS[int(events.kind[row])].name
            if kind == "barrier":
                arrived[warp] = int(events.time[row])
            elif kind == "barrier_release" and warp in arrived:
                wanted += int(events.time[row]) - arrived.pop(warp)
    told = files.ProbeFile.open(files.find("barrier-wait")).of_trace(CLASSES)["by_pc"]["weight"].to_pylist()
    assert sum(told) == wanted > 0


def _tables(name: str) -> dict[str, list[dict[str, Any]]]:
    found = ws.sass.probe(name, TRUTH)
    return {name: table.to_pylist() for name, table in found.tables.items()}


def test_functions_can_be_given_instead_of_a_file() -> None:
    counted = ws.probes.counter()

    @ws.probe(at="global.load", kernel="add(*")
    def loads(event: ws.probes.Event) -> None:
        counted.add()

    found = ws.sass.probe(loads, TRUTH)
    assert found["counted"].to_pylist() == [
        {"launch": 0, "kernel": "add(float const*, float const*, float*, int)", "value": 1000}
    ]
    with pytest.raises(UsageError, match="no probe has a map 'count'"):
        found["count"]
    with pytest.raises(UsageError, match="is a probe"):
        loads(ws.probes.Event())


@pytest.mark.parametrize(
    ("at", "body", "said"),
    [
        ("memory", "x = event.clock", "event.clock, which a recorded trace lacks"),
        ("block_enter", "x = event.time", "sass trace --events blocks"),
        ("memory", "x = event.value", "sass trace --events memory,values"),
    ],
)
def test_what_a_trace_lacks_is_said(at: str, body: str, said: str, tmp_path: Path) -> None:
    probes = translated(ProbeFile.open(_file(tmp_path, body, f"@ws.probe(at='{at}')")).probes)
    trace = EventTrace(CLASSES)
    trace.file.process["request"] = {"events": ["memory", "barriers"]}
    with pytest.raises(UsageError, match=said):
        interpreter.of_trace(trace, probes)


def test_the_list_names_every_ready_probe(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["sass", "probe", "--list"]) == 0
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) == 8
    assert all(name in printed and what.endswith(".") for name, what in ready.listed().items())


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "--list shows the built-in probes"),
        (["coalescing"], 2, "--list shows the built-in probes"),
        (["coalesing", str(TRUTH)], 2, "coalescing"),
        (["none.py", str(TRUTH)], 2, "none.py: there is no such file"),
        (["coalescing", "-k", "add*", str(TRUTH)], 2, "a recorded trace is probed as a whole"),
        (["coalescing", str(TRUTH), "more"], 2, "a program follows `--`"),
        (["coalescing", "--"], 2, "--list shows the built-in probes"),
        (["coalescing", str(ROOT / "pyproject.toml")], 1, "not an event trace"),
        (["coalescing", "--set", "PAGE", str(TRUTH)], 2, "write NAME=VALUE"),
        (["coalescing", "--", "/no/such/program"], 127, "not found"),
    ],
)
def test_a_wrong_use_is_one_clear_line(
    arguments: list[str],
    code: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert app.main(["sass", "probe", *arguments]) == code
    assert said in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.iterdir())


def test_damage_to_maps_is_noted(tmp_path: Path) -> None:
    trace = EventTrace(TRUTH)
    probes = translated(ProbeFile.open(files.find("coalescing")).probes)
    interpreter.of_trace(trace, probes)
    trace.file.maps = [
        (0, 9, np.zeros(5, np.uint64)),
        (99, 0, np.zeros(34, np.uint64)),
        (0, 0, np.zeros(7, np.uint64)),
    ]
    trace.file.losses.clear()
    found = results([trace])
    assert len(found.notes) == 3
    assert all("was left out" in note for note in found.notes)
    assert [table.num_rows for table in found.tables.values()] == [0, 0]


@pytest.mark.parametrize(
    "change",
    [{"words": 7}, {"words": "7"}, {"kind": "tree"}, {"per": "block"}, {"types": {}}, {"types": None}, {"size": 0}, {"more": 1},
     {"key": 5}, {"key": "value"}, {"types": {"value": "text"}}],
)  # fmt: skip
def test_a_damaged_description_of_maps_gives_no_tables(change: dict[str, Any]) -> None:
    trace = EventTrace(TRUTH)
    interpreter.of_trace(trace, translated(ProbeFile.open(files.find("coalescing")).probes))
    trace.file.process["request"]["probes"]["maps"][0].update(change)
    found = results([trace])
    assert found.tables == {}
    assert any("was left out" in note for note in found.notes)
