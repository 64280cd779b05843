"""Verbs about core dumps, memory errors and captured kernels."""
