"""A number of drawn galleries is a sum whose order depends on the path: of the same problem only last digits differ."""

from functools import partial

import pytest
import torch

from reid_torchmetrics import ReIDMetrics
from reid_torchmetrics.functional.retrieval import evaluate
from tests import closeness
from tests.paths import taking

RELATIVE = 1e-13
PROTOCOLS = ["cuhk03_torchreid", "sysu_mm01_all_multi", "vehicleid"]


def sides_of(protocol):
    """Embeddings, identities and cameras of queries and of gallery items, or of all items."""
    random = torch.Generator().manual_seed(3)
    sizes = [40] if protocol == "vehicleid" else [10, 40]
    of_identity, cameras = torch.randn(6, 8, generator=random), (torch.tensor([3, 6]), torch.tensor([1, 2, 4, 5]))
    sides = []
    for size, numbers in zip(sizes, cameras, strict=False):
        identities = torch.randint(6, (size,), generator=random)
        embeddings = of_identity[identities] + 2 * torch.randn(size, 8, generator=random)
        sides.append((embeddings, identities, numbers[torch.randint(len(numbers), (size,), generator=random)]))
    return sides


def results_of(protocol, sides, **options):
    """Of the function."""
    query, *gallery = sides
    if not gallery:
        return evaluate(query[0], None, query[1], protocol=protocol, **options)
    labels = [values for label in zip(query[1:], gallery[0][1:], strict=True) for values in label]
    return evaluate(query[0], gallery[0][0], *labels, protocol=protocol, **options)


def numbers(protocol, sides, **options):
    """All means, and the CMC."""
    results = results_of(protocol, sides, **options)
    return torch.cat([torch.tensor([*results.means.values()], dtype=torch.float64), results.cmc.double()])


assert_close = partial(closeness.assert_close, rtol=RELATIVE)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_memory_order_and_ways_to_count_change_last_digits_at_most(protocol):
    sides = sides_of(protocol)
    expected = numbers(protocol, sides)
    assert_close(numbers(protocol, sides, max_bytes=3000), expected)
    for patch in (taking(small_strata=0), taking(integrated_positives=3)):
        with patch:
            assert_close(numbers(protocol, sides), expected)
    orders = [torch.randperm(len(side[0]), generator=torch.Generator().manual_seed(0)) for side in sides]
    shuffled = [tuple(values[order] for values in side) for side, order in zip(sides, orders, strict=True)]
    assert_close(numbers(protocol, shuffled), expected)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_metric_has_the_bits_of_the_function_however_batches_come(protocol):
    sides = sides_of(protocol)
    embeddings, identities, cameras = (torch.cat(values) for values in zip(*sides, strict=True))
    is_query = torch.arange(len(embeddings)) < len(sides[0][0])
    order = torch.randperm(len(embeddings), generator=torch.Generator().manual_seed(0))
    metric = ReIDMetrics(protocol=protocol)
    for index in order.split(9):
        roles = {"is_query": is_query[index]} if len(sides) > 1 else {}
        metric.update(embeddings[index], identities[index], cameras[index] if roles else None, index=index, **roles)
    assert metric.results().to_dict() == results_of(protocol, sides).to_dict()
