"""How often the host waits for a device: never while it trains, and a known number of times while it ranks."""

from unittest import mock

import pytest
import torch
from torchmetrics import Metric

from reid_torchmetrics import DetectionMAP, ReIDMeanAP, ReIDMetrics, ReIDMINP, _extras
from reid_torchmetrics.functional.retrieval import evaluate, find_relevance, rank_positives, score_embeddings
from reid_torchmetrics.functional.retrieval.evaluation import ranking
from reid_torchmetrics.functional.retrieval.ranking import nearest, tiles
from reid_torchmetrics.functional.retrieval.scores.rows import Rows
from tests.device.problems import moved, problem
from tests.device.waiting import counted, waits_of
from tests.functional.detection.detection_samples import fed as fed_boxes
from tests.functional.detection.detection_samples import images
from tests.metrics.reid.samples import batches, fed


@pytest.mark.parametrize("with_index", [False, True])
@pytest.mark.parametrize("with_mask", [False, True])
def test_an_update_of_embeddings_does_not_wait(device, with_index, with_mask):
    given = batches()
    for batch in given:
        size = len(batch["identities"])
        if with_mask:
            batch["is_query"] = torch.full((size,), batch["is_query"])
        if with_index:
            batch["index"] = torch.arange(size)
    given, metric = moved(given, device), ReIDMetrics().to(device)
    fed(metric, given)
    waits = waits_of(device, lambda: fed(metric, given))
    assert not waits, waits


def test_an_update_waits_once_for_each_label_that_comes_as_floats(device):
    given = moved(batches(), device)
    for batch in given:
        batch["identities"], batch["cameras"] = batch["identities"].float(), batch["cameras"].half()
    metric = ReIDMetrics().to(device)
    fed(metric, given)
    waits = waits_of(device, lambda: fed(metric, given))
    assert sum(waits.values()) == 2 * len(given), waits


def test_an_update_of_embeddings_runs_a_few_kernels(simulated):
    given, metric = moved(batches(), simulated), ReIDMetrics().to(simulated)
    kernels = counted(lambda: fed(metric, given)).kernels
    # Identities, cameras and roles are copied; the first batch also adds the key of the options.
    assert sum(kernels.values()) <= 3 * len(given) + 1, kernels


def views(device: str) -> list[dict]:
    """Batches whose embeddings are a part of what a model gives."""
    given = moved(batches(), device)
    for batch in given:
        batch["embeddings"] = torch.cat([batch["embeddings"]] * 2, dim=1)[:, :6]
    return given


def test_updates_of_metrics_that_share_a_view_do_not_wait(device):
    given, metrics = views(device), [ReIDMeanAP().to(device), ReIDMINP().to(device)]

    def update():
        for batch in given:
            for metric in metrics:
                metric.update(**batch)

    update()
    waits = waits_of(device, update)
    assert not waits, waits


def test_metrics_that_share_a_view_rank_once(device, monkeypatch):
    counter = mock.Mock(wraps=ranking.count_sharded_ranks)
    monkeypatch.setattr(ranking, "count_sharded_ranks", counter)
    given, metrics = views(device), [ReIDMeanAP().to(device), ReIDMINP().to(device)]
    for batch in given:
        for metric in metrics:
            metric.update(**batch)
    for metric in metrics:
        metric.compute()
    assert counter.call_count == 1


def test_a_view_that_is_filled_again_unnoticed_is_cloned_again(device):
    view, metrics = torch.zeros(8, 4, device=device)[:4], [ReIDMeanAP().to(device), ReIDMINP().to(device)]
    for value in (1, 2, 3):
        for metric in metrics:
            view.data.fill_(value)  # which no count of changes notices, as that of a CUDA graph
            metric.update(view, torch.arange(4, device=device))
    assert [[float(block[0, 0]) for block in metric.embeddings] for metric in metrics] == [[1, 2, 3]] * 2


@pytest.mark.parametrize("kind", [int, str, torch.tensor, "on the device"])
@pytest.mark.parametrize("size", [10, 40])
def test_an_update_of_boxes_waits_once_a_batch(device, size, kind):
    preds, target = moved(images(53, 40, with_ids=True), device)
    for item in target:
        number = item["image_id"]
        item["image_id"] = torch.tensor([number], device=device) if kind == "on the device" else kind(number)
    metric = DetectionMAP().to(device)
    fed_boxes(metric, preds, target, size=size)
    waits = waits_of(device, lambda: fed_boxes(metric, preds, target, size=size))
    assert sum(waits.values()) == 40 // size, waits


