"""Expectations over galleries that a protocol draws at random."""
# mypy: implicit-reexport

from .drawn_galleries import expect_draws
