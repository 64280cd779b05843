"""Event traces: the actions of single instructions of a kernel, recorded by `warpsight sass trace`."""
