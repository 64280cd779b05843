"""What names of kernels, API functions and collectives say."""
