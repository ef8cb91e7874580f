"""Identities that are numbered in another way on one side are told; models that are bad in any other way are not."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from reid_torchmetrics import evaluate
from tests.diagnosis.contract import told_by
from tests.profiles import each_row

SIDES = (2, 3)
"""number of queries and of gallery items of each identity"""


def samples(number: int, noise: float, dim: int = 32, seed: int = 0) -> tuple[list[Tensor], list[Tensor]]:
    """Embeddings around the center of their identity, and identities, of both sides."""
    torch.manual_seed(seed)
    centers = torch.randn(number, dim)
    identities = [torch.arange(number).repeat(times) for times in SIDES]
    return [centers[side] + noise * torch.randn(len(side), dim) for side in identities], identities


def is_told(query: Tensor, gallery: Tensor, identities: list[Tensor], similarity: str = "cosine") -> bool:
    texts = told_by(lambda: evaluate(query, gallery, *identities, similarity=similarity))
    return any("numbered in another way" in text for text in texts)


@pytest.mark.parametrize("number", [30, 100, 400])
@pytest.mark.parametrize("noise", [0.1, 0.5, 0.8])
def test_identities_in_another_order_are_told_and_those_in_one_order_are_not(number, noise):
    (query, gallery), (query_identities, gallery_identities) = samples(number, noise)
    renumbered = torch.randperm(number)[query_identities]
    assert is_told(query, gallery, [renumbered, gallery_identities])
    assert not is_told(query, gallery, [query_identities, gallery_identities])


def test_own_counting_beside_numbers_of_a_larger_gallery_is_told():
    (query, gallery), (query_identities, gallery_identities) = samples(200, 0.5)
    is_kept = query_identities % 3 > 0
    counted = query_identities[is_kept].unique(return_inverse=True)[1]
    assert is_told(query[is_kept], gallery, [counted, gallery_identities])


def test_few_identities_show_nothing():
    (query, gallery), (query_identities, gallery_identities) = samples(15, 0.1)
    assert not is_told(query, gallery, [query_identities.roll(1), gallery_identities])


BAD: dict[str, Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    "untrained": lambda query, gallery: (torch.randn_like(query), torch.randn_like(gallery)),
    "collapsed": lambda query, gallery: (1 + 1e-3 * query, 1 + 1e-3 * gallery),
    "constant": lambda query, gallery: (torch.ones_like(query), torch.ones_like(gallery)),
    "two networks": lambda query, gallery: (
        query @ torch.linalg.qr(torch.randn(len(query.T), len(query.T)))[0],
        gallery,
    ),
    "another domain": lambda query, gallery: (query + 3 * torch.randn(len(query.T)), gallery),
    "another scale": lambda query, gallery: (query * torch.rand(len(query.T)) ** 4, gallery),
    "mirrored": lambda query, gallery: (-query, gallery),
    "half": lambda query, gallery: (torch.cat([query[:, ::2], torch.randn_like(query[:, 1::2])], 1), gallery),
}
"""changes of embeddings of a good model"""


@each_row("change", BAD)
@pytest.mark.parametrize("dim", [2, 8, 64])
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_bad_models_and_other_domains_are_not_told(change, dim, noise):
    for number in (20, 40, 200):
        (query, gallery), identities = samples(number, noise, dim, seed=number)
        for similarity in ("cosine", "euclidean", "dot"):
            assert not is_told(*BAD[change](query, gallery), identities, similarity)
