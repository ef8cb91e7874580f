"""Expectations over galleries that a protocol draws at random."""

from reid_torchmetrics.functional.retrieval.draws.drawn_galleries import DRAWN_TIES, DrawnResults, expect_draws
from reid_torchmetrics.functional.retrieval.draws.sampled_galleries import SampledDraws, sample_draws
from reid_torchmetrics.functional.retrieval.draws.strata import GalleryDraw
