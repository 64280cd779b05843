"""The meaning of names of kernels, API functions and collectives."""
