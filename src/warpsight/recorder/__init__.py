"""A recording as it runs: the server that takes rows from recorded processes, the launcher, and the in-process API."""
