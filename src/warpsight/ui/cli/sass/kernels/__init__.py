"""`warpsight sass`: verbs about a kernel's time, counts and code."""
