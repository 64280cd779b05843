"""What a hung or crashed GPU program was doing: core dumps, cuda-gdb, Compute Sanitizer."""
