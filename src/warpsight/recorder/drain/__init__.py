"""Rings to segment files: connections of recorded processes, the drainer thread, the converter process."""
