"""Event traces: made by tools inside the program, and what is read out of them."""
