"""SBT 0.1, TraceSmith's binary trace: read and written byte for byte as TraceSmith 0.8 to 0.11 does."""
