"""Recording known programs: for `bench` and `doctor --selftest`."""
