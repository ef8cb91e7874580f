"""Slow, obvious references, written from the definitions and not from the package."""
