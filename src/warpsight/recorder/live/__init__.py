"""A recording while it runs, read from its segments."""
