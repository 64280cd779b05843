"""GDB's remote protocol over a capsule: `target remote :PORT` in gdb, or VS Code's `miDebuggerServerAddress`.

The protocol is GDB's ("Remote Protocol", GDB manual). The program that the debugger sees has an instruction of 16 bytes for
each operation, at :data:`CODE`; it is an x86-64 program because every gdb on such a host knows the registers.
"""

from __future__ import annotations

import re
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

from warpsight.errors import WarpsightError
from warpsight.replay import script
from warpsight.replay.capsule.store import Capsule
from warpsight.replay.gdb.monitor import Monitor
from warpsight.replay.gdb.packets import INTERRUPT, LIMIT, Connection, is_ours, unescape
from warpsight.replay.gdb.stepping import Stepping, SteppingError, open_stepping
from warpsight.replay.schedules.sequence import sequence

#: Where the operations are, for the debugger: below anything that a process maps.
CODE, CODE_BYTES = 0x1000, 16
_NOP = b"\x90"
_PC = 16  # rip, of the registers rax to r15, rip, eflags, cs, ss, ds, es, fs, gs
_REGISTER_BYTES = (*[8] * 17, *[4] * 7)
_TARGET = b'<?xml version="1.0"?><target version="1.0"><architecture>i386:x86-64</architecture></target>'
_ERROR = b"E01"
_NUMBER = re.compile(rb"[0-9a-fA-F]{1,16}")
_TRAP = b"S05"
_MOST_WATCHES = 64
_FAULT = b"S0b"  # SIGSEGV
_FEATURES = b"PacketSize=%x;qXfer:features:read+;QStartNoAckMode+;swbreak+;hwbreak+;vContSupported+" % LIMIT


def serve(
    path: Path, port: int, device: int, ready: Callable[[int], None], *, at_failure: bool = False
) -> bool:
    """Serve one debugger after another until Ctrl-C; each starts at the replay's beginning.

    Args:
        path: the capsule.
        port: on 127.0.0.1, 0 for any.
        device: number of the GPU.
        ready: called with the port.
        at_failure: start each debugger before the first operation that fails instead.

    Returns:
        False if `at_failure` is set and no operation fails, so nothing was served.

    Raises:
        CapsuleError: when the capsule is damaged.
        WarpsightError: when it cannot be replayed here, or the port is taken.
    """
    capsule = Capsule.open(path)
    steps = sequence(capsule.manifest)
    with tempfile.TemporaryDirectory(prefix="warpsight-replay-") as temporary:
        settings = script.ScriptSettings(flags=script.SERVE, device=device)
        written = script.write(capsule, steps, settings, Path(temporary))
        try:
            listener = socket.create_server(("127.0.0.1", port))
        except OSError as error:
            raise WarpsightError(f"port {port} of 127.0.0.1: {error.strerror or error}") from None
        with listener:
            stepping = open_stepping(written, Path(temporary))
            first = _failing(stepping, len(steps.steps)) if at_failure else 0
            if first is None:
                stepping.close()
                return False
            try:
                stepping = _at(first, stepping, written, Path(temporary))
                ready(listener.getsockname()[1])
                while True:
                    peer, _ = listener.accept()
                    with peer:
                        if not is_ours(peer):
                            continue
                        if not _Session(Connection(peer), Monitor(capsule.manifest, steps, stepping)).run():
                            return True
                    stepping = _at(first, stepping, written, Path(temporary))
            finally:
                stepping.close()


def _failing(stepping: Stepping, count: int) -> int | None:
    """The first failing operation, starting at the replay's position."""
    try:
        while stepping.position < count:
            stepping.step()
    except SteppingError:
        return stepping.position
    return None


def _at(step: int, before: Stepping, written: script.WrittenScript, folder: Path) -> Stepping:
    """A new replay positioned before a step: a failed kernel leaves its context unusable."""
    before.close()
    stepping = open_stepping(written, folder)
    while stepping.position < step:
        stepping.step()
    return stepping


def _number(text: bytes) -> int:
    """A number in a packet; ValueError if it is not one, or longer than an address."""
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(text)
    return int(text, 16)


