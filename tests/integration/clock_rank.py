"""A rank with a planted clock: all-reduces with another one over TCP, and leaves a trace of them.

    clock_rank.py RANK ADDRESS PORT ROUNDS TRACE OFFSET_NS PPM JITTER_NS SEED

Every time in the trace is CLOCK_MONOTONIC with an offset, a drift and noise in each reading; the manifest has the planted clock.
"""

from __future__ import annotations

import random
import socket
import sys
import time

from warpsight.model import TraceWriter


def connected(rank: int, address: str, port: int) -> socket.socket:
    """The connection to the other rank."""
    if rank == 0:
        with socket.create_server((address, port)) as server:
            print("listening", flush=True)
            return server.accept()[0]
    deadline = time.monotonic() + 60
    while True:
        try:
            return socket.create_connection((address, port), 60)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def main() -> None:
    """Meet, then write."""
    rank, address, port, rounds, path = (
        int(sys.argv[1]),
        sys.argv[2],
        int(sys.argv[3]),
        int(sys.argv[4]),
        sys.argv[5],
    )
    offset, ppm, jitter = int(sys.argv[6]), float(sys.argv[7]), float(sys.argv[8])
    noise = random.Random(int(sys.argv[9]) + rank)
    other = connected(rank, address, port)
    other.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    began = time.monotonic_ns()

    def clock() -> int:
        now = time.monotonic_ns()
        return now + offset + round((now - began) * ppm * 1e-6 + noise.gauss(0, jitter))

    rows = []
    for number in range(rounds):
        if number % 2 == rank:  # in turn each is late
            time.sleep(noise.random() * 2e-4)
        start = clock()
        other.sendall(b"x")
        other.recv(1, socket.MSG_WAITALL)
        rows.append({"start": start, "duration": clock() - start, "operation": "all-reduce", "bytes": 1, "ranks": 2,
                     "group": "both", "sequence": number, "process": 0})  # fmt: skip
    with TraceWriter(path) as writer:
        writer.add("process", [{"process": 0, "pid": 1000 + rank, "host": f"host{rank}", "rank": rank, "world_size": 2,
                                "command": "rank", "executable": "rank", "start": rows[0]["start"]}])  # fmt: skip
        writer.add("collective", rows)
        writer.describe(
            clocks={"boot": f"boot {rank}"}, settings={"began": began, "offset": offset, "ppm": ppm}
        )


main()
