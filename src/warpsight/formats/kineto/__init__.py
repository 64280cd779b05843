"""Kineto's JSON: what torch.profiler writes on CUDA, ROCm, XPU and MTIA."""
