"""What the rules have in common: their input, evidence and savings."""
