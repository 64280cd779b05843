"""Samples taken by the launcher: GPU counters and host threads."""
