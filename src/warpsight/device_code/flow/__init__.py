"""Control flow of device code: blocks, loops, live registers."""
