"""The iterations of a program's main loop, the phases of each, and sequences that repeat."""
