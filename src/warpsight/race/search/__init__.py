"""Searching plans and sequences for what makes a program fail, with runs that do not always tell."""
