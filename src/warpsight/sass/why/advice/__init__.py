"""What to change in a kernel: each optimizer matches blamed stalls and estimates what their end would save."""
