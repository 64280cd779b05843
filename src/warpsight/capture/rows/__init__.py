"""Converters of record kinds: decoded records to rows of the trace's tables."""
