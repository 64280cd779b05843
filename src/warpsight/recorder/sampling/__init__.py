"""Samples that the launcher takes: GPU counters and host threads."""
