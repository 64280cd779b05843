"""Trials in one process: `python trials.py PROGRAM.so LAUNCHES` calls the program's main again and again."""

from __future__ import annotations

import ctypes
import sys

import warpsight as ws

program = ctypes.CDLL(sys.argv[1])
words = (ctypes.c_char_p * 3)(b"trial", sys.argv[2].encode(), None)


@ws.race.trial
def launches() -> bool:
    """Whether all launches were right."""
    return bool(program.main(2, words) == 0)


launches()
