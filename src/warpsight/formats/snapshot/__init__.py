"""Memory snapshots of frameworks."""
