"""Copies by the TMA: tensor maps, the operands of its instructions, and what a copy touches."""
