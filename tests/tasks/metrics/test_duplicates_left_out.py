"""Numbers without the queries that have a near copy, by the results of functions and of metrics."""

from dataclasses import replace

import pytest
import torch

from reid_torchmetrics import ReIDMetrics, evaluate, evaluate_scores, write_report
from reid_torchmetrics.functional.retrieval import RetrievalResults
from reid_torchmetrics.tasks import find_duplicates

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


QUERY, GALLERY = EMBEDDINGS[8:12], EMBEDDINGS[:9]
LABELS = (IDENTITIES[8:12], IDENTITIES[:9])


def of_metric(**options):
    made = ReIDMetrics(**options)
    for rows, identities, role in ((QUERY, LABELS[0], True), (GALLERY, LABELS[1], False)):
        made.update(rows, identities, is_query=role)
    return made


def loaded(tmp_path):
    return RetrievalResults.load(evaluate(QUERY, GALLERY, *LABELS).save(tmp_path / "results.npz"))


RESULTS = {
    "evaluate": lambda _: evaluate(QUERY, GALLERY, *LABELS),
    "evaluate, float64": lambda _: evaluate(QUERY.double(), GALLERY.double(), *LABELS),
    "a metric": lambda _: of_metric().results(),
    "a metric with rules of the CMC": lambda _: of_metric(cmc_same_camera="keep").results(),
    "the first direction": lambda _: of_metric(directions=("a2b", "b2a")).results(direction="a2b"),
    "a file": loaded,
    "scores": lambda _: evaluate_scores(QUERY @ GALLERY.T, *LABELS),
}
OTHERS = {
    "the gallery alone": (lambda: find_duplicates(GALLERY), "got those of 9 samples. Near duplicates within a gallery"),
    "other queries": (lambda: find_duplicates(QUERY[:3], GALLERY), "of the 4 queries of the results; got those of 3"),
    "as many items of the gallery": (lambda: find_duplicates(GALLERY[:4], QUERY), "got those of 4 samples with other"),
    "the queries in another order": (lambda: find_duplicates(QUERY.flip(0), GALLERY), "or in another order. If only"),
    "as many items within one set": (lambda: find_duplicates(GALLERY[:4]), "within a gallery alone affect no query"),
    "the other direction": (lambda: of_metric(directions=("a2b", "b2a")).duplicates(direction="b2a"), "got those of 9"),
}


@pytest.mark.parametrize("results", RESULTS)
def test_pairs_of_other_samples_than_the_queries_are_refused_by_all_results(tmp_path, results):
    evaluated = RESULTS[results](tmp_path)
    for duplicates in (find_duplicates(QUERY, GALLERY), of_metric().duplicates()):
        expected = evaluated.means_without(torch.tensor([0, 1]))
        assert evaluated.means_without(duplicates) == pytest.approx(expected, nan_ok=True)
    for find, words in OTHERS.values():
        duplicates = find()
        if results == "scores" and duplicates.num_queries == 4:
            continue  # scores do not tell the embeddings
        with pytest.raises(ValueError, match="`queries` must be near duplicates of the 4 queries") as error:
            evaluated.means_without(duplicates)
        assert words in str(error.value)
        if duplicates.num_queries != 4:
            continue
        same_queries = replace(duplicates, query_hash=None)
        evaluated.means_without(same_queries)


def test_a_report_refuses_pairs_of_other_samples(tmp_path):
    results = RESULTS["evaluate"](tmp_path)
    for find, words in OTHERS.values():
        with pytest.raises(ValueError, match="`duplicates` must be near duplicates of the 4 queries") as error:
            write_report(results, tmp_path / "page.html", duplicates=find())
        assert words in str(error.value)


def of_processes(process: int, size: int) -> float:
    made = ReIDMetrics(protocol="cub200", reports=("hit_rate_1",))
    own = torch.arange(process, 20, size)
    made.update(EMBEDDINGS[own], IDENTITIES[own], index=own)
    return made.results().means_without(made.duplicates())["hit_rate_1"]


def test_processes_leave_out_the_same_queries_together(processes):
    assert processes.run(2, of_processes) == [0.0, 0.0]
