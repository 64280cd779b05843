"""Folded stacks, plain and with times."""
