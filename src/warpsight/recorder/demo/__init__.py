"""Programs that `warpsight demo` records: heat spreading over a plate, on OpenCL, PyTorch or CuPy."""
