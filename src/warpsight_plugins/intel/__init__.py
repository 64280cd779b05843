"""Intel's GPUs: the devices."""
