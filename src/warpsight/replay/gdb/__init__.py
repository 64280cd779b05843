"""A capsule's operations under a debugger that speaks GDB's remote protocol.

The debugger sees a program with one instruction per operation, 16 bytes apart. It can break at operations, step over them, and
read, write and watch the device's memory in between.
"""
