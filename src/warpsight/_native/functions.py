"""C signatures of libwarpsight.so as seen from Python: name -> (result, *arguments). The C side documents each."""

from __future__ import annotations

from ctypes import c_char_p, c_double, c_int, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any

FUNCTIONS: dict[str, tuple[Any, ...]] = {
    # drainer (native/ring/drain.cpp)
    "ws_drain_open": (c_void_p, c_int, c_char_p, c_uint64),  # arena fd, directory, segment bytes
    "ws_drain_poll": (
        c_int,
        c_void_p,
        c_int,
    ),  # checkpoint != 0: also write open blocks; blocks written or -errno
    "ws_drain_rotate": (c_int, c_void_p),  # closes the current segments, so that they can be converted
    "ws_drain_close": (c_int, c_void_p),  # everything committed, then close and free
    "ws_drain_adopt": (
        c_int,
        c_int,
        c_char_p,
    ),  # arena fd, directory: writes everything in an arena that is no longer used; 0 or -errno
    "ws_drain_statistic": (c_uint64, c_void_p, c_int),
    # ^ 0 blocks, 1 bytes, 2 blocks lost to write errors, 3 rings, 4 rows lost to write errors, 5 errno of the last,
    #   6 rows lost in rings, 7 damaged blocks
    "ws_block_crcs": (None, c_void_p, c_uint64, c_void_p),  # blocks, how many, uint32 for each
    # arena of the calling process without a connection: the launcher's own rows
    "ws_arena_create": (c_int, c_char_p),  # folder in tmpfs or None; fd or -errno
    "ws_write_row": (c_int, c_uint16, c_void_p, c_uint32),
    "ws_intern": (c_uint32, c_char_p, c_uint64),
    # recording in this process (native/runtime)
    "ws_start": (c_int, c_char_p),  # socket path; 0, or -errno
    "ws_stop": (c_int,),
    "ws_recording": (c_int,),
    "ws_flush": (c_int, c_uint32),  # milliseconds at most
    "ws_capture_stack": (c_uint32,),
    "ws_emit": (
        c_int,
        c_char_p,
        c_uint64,
        c_uint64,
        c_char_p,
        c_char_p,
    ),  # name, start, duration, kind, attributes
    "ws_counter": (c_int, c_char_p, c_double, c_char_p, c_int),  # name, value, unit, device
    "ws_step": (c_uint64,),  # iterations so far, this one included
    "ws_push": (c_int, c_char_p, c_char_p),  # name, attributes
    "ws_pop": (c_int,),
    "ws_instant": (c_int, c_char_p, c_char_p),  # name, domain; "warpsight.trigger" asks for what triggers do
    "ws_memory": (c_int, c_int, c_uint64, c_uint64, c_char_p, c_char_p, c_int, c_int),
    # ^ operation 1 allocate 2 free, address, bytes, allocator, tag, category, device
    "ws_now": (c_uint64,),
    "ws_statistics": (c_uint64, c_int),  # 0 rows written, 1 rows dropped
    # stacks without a recording (native/stacks/probe.cpp)
    "ws_stack_take": (c_uint32,),  # id in this process's arena
    "ws_stack_cost": (c_uint64, c_uint32, c_uint32),  # times, bytes used between; median ns
    # samples of other processes' Python threads (native/stacks/remote.cpp); rows go to the caller's arena
    "ws_sampler_open": (c_void_p, c_int),  # pid; NULL when the process has no readable interpreter (yet)
    "ws_sampler_sample": (c_int, c_void_p),  # threads sampled, -ESRCH when it is gone, -EAGAIN when it moved
    "ws_sampler_statistic": (
        c_uint64,
        c_void_p,
        c_int,
    ),  # 0 samples, 1 dropped as torn, 2 taken though the thread moved
    "ws_sampler_close": (None, c_void_p),
}
