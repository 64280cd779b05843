"""Delay plans, searches for races and their verdicts for people."""
