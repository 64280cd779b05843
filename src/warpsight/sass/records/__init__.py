"""Records of instruction traces in files: conditions on them, counts, checks."""
