"""What a worker of a job does that never ends."""

import os
import tempfile
import threading


def stay(pipe):
    """Make a temporary file, say so, and wait."""
    with tempfile.NamedTemporaryFile():
        with open(pipe, "w") as told:
            told.write(f"{os.getpid()}\n")
        threading.Event().wait()
