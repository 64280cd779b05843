"""Event traces: tools inside the program that make them, and questions about them."""
