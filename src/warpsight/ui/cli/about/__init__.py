"""Verbs about warpsight itself."""
