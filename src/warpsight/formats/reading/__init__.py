"""Shared parts of readers: sources, text columns, JSON in pieces, ids."""
