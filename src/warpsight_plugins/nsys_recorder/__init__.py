"""NVIDIA's own recorder, Nsight Systems; its files are read by `warpsight.formats.nsys`."""
