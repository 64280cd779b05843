"""The waits of a dump's warps, and the dependencies between them."""
