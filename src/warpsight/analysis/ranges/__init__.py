"""Ranges of the program (NVTX, annotations, operators) and the device work launched in them."""
