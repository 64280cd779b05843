"""OpenCL, which the core records itself: inside the program, as a layer of the loader."""
