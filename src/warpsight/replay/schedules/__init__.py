"""Other schedules of a capsule's operations, and their predicted effect."""
