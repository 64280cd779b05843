"""The options of a recording: one table, and everything derived from it."""
