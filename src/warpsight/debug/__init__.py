"""The state of a hung or crashed GPU program: core dumps, cuda-gdb, Compute Sanitizer."""
