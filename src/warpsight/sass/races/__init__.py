"""Happens-before race detection on event traces."""
