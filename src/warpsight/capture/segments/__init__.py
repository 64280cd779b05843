"""The byte layout of rings and segment files, and reading and writing them."""
