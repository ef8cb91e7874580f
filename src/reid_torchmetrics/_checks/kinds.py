"""What came, in words."""

from __future__ import annotations


def kind(value: object) -> str:
    """The type of an argument."""
    return type(value).__name__
