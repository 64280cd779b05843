"""Capsules that were forged or damaged, by seed, and what becomes of them."""
