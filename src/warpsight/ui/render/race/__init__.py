"""Delay plans, searches for races and their verdicts, formatted for people."""