def test_neither_waits_nor_kernels_grow_with_the_number_of_batches(simulated):
    def counts(metric: Metric) -> tuple[int, int]:
        found = counted(metric.compute)
        return sum(found.waits.values()), sum(found.kernels.values())

    def ranking(size: int) -> tuple[int, int]:
        return counts(fed(ReIDMeanAP().to(simulated), moved(batches(size=size), simulated)))

    def matching(size: int) -> tuple[int, int]:
        return counts(fed_boxes(DetectionMAP().to(simulated), *moved(images(53, 20), simulated), size=size))

    assert ranking(31) == ranking(3)
    matching(5)  # constants are made once in a process
    assert matching(10) == matching(2)


@pytest.mark.parametrize(
    ("ties", "most"), [("pessimistic", 7), ("optimistic", 7), ("grouped", 9), ("stable", 9), ("expected", 9)]
)
def test_a_tile_of_queries_waits_a_few_times(simulated, ties, most):
    given = [
        values.repeat(3, *[1] * (values.ndim - 1)) if place % 2 == 0 else values
        for place, values in enumerate(problem())
    ]
    given, options = moved(given, simulated), {"similarity": "dot", "ties": ties, "junk_identities": ()}
    waits, num_tiles = [], []
    for options["max_bytes"] in (10**6, 10**5):  # of 30 queries all in one tile, or about ten in each
        with mock.patch.object(tiles.Tiles, "read", autospec=True, side_effect=tiles.Tiles.read) as ranked:
            found = waits_of(simulated, lambda: rank_positives(*given, **options))
        waits.append(sum(found.values()))
        num_tiles.append(ranked.call_count)
    assert num_tiles[0] < num_tiles[1]
    assert waits[1] - waits[0] <= most * (num_tiles[1] - num_tiles[0]), found


def many_samples(device: str) -> list[torch.Tensor]:
    """Embeddings, identities and cameras of 500 queries and 3,000 gallery items, which lie around 151 centers."""
    generator, sizes = torch.Generator().manual_seed(0), (500, 3000)
    identities = [torch.randint(0, 151, (size,), generator=generator) for size in sizes]
    cameras = [torch.randint(0, 6, (size,), generator=generator) for size in sizes]
    centers = torch.randn(151, 16, generator=generator)
    embeddings = [centers[labels] + torch.randn(len(labels), 16, generator=generator) / 2 for labels in identities]
    return moved([*embeddings, *identities, *cameras], device)


def test_a_ranking_that_fits_into_memory_takes_few_kernels_and_waits(simulated_gpu):
    sides = many_samples(simulated_gpu)
    counts = counted(lambda: rank_positives(*sides, max_bytes=10**10))
    assert sum(counts.kernels.values()) <= 200, counts.kernels
    assert sum(counts.waits.values()) <= 10, counts.waits


def test_rows_of_many_updates_are_joined_by_one_kernel(simulated_gpu):
    embeddings = torch.randn(640, 8, device=simulated_gpu)
    expected = embeddings.sum(dim=1)
    for dtypes in ([torch.float32], [torch.float32, torch.float16]):
        blocks = [block.to(dtypes[number % len(dtypes)]) for number, block in enumerate(embeddings.split(10))]
        rows = Rows(blocks)
        counts = counted(lambda rows=rows: rows.all())
        assert sum(counts.kernels.values()) <= 2, counts.kernels
        torch.testing.assert_close(rows.all().sum(dim=1), expected, rtol=0.1, atol=0.1)


def test_a_look_at_a_ranking_waits_a_few_times(simulated_gpu):
    query, gallery, *labels = many_samples(simulated_gpu)
    with mock.patch.object(_extras, "diagnosis", None):
        without = counted(lambda: evaluate(query, gallery, *labels))
    counts = counted(lambda: evaluate(query, gallery, *labels))
    assert sum(counts.waits.values()) <= sum(without.waits.values()) + 60, counts.waits


def test_lists_that_fit_into_memory_take_few_kernels_and_waits(simulated_gpu):
    query, gallery, *labels = many_samples(simulated_gpu)

    def list_nearest() -> None:
        relevance = find_relevance(*labels)
        scores = score_embeddings(query, gallery, relevance, max_bytes=10**10)
        nearest(scores, relevance, 10, ties="pessimistic")

    counts = counted(list_nearest)
    assert sum(counts.kernels.values()) <= 350, counts.kernels
    assert sum(counts.waits.values()) <= 15, counts.waits
