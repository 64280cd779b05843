"""Exact counts of instructions (`sass counts`): by place, by operation, and what a kernel's work comes to against the device."""
