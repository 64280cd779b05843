"""Exact counts of instructions (`sass counts`): by place, by operation, and relative to the device's peaks."""
