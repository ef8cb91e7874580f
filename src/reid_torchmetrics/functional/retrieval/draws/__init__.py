"""Expectations over galleries that a protocol draws at random."""

from .drawn_galleries import DRAWN_TIES, DrawnResults, expect_draws
from .sampled_galleries import SampledDraws, sample_draws
from .strata import GalleryDraw
