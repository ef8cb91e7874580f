"""Products on a device: one shape for all, so that a library takes one kernel, and scores at a few columns."""

from unittest import mock

import pytest
import torch

from reid_torchmetrics.functional.retrieval import rank_positives
from reid_torchmetrics.functional.retrieval.scores import SIMILARITIES, EmbeddingScores, Rows
from reid_torchmetrics.functional.retrieval.scores.products import full_precision, product, shape_on
from tests.device.problems import moved, problem

SIZES = [(1, 1), (3, 60), (20, 49), (17, 96), (16, 150)]


def scale_by_block(products: torch.Tensor, items: slice, out: torch.Tensor) -> None:
    torch.mul(products, 2 + items.start % 2, out=out)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_product_is_that_of_the_cpu(full_device, dtype):
    for num_queries, num_items in SIZES:
        generator = torch.Generator().manual_seed(0)
        query, gallery = (torch.randn(size, 50, generator=generator, dtype=dtype) for size in (num_queries, num_items))
        out = torch.empty(num_queries, num_items + 3, dtype=dtype, device=full_device)[:, 1:-2]
        with full_precision(torch.device(full_device), foreign=False):
            product(*moved([query, gallery], full_device), out, scale_by_block)
        rows = shape_on(out.device)
        factor = 2 + torch.arange(0, num_items, rows.columns).repeat_interleave(rows.columns)[:num_items] % 2
        torch.testing.assert_close(out.cpu(), (query @ gallery.T) * factor, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("max_bytes", [1 << 10, 1 << 14, 1 << 20])
def test_every_product_of_a_ranking_has_one_shape(simulated, max_bytes):
    given, shape = moved(problem(), simulated), shape_on(torch.device(simulated))
    with mock.patch.object(torch, "mm", wraps=torch.mm) as multiplied:
        rank_positives(*given, max_bytes=max_bytes)
    seen = {
        (*left.shape, *right.shape, each.kwargs["out"].stride())
        for each in multiplied.mock_calls
        for left, right in [each.args]
    }
    assert seen == {(shape.rows, 4, 4, shape.columns, (shape.columns, 1))}


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_scores_at_a_few_columns_have_the_bits_of_whole_tiles(full_device, similarity):
    query, gallery = moved(problem()[:2], full_device)
    kept = torch.arange(0, 60, 2, device=full_device)
    for rows in (Rows(gallery.split(25)), Rows([gallery], kept)):
        scores = EmbeddingScores(Rows([query]), rows, similarity=similarity, max_bytes=10**5)
        columns = torch.arange(7 * len(query), device=full_device).view(len(query), 7) % rows.size
        assert torch.equal(scores.at(slice(0, len(query)), columns), scores.all().gather(1, columns))


def test_panels_on_a_device_need_one_product(simulated):
    given = [torch.randn(30, 4), torch.randn(600, 4), torch.arange(30), torch.arange(600) % 200]
    filled, fill = [], EmbeddingScores.fill

    def counted(self, out, *tile):
        filled.append(out.numel())
        fill(self, out, *tile)

    with mock.patch.object(EmbeddingScores, "fill", counted):
        rank_positives(*moved(given, simulated), max_bytes=50_000)
    assert len(filled) > 1
    assert sum(filled) < 1.4 * 30 * 600  # panels overlap
