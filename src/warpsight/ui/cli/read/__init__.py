"""Verbs that read traces."""
