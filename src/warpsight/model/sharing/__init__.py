"""Traces as they are given to others: redacted, packed."""
