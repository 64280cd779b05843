"""Changes to a kernel: each optimizer matches blamed stalls and estimates the saving of removing them."""
