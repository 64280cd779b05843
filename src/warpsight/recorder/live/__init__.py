"""A recording in progress, read from its segments."""
