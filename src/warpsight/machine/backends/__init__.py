"""The backends of `record --backend`: recorders of programs, and sources of device data."""
