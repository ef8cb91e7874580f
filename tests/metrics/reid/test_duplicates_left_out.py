"""Numbers without the queries that have a near copy, by the results of functions and of metrics."""

import pytest
import torch

from reid_torchmetrics import ReIDMetrics, evaluate
from reid_torchmetrics.functional.retrieval import find_duplicates

# Five pairs of copies, each of one identity, and ten vectors at right angles to all others: a query finds its copy, or
# nothing of its own identity first.
EMBEDDINGS = torch.cat([torch.eye(15)[:5], torch.eye(15)])
IDENTITIES = torch.cat([torch.arange(5), torch.arange(5), torch.arange(10) // 2 + 5])


def metric(index=None):
    made = ReIDMetrics(protocol="cub200", reports=("hit_rate_1",))
    made.update(EMBEDDINGS, IDENTITIES, index=index)
    return made


def test_both_items_of_a_pair_of_copies_are_left_out_if_each_is_searched_among_the_others():
    results = metric().results()
    duplicates = metric().duplicates()
    assert duplicates.affected_queries.tolist() == list(range(10))
    # The ten others tie with all items, which counts against them.
    assert results["hit_rate_1"] == 10 / 20
    assert results.means_without(duplicates)["hit_rate_1"] == 0
    assert results.means_without(duplicates.query)["hit_rate_1"] == pytest.approx(5 / 15)


def test_numbers_of_samples_with_an_index_leave_out_the_same_queries():
    index = torch.randperm(20, generator=torch.Generator().manual_seed(0)) + 100
    indexed = metric(index)
    results = indexed.results()
    duplicates = indexed.duplicates()
    affected = results.query_index[duplicates.affected_queries]
    assert affected.tolist() == sorted(index[:10].tolist())
    assert results.means_without(duplicates)["hit_rate_1"] == 0


def test_queries_with_a_copy_in_the_other_set_are_left_out():
    query, gallery = EMBEDDINGS[8:12], EMBEDDINGS[:9]
    options = {"reports": ["rank_1"]}
    results = evaluate(query, gallery, IDENTITIES[8:12], IDENTITIES[:9], **options, empty_target_action="neg")
    duplicates = find_duplicates(query, gallery)
    assert duplicates.affected_queries.tolist() == [0, 1]
    assert results["rank_1"] == 0.5
    assert results.means_without(duplicates)["rank_1"] == 0


def of_processes(process: int, size: int) -> float:
    made = ReIDMetrics(protocol="cub200", reports=("hit_rate_1",))
    own = torch.arange(process, 20, size)
    made.update(EMBEDDINGS[own], IDENTITIES[own], index=own)
    return made.results().means_without(made.duplicates())["hit_rate_1"]


def test_processes_leave_out_the_same_queries_together(processes):
    assert processes.run(2, of_processes) == [0.0, 0.0]
