"""The CUDA driver's devices, and work on them in another process."""
