"""AMD's GPUs: ROCm programs recorded through rocprofiler-sdk or rocprofv3, and the devices."""
