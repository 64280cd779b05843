"""CUDA, which the core records itself: inside the program, through CUPTI."""
