"""Compares two recordings: what changed, by how much, and whether that exceeds their own noise."""
