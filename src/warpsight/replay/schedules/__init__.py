"""Other schedules of a capsule's operations, and what they are predicted to bring."""
