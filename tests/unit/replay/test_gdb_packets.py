"""Packets of a debugger: only what begins as one, only from this user."""

from __future__ import annotations

import os
import socket

import pytest

from warpsight.replay.gdb.packets import LIMIT, Connection, is_ours


def received(data: bytes) -> list[bytes]:
    """The packets of what a peer sends before it closes."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            theirs.sendall(data)
        found = []
        connection = Connection(ours)
        connection.stop_acknowledging()
        while (packet := connection.receive()) is not None:
            found.append(packet)
        return found


def test_packets_follow_each_other_and_acknowledgements() -> None:
    assert received(b"+$g#67+-$k#6b\x03+") == [b"g", b"k", b"\x03"]


@pytest.mark.parametrize("before", [b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"\n", b"x", b"+ "])
def test_what_a_browser_sends_is_no_debugger(before: bytes) -> None:
    """A page can make a browser send packets to a port of this machine, but not without the lines of a request before them."""
    assert received(before + b"$M1000,1:00#00$k#6b") == []


def test_a_packet_without_end_is_not_collected() -> None:
    assert received(b"$" + b"m" * (3 * LIMIT)) == []


def test_what_comes_while_the_replay_runs_is_bounded() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection = Connection(ours)
        for _ in range(10):
            theirs.sendall(b"+" * LIMIT)
            assert not connection.interrupted()
        assert len(connection._buffer) <= 3 * LIMIT


@pytest.mark.parametrize("user", [None, 65_534], ids=["this user", "another"])
def test_only_this_user_may_connect(user: int | None) -> None:
    if user is not None and os.geteuid() != 0:
        pytest.skip("needs root to become another user")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        child = os.fork()
        if child == 0:
            try:
                if user is not None:
                    os.setuid(user)
                with socket.create_connection(listener.getsockname()) as connection:
                    connection.recv(1)
            finally:
                os._exit(0)
        peer, _ = listener.accept()
        with peer:
            found = is_ours(peer)
        os.waitpid(child, 0)
    assert found == (user is None)
