"""Flame graphs: where device time, launches, bytes or host samples come from."""
