"""Expectations over galleries that a protocol draws at random."""
# mypy: implicit-reexport

from .drawn_galleries import DRAWN_TIES, expect_draws
from .strata import GalleryDraw
