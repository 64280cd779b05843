"""Flame graphs as pages, pictures and text."""
