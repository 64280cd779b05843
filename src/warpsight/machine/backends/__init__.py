"""The backends of `record --backend`: what records programs on this machine, and what describes devices."""
