"""Scripts of `warpsight-replay` with wrong numbers: the program checks them itself, whoever wrote them."""

from __future__ import annotations

import shutil
import struct
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np

from tests.faults.forging import trying
from tests.standin import replaying
from tests.standin.replaying import BASE, INPUT, KERNEL, parameters
from warpsight.replay import script
from warpsight.replay.capsule import manifest as m
from warpsight.replay.capsule.store import Capsule, Writer
from warpsight.replay.schedules.sequence import sequence

Y, HOST, VARIABLE = BASE + 16384, BASE + (64 << 20), BASE + (1 << 30)
_WORDS = (
    0, 1, 7, 8, 63, 64, 0xFFFF, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 44, 1 << 57, (1 << 63) - 1, 1 << 63,
    (1 << 64) - 64, (1 << 64) - 8, (1 << 64) - 1,
)  # fmt: skip


def everything(path: Path) -> Capsule:
    """A capsule of every kind of operation and memory, with kernels that the stand-in knows."""
    table = np.arange(16, dtype=np.float32).tobytes()
    launch = m.Launch(0, 0, (12, 1, 1), (256, 1, 1), parameters(Y, BASE))
    read = m.Launch(1, 1, (1, 1, 1), (1, 1, 1), parameters(Y, BASE + 12_288, count=4))
    pointed = m.Launch(
        0, 0, (1, 1, 1), (1, 1, 1), parameters(Y, VARIABLE + 8, count=4), relocations=[m.Relocation(8, 0, 8)]
    )

    def memory(writer: Writer) -> list[m.Allocation]:
        word = struct.pack("<Q", VARIABLE + 8)
        return [
            m.Allocation(BASE, INPUT.nbytes, "malloc", before=writer.put(INPUT.tobytes()), after=writer.put(INPUT.tobytes())),
            m.Allocation(BASE + 12_288, 16, "pool", before=writer.put(word + word), relocations=[m.Relocation(0, 0, 8)]),
            m.Allocation(Y, INPUT.nbytes, "vmm", before=writer.put(bytes(INPUT.nbytes)), after=writer.put(INPUT.tobytes())),
            m.Allocation(HOST, 8192, "host", before=writer.put(bytes(8192))),
        ]  # fmt: skip

    def variables(writer: Writer) -> list[m.Global]:
        word = struct.pack("<Q", VARIABLE) + bytes(56)
        return [
            m.Global(0, "table", VARIABLE, 64, before=writer.put(table), after=writer.put(table)),
            m.Global(
                1, "place", VARIABLE + 256, 64, before=writer.put(word), relocations=[m.Relocation(0, 0)]
            ),
        ]

    def operations(writer: Writer) -> list[m.Operation]:
        return [
            launch, read, pointed, m.Set(1, Y, 0, 4, 16), m.Set(0, Y, 7, 2, 4, 3, 64), m.Set(0, Y, 7, 1, 4),
            m.EventRecord(0, 0), m.EventWait(1, 0), m.Copy(0, 64, destination=HOST, source=BASE),
            m.Copy(0, 8, destination=Y, host=writer.put(bytes(24)), rows=3, destination_pitch=64, pinned=True),
            m.Copy(1, 32, destination=VARIABLE, host=writer.put(table[:32])), m.Copy(1, 100, source=Y), m.Synchronize(),
            m.GraphLaunch(0, 0),
        ]  # fmt: skip

    nodes = [m.GraphNode(), m.GraphNode(launch, [0]), m.GraphNode(m.Set(0, Y, 1, 4, 16), [0, 1]), m.GraphNode(None, [1, 2]),
             m.GraphNode(m.Copy(0, 64, destination=Y, source=BASE), [3])]  # fmt: skip
    code = replaying.image(KERNEL, "through")

    def modules(writer: Writer) -> list[m.LoadedModule]:
        return [m.LoadedModule("ptx", len(code), writer.put(code)) for _ in range(2)]

    functions = [
        m.Function(0, KERNEL, replaying.LAYOUT, {8: 1024}),
        m.Function(1, "through", replaying.LAYOUT),
    ]
    made = replaying.write(
        path, (KERNEL,), modules=modules, functions=functions, allocations=memory, globals=variables, events=1,
        operations=operations, graphs=[m.Graph(nodes)], streams=[m.Stream(default=True), m.Stream(priority=-1, flags=1)],
    )  # fmt: skip
    for blob in (path / "blobs").iterdir():
        if blob.stem not in made.blobs:  # of what `write` puts in by default
            blob.unlink()
    return made


def soak(seeds: range, place: Path, standin: Path, program: Path) -> int:
    """Run scripts of these seeds; returns how many did not end as they must."""
    capsule = everything(place / "scripts.capsule")
    steps = sequence(capsule.manifest)
    ends: Counter[str] = Counter()
    for seed in seeds:
        random = Random(seed)
        folder = place / f"script-{seed}"
        folder.mkdir()
        flags = random.randrange(256) & ~script.SERVE | random.choice((0, 0, 0, script.SERVE))
        script.write(capsule, steps, script.ScriptSettings(2, 1, flags), folder)
        _forge(random, folder)
        fault = trying.execute(program, folder, standin, _commands(random))
        ends["fault" if fault else "fine"] += 1
        if fault:
            print(f"script seed {seed}: {fault[-2500:]}", flush=True)
        shutil.rmtree(folder)
    print(f"scripts: {sum(ends.values())}, {dict(ends)}", flush=True)
    return ends["fault"]


def _forge(random: Random, folder: Path) -> None:
    file = random.choice(("script",) * 15 + ("data",))
    data = bytearray((folder / file).read_bytes())
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        # Half of them in the header and its table of sections, which decide the most.
        at = random.randrange(0, min(264, len(data)) if random.random() < 0.4 else len(data))
        width = random.choice((4, 8))
        at = at // width * width
        old = int.from_bytes(data[at : at + width], "little")
        another = int.from_bytes(data[random.randrange(len(data)) :][:width], "little")
        flipped = old ^ 1 << random.randrange(64)
        word = random.choice(
            (old + 1, old - 1, old * 2, flipped, another, random.choice(_WORDS), random.choice(_WORDS))
        )
        data[at : at + width] = (word % (1 << 8 * width)).to_bytes(width, "little")
    if random.random() < 0.05:
        data = data[: random.randrange(len(data))]
    (folder / file).write_bytes(data)


def _commands(random: Random) -> bytes:
    """What a debugger's side may say to a script that serves."""
    lines = []
    for _ in range(random.randrange(12)):
        address = random.choice(
            (BASE, Y, HOST, VARIABLE, 0, random.choice(_WORDS), BASE + random.randrange(1 << 21))
        )
        size = random.choice((0, 1, 8, 4096, random.choice(_WORDS)))
        lines.append(random.choice((
            b"step\n", b"step\n", b"restart\n", f"read {address:x} {size}\n".encode(),
            f"write {address:x} {size}\n".encode() + random.randbytes(min(size, 5000)), b"what\n", b"\0\n", b"r" * 300,
            f"read {'f' * 200} 1\n".encode(), b"read -8 -8\n",
        )))  # fmt: skip
    return b"".join(lines)
