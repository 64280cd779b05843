"""Operators of a framework and modules of a model: what they cost, and how well they used the device."""
