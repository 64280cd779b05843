"""Changes to a kernel: each optimizer matches blamed stalls and estimates what removing them saves."""
