"""The options of a recording: one table, and everything made from it."""
