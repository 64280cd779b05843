"""`warpsight sass`: verbs about CUTracer's files."""
