"""Packets of GDB's remote serial protocol: `$data#checksum`, acknowledged with `+` until both sides agree not to."""

from __future__ import annotations

import os
import select
import socket
from pathlib import Path

INTERRUPT = b"\x03"
_ESCAPE, _MASK = 0x7D, 0x20
#: Maximum bytes of a packet, as reported to the debugger.
LIMIT = 0x4000


class Connection:
    """A debugger's connection."""

    def __init__(self, peer: socket.socket) -> None:
        self._peer = peer
        self._buffer = b""
        self._acknowledging = True

    def receive(self) -> bytes | None:
        """The data of the next packet, :data:`INTERRUPT`, or None if the debugger is gone or never spoke GDB's protocol.

        Data that does not begin like a packet ends the connection, because a page in a browser could send packets after the lines
        of a request.
        """
        while True:
            self._buffer = self._buffer.lstrip(b"+-")
            start = 0 if self._buffer[:1] == b"$" else -1
            if self._buffer.startswith(INTERRUPT):
                self._buffer = self._buffer[1:]
                return INTERRUPT
            end = self._buffer.find(b"#", start) if start >= 0 else -1
            if end >= 0 and len(self._buffer) >= end + 3:
                data, sent = self._buffer[start + 1 : end], self._buffer[end + 1 : end + 3]
                self._buffer = self._buffer[end + 3 :]
                good = sent.lower() == _checksum(data)
                if self._acknowledging:
                    self._peer.sendall(b"+" if good else b"-")
                if good:
                    return data
                continue
            if len(self._buffer) > 2 * LIMIT or self._buffer[:1] not in (b"", b"$", INTERRUPT):
                return None
            more = self._peer.recv(LIMIT)
            if not more:
                return None
            self._buffer += more

    def send(self, data: bytes) -> None:
        """Send one packet."""
        self._peer.sendall(b"$" + data + b"#" + _checksum(data))

    def stop_acknowledging(self) -> None:
        """Both sides agreed that the connection is reliable."""
        self._acknowledging = False

    def interrupted(self) -> bool:
        """Whether the debugger has asked to stop; does not wait."""
        readable, _, _ = select.select([self._peer], [], [], 0)
        if readable and len(self._buffer) <= 2 * LIMIT:
            self._buffer += self._peer.recv(LIMIT)
        if INTERRUPT in self._buffer:
            self._buffer = self._buffer.replace(INTERRUPT, b"", 1)
            return True
        return False


def unescape(data: bytes) -> bytes:
    """Binary data of a packet with `}` escapes resolved."""
    out = bytearray()
    escaped = False
    for byte in data:
        if escaped or byte != _ESCAPE:
            out.append(byte ^ _MASK if escaped else byte)
            escaped = False
        else:
            escaped = True
    return bytes(out)


def _checksum(data: bytes) -> bytes:
    return b"%02x" % (sum(data) & 0xFF)


def is_ours(peer: socket.socket) -> bool:
    """Whether the peer of a connection on 127.0.0.1 is a process of this user or root, since others can reach the port too."""
    here, there = (_hexed(address) for address in (peer.getsockname(), peer.getpeername()))
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, *_, uid = line.split()[:8]
        if (local, remote) == (there, here):
            return int(uid) in (0, os.geteuid())
    return False


def _hexed(address: tuple[str, int]) -> str:
    """An address in the form of `/proc/net/tcp`: the host's bytes in machine order."""
    return f"{socket.inet_aton(address[0])[::-1].hex().upper()}:{address[1]:04X}"
