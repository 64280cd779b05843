"""A running recording: the server that receives rows from recorded processes, the launcher, and the in-process API."""
