"""Expectations over galleries that a protocol draws at random."""

from .drawn_galleries import DRAWN_TIES, expect_draws
from .strata import GalleryDraw
