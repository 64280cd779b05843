"""Capsules on disk: made from a process's output, read, checked."""
