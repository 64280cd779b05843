"""Random kills of any part of a recording, from seeds, and the account of what came of them.

A program counts in a shared file what it has announced or launched. Whoever is killed, and whenever: what the trace
holds and what its `loss` counts must add up to that, nothing may be there twice, and the exit code is the program's.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import warpsight.model
from tests.integration.recorded import TIMEOUT, environment, launcher
from tests.integration.standin_programs import children

PARTS = ("launcher", "program", "converter")
THREADS = 2
EXIT = 7
_WORD = struct.Struct("<Q")
#: Emits events on every thread as fast as it can until word 15 of the shared file is set; word N is thread N's count.
_EMITTER = """
import mmap, os, struct, sys, threading, time
import warpsight as ws
with open(sys.argv[1], "r+b") as file: shared = mmap.mmap(file.fileno(), 4096)
pause = float(sys.argv[2])
def emit(thread):
    number = 0
    while shared[120] == 0:
        ws.emit("event", kind=f"thread {thread}", duration=number)
        number += 1
        struct.pack_into("<Q", shared, thread * 8, number)
        if pause and number % 100 == 0: time.sleep(pause)
threads = [threading.Thread(target=emit, args=(n,)) for n in range(int(sys.argv[3]))]
for thread in threads: thread.start()
for thread in threads: thread.join()
sys.exit(7)
"""


@dataclass(frozen=True)
class Kill:
    """One scenario. Moments are seconds after the program began to announce something."""

    seed: int
    victims: tuple[str, ...]
    at: float
    apart: tuple[float, ...]
    pause: float
    ring: bool
    program: str
    recovering: float = (
        0  # seconds after which the first `recover` is killed, where there is one; 0: it is not
    )

    @classmethod
    def of(cls, seed: int) -> Kill:
        """The scenario of a seed."""
        chance = random.Random(seed)
        victims = tuple(part for part in PARTS if chance.random() < 0.5) or ("launcher", "program")
        order = tuple(chance.sample(victims, len(victims)))
        apart = tuple(chance.choice((0.0, 0.0, chance.random() * 0.1, chance.random())) for _ in victims)
        return cls(seed, order, chance.random() * 1.5, apart, chance.choice((0.0, 0.001, 0.05)),
                   chance.random() < 0.25, chance.choice(("events", "events", "launches")),
                   chance.choice((0.0, chance.random() * 3)))  # fmt: skip


@dataclass
class Account:
    """What a scenario came to: one line for everything that is wrong."""

    kill: Kill
    wrong: list[str] = field(default_factory=list)
    announced: int = 0
    kept: int = 0
    lost: int = 0


def run(kill: Kill, folder: Path, library: Path, standin: Path | None) -> Account:
    """Play a scenario in a new folder and account for every row. Without `standin`, launches become events."""
    shared, trace = folder / "shared", folder / "a.warp"
    shared.write_bytes(bytes(4096))
    launches = kill.program == "launches" and standin is not None
    emitter = [sys.executable, "-c", _EMITTER, str(shared), str(kill.pause), str(THREADS)]
    rate = {0.0: "60000", 0.001: "20000", 0.05: "2000"}[kill.pause]
    command = [str(standin), "init", f"rate:work:{rate}:60000"] if launches else emitter
    options = ("-q", "--counters", "off", *(("--ring", "10min") if kill.ring else ()), "-o", str(trace))
    more = {"STANDIN_PROGRESS": str(shared), **({"LD_LIBRARY_PATH": str(standin.parent)} if standin else {})}
    account = Account(kill)
    with (folder / "err").open("wb") as errors:
        started = subprocess.Popen(launcher(*options, "--", *command), env=environment(library, **more), stdin=subprocess.DEVNULL,
                                   stdout=errors, stderr=errors, start_new_session=True)  # fmt: skip
        _until(lambda: words(shared)[0] > 100 or started.poll() is not None, "the program's first rows")
        pids = _parts(started.pid)
        arenas = Path(json.loads((trace / "recording.json").read_text())["arenas"])
        time.sleep(kill.at)
        for victim, apart in zip(kill.victims, kill.apart, strict=True):
            time.sleep(apart)
            _kill(pids.get(victim, 0))
        if "program" not in kill.victims:
            time.sleep(0.2)
            _end(pids["program"], shared)
        code = started.wait(timeout=TIMEOUT)
        _until(lambda: not _alive(pids["program"]), "the program's end")
    _check_code(account, code, launches)
    _check_rows(account, trace, library, words(shared), launches)
    _check_left(account, folder, arenas)
    return account


def words(shared: Path) -> tuple[int, ...]:
    """The counts that a program has stored."""
    return struct.unpack("<15Q", shared.read_bytes()[:120])


def _until(condition: object, what: str) -> None:
    assert callable(condition)
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come")
        time.sleep(0.01)


def _parts(launcher_pid: int) -> dict[str, int]:
    """Process ids of the launcher and its children, by what they are."""
    found = {"launcher": launcher_pid}
    for child in children(launcher_pid):
        with contextlib.suppress(OSError):  # it ended meanwhile
            line = Path(f"/proc/{child}/cmdline").read_bytes()
            found["converter" if b"warpsight.capture.converter" in line else "program"] = child
    return found


def _kill(pid: int) -> None:
    if pid:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return


def _end(pid: int, shared: Path) -> None:
    """Ask the program to end by itself."""
    with shared.open("r+b") as file:
        file.seek(120)
        file.write(b"\1")


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _check_code(account: Account, code: int, launches: bool) -> None:
    victims = account.kill.victims
    own = 0 if launches else EXIT
    expected = (
        -signal.SIGKILL if "launcher" in victims else 128 + signal.SIGKILL if "program" in victims else own
    )
    # whoever is killed second may have ended before
    if code != expected and not ({"launcher", "program"} <= set(victims) and code == 128 + signal.SIGKILL):
        account.wrong.append(f"exit code {code}, not {expected}")


def _check_rows(
    account: Account, trace: Path, library: Path, announced: tuple[int, ...], launches: bool
) -> None:
    if not (trace / "manifest.json").is_file():
        command = [sys.executable, "-m", "warpsight.ui.cli", "recover", str(trace)]
        if account.kill.recovering:
            first = subprocess.Popen(
                command, env=environment(library), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            time.sleep(account.kill.recovering)
            first.kill()
            first.wait()
    if not (trace / "manifest.json").is_file():
        done = subprocess.run(
            command, env=environment(library), capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
        if done.returncode:
            account.wrong.append(f"recover: {done.returncode} {done.stderr}")
            return
    table, group, number = (
        ("launch", "name", "correlation") if launches else ("user_event", "kind", "duration")
    )
    with warpsight.model.open(trace) as opened:
        kept = opened.sql(f"SELECT count(*), count(DISTINCT ({group}, {number})) FROM {table} "
                          "WHERE name IN ('work', 'event')").fetchall()[0]  # fmt: skip
        losses = opened.sql(
            "SELECT cause, count FROM loss WHERE severity <> 'note' AND cause NOT LIKE 'kernel record never%'"
        ).fetchall()
    account.announced, account.kept, account.lost = sum(announced), kept[0], sum(count for _, count in losses)
    if kept[0] != kept[1]:
        account.wrong.append(f"{kept[0] - kept[1]} rows are there twice")
    # a row may have been written and its count not
    surplus = account.kept + account.lost - account.announced
    if not 0 <= surplus <= THREADS:
        account.wrong.append(
            f"{account.announced} announced, {account.kept} kept, {account.lost} counted as lost: {losses}"
        )


def _check_left(account: Account, folder: Path, arenas: Path) -> None:
    if arenas.exists():
        account.wrong.append(f"{arenas} is left")
        shutil.rmtree(arenas)
    if account.wrong:
        account.wrong.append((folder / "err").read_text(errors="replace")[-2000:])
