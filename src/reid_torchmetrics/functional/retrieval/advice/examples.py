"""Evidence for which exactly one row of the registry fires: small problems, made by hand."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from reid_torchmetrics.functional.retrieval.ranking import PositiveRanks

from .copied_queries import has_copied_queries
from .evidence import ListedItems, RetrievalEvidence

_NUM_QUERIES = 40


def _first_of_many() -> PositiveRanks:
    """Return ranks of queries with one positive, the first of 100 candidates."""
    ones = torch.ones(_NUM_QUERIES, dtype=torch.int64, device="cpu")
    return PositiveRanks(ones, ones, 100 * ones)


def _identities() -> Tensor:
    return torch.arange(_NUM_QUERIES, device="cpu")


def missing_cameras() -> RetrievalEvidence:
    """Name a benchmark without cameras."""
    return RetrievalEvidence(missing_cameras=("market1501", "same_camera='drop'"))


def missing_search_cameras() -> RetrievalEvidence:
    """Search in a camera of another data set."""
    return RetrievalEvidence(missing_search_cameras=(7,))


def missing_items() -> RetrievalEvidence:
    """Give a tenth of the gallery."""
    return RetrievalEvidence(listed_items=ListedItems(num_queries=_NUM_QUERIES, num_listed=1000, num_found=100))


def mixed_roles() -> RetrievalEvidence:
    """Give a batch without `is_query` after others."""
    return RetrievalEvidence(has_mixed_roles=True)


def forgotten_reset() -> RetrievalEvidence:
    """Give the same samples twice."""
    return RetrievalEvidence(num_forgotten=_NUM_QUERIES)


def other_embeddings() -> RetrievalEvidence:
    """Give samples with the numbers of others."""
    return RetrievalEvidence(num_changed=_NUM_QUERIES)


def gathered_samples() -> RetrievalEvidence:
    """Give the same samples to two processes."""
    return RetrievalEvidence(are_gathered=True)


def padded_samples() -> RetrievalEvidence:
    """Give the first samples again at the end of the last process."""
    return RetrievalEvidence(are_padded=True)


def infinite_scores() -> RetrievalEvidence:
    """Give a score of -inf."""
    return RetrievalEvidence(matrix="scores", find_worst=lambda: -math.inf)


def copied_queries() -> RetrievalEvidence:
    """Give queries that are in the gallery, and another gallery item of each identity."""
    # Imported late: relevance is made from labels, which only this example needs.
    from reid_torchmetrics.functional.retrieval.relevance import find_relevance  # noqa: PLC0415
    from reid_torchmetrics.functional.retrieval.scores import Rows  # noqa: PLC0415

    generator = torch.Generator().manual_seed(0)
    gallery = torch.randn(2 * _NUM_QUERIES, 16, generator=generator, dtype=torch.float64, device="cpu")
    relevance = find_relevance(query_identities=_identities(), gallery_identities=_identities().repeat(2))
    rows = Rows([gallery])
    query = Rows([gallery[:_NUM_QUERIES].clone()])
    return RetrievalEvidence(has_copied_queries=lambda: has_copied_queries(query, rows, relevance))


def distances_as_scores() -> RetrievalEvidence:
    """Give a matrix of distances as scores."""
    return RetrievalEvidence(opposite_ranks=_first_of_many(), identities=_identities(), matrix="scores")


def distances_as_similarity() -> RetrievalEvidence:
    """Give a similarity that returns distances."""
    return RetrievalEvidence(opposite_ranks=_first_of_many(), identities=_identities())


def tied_pairs() -> RetrievalEvidence:
    """Give codes of so few bits that half of the pairs tie."""
    return RetrievalEvidence(tied_pairs=(1000, 2000), bounds=(0.2, 0.8))


def unknown_identities() -> RetrievalEvidence:
    """Give queries of the identity -100 that find each other."""
    identities = _identities()
    identities[:5] = -100
    is_valid = torch.ones(_NUM_QUERIES, dtype=torch.bool, device="cpu")
    return RetrievalEvidence(identities=identities, is_valid=is_valid, has_negative=True)


def rounded_positions() -> RetrievalEvidence:
    """Give meters of UTM in float32, with a radius of one meter."""
    meters = 5e6 + torch.arange(20, dtype=torch.float32, device="cpu")[:, None] * 7.5
    positions = meters.expand(20, 2).double()
    return RetrievalEvidence(positions=(positions, positions, 1.0))


def positions_in_degrees() -> RetrievalEvidence:
    """Give degrees of a town, with a radius of 25 meters."""
    steps = torch.arange(20, dtype=torch.float64, device="cpu")[:, None] / 7000
    positions = torch.tensor([48.2, 16.37], dtype=torch.float64, device="cpu") + steps
    return RetrievalEvidence(positions=(positions, positions, 25.0))


def nothing_pooled() -> RetrievalEvidence:
    """Give one image of each query."""
    return RetrievalEvidence(is_unpooled=True)


def boxes_in_shares() -> RetrievalEvidence:
    """Give boxes as shares of the image."""
    generator = torch.Generator().manual_seed(0)
    near = torch.rand(20, 2, generator=generator, dtype=torch.float64, device="cpu") / 2
    return RetrievalEvidence(boxes={"boxes": torch.cat([near, near * 1.5 + 0.1], 1)})
