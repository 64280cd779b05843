"""Inspects running processes from outside: their identity, and the state and stack of each thread."""