class _Session:
    """One debugger session, which ends when the debugger disconnects."""

    def __init__(self, connection: Connection, monitor: Monitor) -> None:
        self.connection = connection
        self.monitor = monitor
        self.breaks: set[int] = set()
        self.watched: dict[int, int] = {}

    def run(self) -> bool:
        """Whether another debugger may connect: False if this one ended the program."""
        try:
            while (packet := self.connection.receive()) is not None:
                if packet == b"k" or packet.startswith(b"vKill"):
                    if packet != b"k":
                        self.connection.send(b"OK")
                    return False
                self.connection.send(b"S02" if packet == INTERRUPT else self._answer(packet))
                if packet == b"QStartNoAckMode":
                    self.connection.stop_acknowledging()
                if packet.startswith(b"D"):
                    return True
        except ConnectionError:
            pass
        return True

    def _answer(self, packet: bytes) -> bytes:
        try:
            return self._query(packet) if packet[:1] in b"qQv" else self._command(packet)
        except (SteppingError, ValueError, IndexError):
            return _ERROR

    def _query(self, packet: bytes) -> bytes:
        answers = {
            b"QStartNoAckMode": b"OK", b"qC": b"QC1", b"qfThreadInfo": b"m1", b"qsThreadInfo": b"l", b"qAttached": b"1",
            b"vCont?": b"vCont;c;C;s;S", b"qSymbol::": b"OK",
        }  # fmt: skip
        if packet in answers:
            return answers[packet]
        if packet.startswith(b"qSupported"):
            return _FEATURES
        if packet.startswith(b"qXfer:features:read:target.xml:"):
            offset, size = map(_number, packet.rpartition(b":")[2].split(b","))
            part = _TARGET[offset : offset + size]
            return (b"l" if offset + size >= len(_TARGET) else b"m") + part
        if packet.startswith(b"qRcmd,"):
            return self._monitor(bytes.fromhex(packet[6:].decode("ascii")).decode("utf-8", "replace"))
        if packet.startswith(b"vCont;"):
            return self._resume(step=packet[6:7] in b"sS")
        return b""

    def _monitor(self, text: str) -> bytes:
        answer = self.monitor.run(text).encode("utf-8")
        for at in range(0, len(answer), LIMIT // 4):
            self.connection.send(b"O" + answer[at : at + LIMIT // 4].hex().encode())
        return b"OK"

    def _command(self, packet: bytes) -> bytes:
        kind, rest = packet[:1], packet[1:]
        if kind == b"?":
            return _TRAP  # nothing is said yet: gdb takes no lines while it connects
        if kind in (b"c", b"s"):
            return self._resume(step=kind == b"s")
        if kind == b"g":
            return b"".join(self._register(number) for number in range(len(_REGISTER_BYTES)))
        if kind == b"p":
            return self._register(_number(rest))
        if kind == b"m":
            return self._read(*map(_number, rest.split(b",")))
        if kind in (b"M", b"X"):
            place, _, data = rest.partition(b":")
            address, _, _ = place.partition(b",")
            content = bytes.fromhex(data.decode("ascii")) if kind == b"M" else unescape(data)
            if content:
                self.monitor.stepping.write(_number(address), content)
            return b"OK"
        if kind in (b"Z", b"z"):
            return self._breakpoint(rest, on=kind == b"Z")
        return b"OK" if kind in (b"H", b"T", b"D") else b""

    def _register(self, number: int) -> bytes:
        if number >= len(_REGISTER_BYTES):
            return _ERROR
        value = CODE + CODE_BYTES * self.monitor.stepping.position if number == _PC else 0
        return value.to_bytes(_REGISTER_BYTES[number], "little").hex().encode()

    def _read(self, address: int, size: int) -> bytes:
        end = CODE + CODE_BYTES * (len(self.monitor.steps) + 1)
        if CODE <= address < end:
            return (_NOP * min(size, end - address)).hex().encode()
        return self.monitor.stepping.read(address, min(size, LIMIT // 2 - 16)).hex().encode()

    def _breakpoint(self, rest: bytes, *, on: bool) -> bytes:
        kind, address, size = map(_number, rest.split(b";")[0].split(b",")[:3])
        if kind == 2:  # a write watchpoint
            if size > LIMIT or (on and len(self.watched) >= _MOST_WATCHES):
                return _ERROR
            if on:
                self.monitor.stepping.read(address, size)  # which determines whether it can be watched
                self.watched[address] = size
            else:
                self.watched.pop(address, None)
            return b"OK"
        step, rest_ = divmod(address - CODE, CODE_BYTES)
        if kind > 1 or not 0 <= step <= len(self.monitor.steps) or rest_:
            return b"" if kind > 2 else _ERROR
        (self.breaks.add if on else self.breaks.discard)(step)
        return b"OK"

    def _resume(self, *, step: bool) -> bytes:
        """Run on; answers why it stopped."""
        stepping = self.monitor.stepping
        while True:
            if stepping.position == len(self.monitor.steps):
                return b"W00"
            watched = {address: stepping.read(address, size) for address, size in self.watched.items()}
            try:
                self.monitor.step() if step else stepping.step()
            except SteppingError as error:
                self._monitor_line(f"{self.monitor.name(stepping.position)} failed: {error}\n")
                return _FAULT
            for address, old in watched.items():
                if stepping.read(address, len(old)) != old:
                    return b"T05watch:%x;thread:1;" % address
            if step or stepping.position in self.breaks | self.monitor.breaks:
                return self._stopped()
            if self.connection.interrupted():
                return b"S02"

    def _stopped(self) -> bytes:
        """The stop packet, preceded by a line that names the next operation."""
        position = self.monitor.stepping.position
        if position:
            self._monitor_line(f"before {position}: {self.monitor.name(position)}\n")
        return b"T05swbreak:;thread:1;" if position in self.breaks else b"T05thread:1;"

    def _monitor_line(self, text: str) -> None:
        self.connection.send(b"O" + text.encode("utf-8").hex().encode())
