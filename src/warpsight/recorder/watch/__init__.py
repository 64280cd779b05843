"""Watching a program for hangs and crashes: GPU core dumps armed, progress followed, everything gathered when it stops."""
