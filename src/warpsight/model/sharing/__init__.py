"""Traces to share: redacted, packed."""
