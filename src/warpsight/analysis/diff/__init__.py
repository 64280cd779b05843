"""Two recordings compared: what changed, by how much, and whether that is more than their own noise."""
