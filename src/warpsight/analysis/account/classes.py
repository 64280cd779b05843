"""The classes of the account, into which a device's time is divided."""

from __future__ import annotations

#: A device computes while a kernel other than a collective runs, communicates while only collectives (and copies) run, and copies
#: while only copies and fills run. The other classes are idle time, by cause.
CLASSES = (
    "compute",
    "communication",
    "copy",
    "launch",
    "blocked_call",
    "host",
    "other_stream",
    "recorder",
    "unknown",
)
COMPUTE, COMMUNICATION, COPY, LAUNCH, BLOCKED_CALL, HOST, OTHER_STREAM, RECORDER, UNKNOWN = range(
    len(CLASSES)
)
#: Classes of idle time.
IDLE = (LAUNCH, BLOCKED_CALL, HOST, OTHER_STREAM, RECORDER, UNKNOWN)
#: The meaning of each class, for legends and help.
MEANING = {
    "compute": "kernels",
    "communication": "collectives that no kernel hides",
    "copy": "copies and fills that no kernel hides",
    "launch": "inside launch calls, and from them to the device",
    "blocked_call": "in API calls that hold the host: waits, allocation, loading of code, blocking copies",
    "host": "the host's own code before the next launch",
    "other_stream": "the next work was launched and waited for another stream, device or rank",
    "recorder": "the recorder's own work",
    "unknown": "the trace does not show why",
}
