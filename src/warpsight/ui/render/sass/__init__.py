"""Facts about single instructions, for display."""
