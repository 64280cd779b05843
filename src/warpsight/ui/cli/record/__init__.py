"""Verbs that record, and that work with running recordings."""
