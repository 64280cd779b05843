"""Apple's GPUs: Instruments, and the devices."""
