"""What the warps of a dump wait for, and who waits for whom."""
