"""Capsules as they lie on disk: made of what a process left, read, checked."""
