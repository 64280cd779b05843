"""Verbs about this machine."""
