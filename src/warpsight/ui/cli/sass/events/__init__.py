"""`warpsight sass`: verbs that record single instructions, and read such files."""
