"""Event traces: what single instructions of a kernel did, recorded by `warpsight sass trace`."""
