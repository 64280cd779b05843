"""Theoretical occupancy of kernels."""
