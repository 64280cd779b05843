"""Device code and its names."""
