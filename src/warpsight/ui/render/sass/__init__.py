"""What is known of single instructions, for people."""
