"""A capsule's operations under a debugger that speaks GDB's remote protocol.

To the debugger the operations are a program of one instruction each, 16 bytes apart: it breaks at them, steps over them, and
reads, writes and watches the device's memory between them.
"""
