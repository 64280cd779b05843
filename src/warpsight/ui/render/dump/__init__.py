"""Core dumps and hangs for people."""
